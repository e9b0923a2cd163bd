"""From the news of files to what the watches know.

Above: supervisor.  Below: table, watch, watching.
"""

from collections.abc import Sequence

from lifebus_supervisor.supervision.table import Watches
from lifebus_supervisor.supervision.watch import Watch
from lifebus_supervisor.watching.found import Found

__all__ = ["match_news", "note_problems", "take_news"]


def match_news(found: Sequence[Found], watches: Watches) -> list[tuple[Watch, Found]]:
    """Return each piece of news with the session it is about; one of a database may be about several.

    A session that nobody knew gets a quiet watch.  A problem with a file that belongs to nobody is nobody's.
    """
    matched: list[tuple[Watch, Found]] = []
    for news in found:
        sessions = {fact.session for fact in news.facts}
        if news.session is not None:
            sessions.add(news.session)
        for session in sorted(sessions):
            watch = watches.get((news.adapter_id, session))
            if watch is None and news.facts:
                watch = watches.open((news.adapter_id, session))
                watch.quiet = True
            if watch is not None:
                matched.append((watch, news))
    return matched


def take_news(matched: Sequence[tuple[Watch, Found]], *, tick: int, now: float, settle_s: float) -> None:
    """Let the watches take the facts; `settle_s` is for how long after a hook its telemetry may be on the way."""
    for watch, news in matched:
        if watch.quiet and (not news.history or (watch.state.last_event is not None and not watch.state.ended)):
            watch.quiet = False
        settled = watch.hook_at is None or now - watch.hook_at > settle_s
        for fact in news.facts:
            if fact.session == watch.key[1]:
                watch.take(fact, news.source_id, tick, settled=settled, history=news.history)
        if news.grown:
            watch.grown_at, watch.idle_ticks = now, 0
        if news.history:
            watch.settle_proofs()
        if news.problem is None:
            watch.files.add(news.path)
        watch.unreadable = news.unreadable_run
        if news.problem or news.unreadable_run:
            watch.problem = news.evidence or f"{news.source_id}: {news.unreadable_run} unreadable records in a row"


def note_problems(matched: Sequence[tuple[Watch, Found]], watches: Watches) -> None:
    """Count, once a tick, for how many polls the sessions have been without their telemetry.

    A file that was never there is not missed before the first turn: Claude Code makes its transcript only then.
    """
    missing = {watch.key for watch, news in matched if news.problem in {"missing", "refused", "unreadable"}}
    hung = {watch.key for watch, news in matched if news.problem == "hung"}
    fine = {watch.key for watch, news in matched if news.problem is None}
    for watch in watches:
        due = bool(watch.files or watch.turns)
        watch.missing = watch.missing + 1 if due and watch.key in missing - fine else 0
        watch.hung = watch.hung + 1 if watch.key in hung - fine else 0
