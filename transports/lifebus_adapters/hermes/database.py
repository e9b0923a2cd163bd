"""The reader of Hermes' database, as measured with 0.19.0: the messages of all sessions, numbered for good.

- `sessions` adds up the tokens of all requests, and messages have none: how full the context is does not stand here.
- A compaction in place takes all live messages out of the context (`compacted`) and stores what is left of them as
  new ones, in one transaction: the first live message is then newer than the last compacted one.  Those new rows
  repeat old prompts and answers, so they begin and end no turn.
- A compaction that splits ends the session with the reason `compression`; a child session goes on.
- Messages that the user took back are not live either, but not `compacted`: that proves nothing.
- `sessions` has the branch of the directory and the title; both may come and change at any time.
- A session's end is stored for each run of the program, and taken back when it is resumed.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from lifebus_adapters.shared.lines import named, plain_text, title_text
from lifebus_adapters.shared.rows import HISTORY_ROWS, Row, RowDecoder, TablePosition
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    RowQuery,
    SessionClosed,
    TurnEnded,
    TurnStarted,
    Whereabouts,
)
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

_ROWS: Final = 500

_NEWS: Final = """
WITH news AS (
  SELECT id, session_id, role, finish_reason FROM messages
  WHERE id > coalesce(?, (SELECT max(id) FROM messages) - ?, 0) ORDER BY id LIMIT ?
), marks AS (
  SELECT session_id,
    max(CASE WHEN compacted = 1 THEN id END) AS compacted, min(CASE WHEN active = 1 THEN id END) AS live
  FROM messages WHERE session_id IN (SELECT session_id FROM news) GROUP BY session_id
)
SELECT news.id, news.session_id, news.role, news.finish_reason, marks.compacted, marks.live
FROM news JOIN marks USING (session_id) ORDER BY news.id
"""

_ENDED: Final = """
SELECT id, ended_at, end_reason FROM sessions
WHERE id IN (SELECT session_id FROM messages WHERE id > (SELECT max(id) FROM messages) - ?) AND ended_at > ?
ORDER BY ended_at LIMIT ?
"""

# A column that an older version does not have is found in the outer row, where it is null.
_PLACES: Final = """
SELECT known.id,
  (SELECT git_branch FROM sessions AS own WHERE own.id = known.id),
  (SELECT title FROM sessions AS own WHERE own.id = known.id)
FROM sessions AS known, (SELECT NULL AS git_branch, NULL AS title)
WHERE known.id IN (SELECT session_id FROM messages WHERE id > (SELECT max(id) FROM messages) - ?) LIMIT ?
"""

_SPLIT: Final = "compression"
# After these the model is asked again: the turn goes on.
_TO_THE_MODEL: Final = frozenset({"tool_calls", "function_call"})


class _Message(Struct, array_like=True):
    number: Count
    session: str
    role: str
    finish: str | None
    compacted: Count | None
    live: Count | None


class _Place(Struct, array_like=True):
    session: str
    git_branch: Any
    title: Any


class _Session(Struct, array_like=True):
    session: str
    ended_at: float
    reason: str | None


_MESSAGE: Final = RowDecoder(_Message)
_SESSION: Final = RowDecoder(_Session)
_PLACE: Final = RowDecoder(_Place)


class MessageReader:
    """Reads the database of one Hermes home, all sessions in it."""

    def __init__(self) -> None:
        self._position = TablePosition()
        self._ended_at = 0.0
        self._places: dict[str, Whereabouts] = {}

    def queries(self) -> Sequence[RowQuery]:
        """Return what to ask now (see `DatabaseReader`)."""
        return (
            RowQuery(sql=_NEWS, values=(self._position.at, HISTORY_ROWS, _ROWS), limit=_ROWS),
            RowQuery(sql=_PLACES, values=(HISTORY_ROWS, _ROWS), limit=_ROWS),
            RowQuery(sql=_ENDED, values=(HISTORY_ROWS, self._ended_at, _ROWS), limit=_ROWS),
        )

    def read(self, query: RowQuery, rows: Sequence[Row]) -> Sequence[Fact]:
        """Return the facts in the rows.

        Raises:
            InvalidRequest: the rows are not what Hermes stores.
        """
        if query.sql == _ENDED:
            return self._ended(rows)
        if query.sql == _PLACES:
            return self._moved(rows)
        # Taken before the rows are read, which moves the position.
        before = self._position.at or 0
        return self._position.read(rows, lambda row: _facts_of(_MESSAGE.read(row), before))

    def _moved(self, rows: Sequence[Row]) -> Sequence[Fact]:
        """Return of which sessions the branch or the title is news."""
        found = [_place(_PLACE.read(row)) for row in rows]
        news = [one for one in found if one != self._places.get(one.session, Whereabouts(session=one.session))]
        # Those that were not asked for any more have no recent messages.
        self._places = {one.session: one for one in found}
        return news

    def _ended(self, rows: Sequence[Row]) -> Sequence[Fact]:
        ended = [_SESSION.read(row) for row in rows]
        # By time and not by number: an old session may end after a new one.
        self._ended_at = max((one.ended_at for one in ended), default=self._ended_at)
        return [fact for one in ended for fact in _end(one)]


def _facts_of(message: _Message, before: int) -> Sequence[Fact]:
    """Return the facts in a new message; `before` is the last one that was read before this answer."""
    session = named(message.session, "session_id")
    if session is None:
        raise InvalidRequest("a message without its session", code="missing", field="$.session_id")
    compacted, live = message.compacted, message.live
    # Newer than what was read before: else every poll would prove the same compaction again.
    if compacted is not None and live is not None and live > max(compacted, before) and message.number >= live:
        proof = Compacted(session=session, key=f"message:{compacted}")
        return (proof,) if message.number == live else (Activity(session=session),)
    if message.role == "user":
        return (TurnStarted(session=session),)
    if message.role == "assistant" and message.finish and message.finish not in _TO_THE_MODEL:
        evidence = f"database:messages.finish_reason.{message.finish[:64]}"
        return (TurnEnded(session=session, evidence=evidence if evidence.isprintable() else "database:messages"),)
    return (Activity(session=session),)


def _place(place: _Place) -> Whereabouts:
    session = named(place.session, "id")
    if session is None:
        raise InvalidRequest("a session without its id", code="missing", field="$.id")
    return Whereabouts(session=session, git_branch=plain_text(place.git_branch), title=title_text(place.title))


def _end(ended: _Session) -> Sequence[Fact]:
    """Return what a session's end proves: a compaction if it was split, else that no turn goes on in it."""
    session = named(ended.session, "id")
    if session is None:
        raise InvalidRequest("a session without its id", code="missing", field="$.id")
    if ended.reason == _SPLIT:
        return (Compacted(session=session, key="split"),)
    evidence = f"database:sessions.end_reason.{(named(ended.reason, 'end_reason') or 'unknown')[:64]}"
    interrupted = TurnEnded(session=session, frame_end="interrupted", evidence=evidence)
    return interrupted, SessionClosed(session=session, evidence=evidence)
