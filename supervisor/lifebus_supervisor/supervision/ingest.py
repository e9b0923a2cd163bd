"""From the news of files to what the watches know."""

from collections.abc import Sequence

from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.session_monitor import Key, SessionMonitor
from lifebus_supervisor.tailing.events import Found, Problem


def match_news(found: Sequence[Found], watches: MonitorTable) -> list[tuple[SessionMonitor, Found]]:
    """Return each piece of news with the sessions it is about.

    A session that nobody knew gets a quiet watch.  What is wrong with a database concerns all sessions that it has told
    of; a problem with a file that belongs to nobody is nobody's.
    """
    matched: list[tuple[SessionMonitor, Found]] = []
    for news in found:
        sessions = _told_of(news)
        for session in sorted(sessions):
            watch = watches.get((news.adapter_id, session))
            if watch is None and news.facts:
                watch = watches.open((news.adapter_id, session))
                watch.quiet = True
            if watch is not None:
                matched.append((watch, news))
        if news.session is None:
            matched += [(watch, news) for watch in watches if _shares(watch, news) and watch.key[1] not in sessions]
    return matched


def take_news(matched: Sequence[tuple[SessionMonitor, Found]], *, tick: int, now: float, settle_s: float) -> None:
    """Let the watches take the facts; `settle_s` is for how long after a hook its telemetry may be on the way."""
    for watch, news in matched:
        if watch.key[1] in _told_of(news):
            _take_facts(watch, news, tick=tick, now=now, settle_s=settle_s)
        if news.problem is None:
            if news.facts or news.path not in watch.files:
                watch.files.pop(news.path, None)  # the one that told last stands last
            watch.files[news.path] = news.unreadable_run
        if news.problem or news.unreadable_run:
            watch.problem = news.evidence or f"{news.source_id}: {news.unreadable_run} unreadable records in a row"


def note_problems(matched: Sequence[tuple[SessionMonitor, Found]], watches: MonitorTable) -> None:
    """Count, once a tick, for how many polls the sessions have been without their telemetry.

    Of several files the one that told last counts.  One that was never there is not missed before the first turn.
    """
    problems: dict[Key, dict[str, Problem]] = {}
    for watch, news in matched:
        if news.problem is not None:
            problems.setdefault(watch.key, {})[news.path] = news.problem
    for watch in watches:
        its, newest = problems.get(watch.key, {}), next(reversed(watch.files), None)
        problem = its.get(newest) if newest is not None else next(iter(its.values()), None)
        due = newest is not None or bool(watch.state.turns)
        watch.missing = watch.missing + 1 if due and problem not in {None, "hung"} else 0
        watch.hung = watch.hung + 1 if due and problem == "hung" else 0


def _take_facts(watch: SessionMonitor, news: Found, *, tick: int, now: float, settle_s: float) -> None:
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


def _told_of(news: Found) -> set[str]:
    return {fact.session for fact in news.facts} | ({news.session} if news.session else set())


def _shares(watch: SessionMonitor, news: Found) -> bool:
    return watch.key[0] == news.adapter_id and news.path in watch.files
