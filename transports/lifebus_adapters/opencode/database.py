"""The reader of OpenCode's database, as measured with 1.18.33: its table of events, in the order they were stored.

- A message is stored again and again while it grows; one with a `finish` reason has its final token counts.
- A compaction is a user message with a `compaction` part, then an assistant message with `summary`: once that is
  complete the context is rewritten.  Its token counts are those of the request for the summary: they are no usage.
- After a compaction a synthetic user message makes the model go on: it begins no turn.
- A turn has the id of the user's message, as in the plugin's calls.  An answer that is finished, and asks for no tool,
  ends it; a compaction that follows makes it go on.
- What belongs to a message may be stored again long after it was sent.
- The window is not in the database.
- A session is stored again with each change, with its directory and its title: a placeholder with the time, until the
  model has made one or the user has given one.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from lifebus_adapters.shared.lines import LineDecoder, bounded_sum, named, plain_text, title_text
from lifebus_adapters.shared.rows import HISTORY_ROWS, Row, RowDecoder, TablePosition, json_bytes
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    RowQuery,
    TurnContinued,
    TurnEnded,
    TurnStarted,
    Usage,
    Whereabouts,
)
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

V = TypeVar("V")

MAX_REMEMBERED: Final = 256
"""Most messages that are remembered until their parts come; the oldest is forgotten first."""

_ROWS: Final = 500

# Fewer rows than were read: rows were deleted, and their numbers will come again.
_SHRUNK: Final = "SELECT last FROM (SELECT coalesce(max(rowid), 0) AS last FROM event) WHERE last < ?"

# SQLite takes the JSON apart: prompts and answers are never a column of a row.
_NEWS: Final = """
SELECT number, session, type,
  json_extract(d, '$.info.id'), json_extract(d, '$.info.role'), json_extract(d, '$.info.parentID'),
  json_type(d, '$.info.summary'), json_extract(d, '$.info.finish'), json_extract(d, '$.info.time.completed'),
  json_extract(d, '$.info.modelID'), json_extract(d, '$.info.tokens'), json_extract(d, '$.info.error.name'),
  json_extract(d, '$.part.messageID'), json_extract(d, '$.part.type'),
  json_type(d, '$.part.synthetic'), json_type(d, '$.part.auto'),
  CASE WHEN type LIKE 'session.%' THEN json_extract(d, '$.info.directory') END,
  CASE WHEN type LIKE 'session.%' THEN json_extract(d, '$.info.title') END
FROM (
  SELECT rowid AS number, aggregate_id AS session, type, CASE WHEN json_valid(data) THEN data ELSE 'null' END AS d
  FROM event WHERE rowid > coalesce(?, (SELECT max(rowid) FROM event) - ?, 0) ORDER BY rowid LIMIT ?
)
ORDER BY number
"""


class _Cache(Struct, frozen=True):
    read: Count = 0
    write: Count = 0


class Tokens(Struct, frozen=True):
    """The token counts of a message."""

    total: Count | None = None
    input: Count = 0
    output: Count = 0
    reasoning: Count = 0
    cache: _Cache = _Cache()


class _Event(Struct, array_like=True):
    number: Count
    session: str
    type: str
    message: str | None
    role: str | None
    parent: str | None
    summary: str | None
    finish: str | None
    completed: int | float | None
    model: str | None
    tokens: str | None
    error: str | None
    part_of: str | None
    part: str | None
    synthetic: str | None
    auto: str | None
    directory: Any
    title: Any


_EVENT: Final = RowDecoder(_Event)
_TOKENS: Final = LineDecoder(Tokens)

_INTERRUPTED: Final = "MessageAbortedError"
_TO_THE_MODEL: Final = frozenset({"tool-calls", "unknown"})
"""After an answer with one of these reasons to finish, the model is asked again."""
_SESSION: Final = ("session.created.", "session.updated.")
_PLACEHOLDER: Final = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")
_NO_END: Final = "ContextOverflowError"
"""OpenCode answers it with a compaction and goes on."""


def used_of(tokens: Tokens, where: str) -> tuple[int, str]:
    """Return how many tokens are in the context, and the source: the total, or the sum where there is none.

    Raises:
        InvalidRequest: the sum is no number that JSON readers agree on.
    """
    if tokens.total is not None:
        return tokens.total, f"{where}.total"
    cache = tokens.cache
    return bounded_sum(tokens.input, tokens.output, tokens.reasoning, cache.read, cache.write), f"{where}.sum"


class EventReader:
    """Reads the database of one user, all sessions in it."""

    def __init__(self) -> None:
        self._position = TablePosition()
        self._prompts: dict[str, bool] = {}
        self._triggers: dict[str, str] = {}
        # The turn that began last in a session, and the turn that each message of a user belongs to.
        self._newest: dict[str, str] = {}
        self._turn_of: dict[str, str] = {}
        self._places: dict[str, Whereabouts] = {}

    def queries(self) -> Sequence[RowQuery]:
        """Return what to ask now (see `DatabaseReader`)."""
        news = RowQuery(sql=_NEWS, values=(self._position.at, HISTORY_ROWS, _ROWS), limit=_ROWS)
        return (RowQuery(sql=_SHRUNK, values=(self._position.at,)), news)

    def read(self, query: RowQuery, rows: Sequence[Row]) -> Sequence[Fact]:
        """Return the facts in the rows.

        Raises:
            InvalidRequest: the rows are not what OpenCode stores.
        """
        if query.sql == _SHRUNK:
            self._position.end_at(rows)
            return ()
        return self._position.read(rows, self._facts_of)

    def _facts_of(self, row: Row) -> Sequence[Fact]:
        event = _EVENT.read(row)
        session = named(event.session, "aggregate_id")
        if session is None:
            raise InvalidRequest("an event without its session", code="missing", field="$.aggregate_id")
        if event.type.startswith("message.updated."):
            return self._message(session, event)
        if event.type.startswith("message.part.updated."):
            return self._part(session, event)
        return self._moved(session, event) if event.type.startswith(_SESSION) else ()

    def _moved(self, session: str, event: _Event) -> Sequence[Fact]:
        """Return where a session works and what it is called, where that is news."""
        title = title_text(event.title)
        if title is not None and _PLACEHOLDER.match(title):
            title = None
        known = self._places.get(session) or Whereabouts(session=session)
        # A change may be stored with what it changes alone.
        cwd = known.cwd or plain_text(event.directory)
        place = Whereabouts(session=session, cwd=cwd, title=title or known.title)
        if place == known:
            return ()
        _remember(self._places, session, place)
        return (place,)

    def _message(self, session: str, event: _Event) -> Sequence[Fact]:
        message = named(event.message, "info.id")
        if message is None:
            raise InvalidRequest("a message without its id", code="missing", field="$.info.id")
        if event.role == "user":
            _remember(self._prompts, message, self._prompts.get(message, False))
            return ()
        if event.role != "assistant":
            return ()
        turn = self._turn_of.get(event.parent or "")
        if event.error:
            # A prompt that is too old to be known is the turn's name all the same.
            return _failed(session, turn or named(event.parent, "info.parentID"), event.error)
        # The counts of a summary are about the request for it, and no usage of the session.
        if event.summary == "true":
            return self._summary(session, message, event)
        return (_usage(session, event), *_ended(session, turn, event))

    def _summary(self, session: str, message: str, event: _Event) -> Sequence[Fact]:
        # The summary is being written; the context is still the old one.
        if event.finish is None or event.completed is None:
            return (Activity(session=session),)
        trigger = self._triggers.get(event.parent or "")
        return (Compacted(session=session, key=f"message:{message}", trigger=trigger),)

    def _part(self, session: str, event: _Event) -> Sequence[Fact]:
        """Return the facts in a part: the first one of a prompt says whether a user wrote it."""
        known = self._prompts.get(event.part_of or "")
        if known is None or event.part_of is None:
            return (Activity(session=session),)
        # Parts are stored again when they grow: only the first one begins a turn.
        self._prompts[event.part_of] = True
        if event.part == "compaction":
            _remember(self._triggers, event.part_of, "auto" if event.auto == "true" else "manual")
        if known:
            return ()
        if event.part == "compaction" or event.synthetic == "true":
            return self._goes_on(session, event.part_of)
        _remember(self._newest, session, event.part_of)
        _remember(self._turn_of, event.part_of, event.part_of)
        return (TurnStarted(session=session, frame_id=named(event.part_of, "part.messageID")),)

    def _goes_on(self, session: str, message: str) -> Sequence[Fact]:
        """Return that a message of the program belongs to the turn before it, whose answer was not its end."""
        turn = self._newest.get(session)
        if turn is None:
            return ()
        _remember(self._turn_of, message, turn)
        return (TurnContinued(session=session, frame_id=turn, unannounced=True),)


def _usage(session: str, event: _Event) -> Fact:
    """Return how full the context is after a finished message; one that still grows is a sign of life."""
    if event.finish is None or event.tokens is None:
        return Activity(session=session)
    used, source = used_of(_TOKENS.read(json_bytes(event.tokens)), "database:message.tokens")
    return Usage(session=session, used_tokens=used, used_source=source, model=named(event.model, "info.modelID"))


def _ended(session: str, turn: str | None, event: _Event) -> Sequence[Fact]:
    """Return the end of the turn that a finished answer is, unless it asks for tools."""
    is_last = event.finish is not None and event.finish not in _TO_THE_MODEL and event.completed is not None
    if turn is None or not is_last:
        return ()
    evidence = f"database:message.finish.{(named(event.finish, 'info.finish') or '')[:64]}"
    return (TurnEnded(session=session, frame_id=turn, evidence=evidence),)


def _failed(session: str, turn: str | None, error: str) -> Sequence[Fact]:
    name = named(error, "info.error.name") or ""
    if name == _NO_END:
        return (Activity(session=session),)
    end = "interrupted" if name == _INTERRUPTED else "failed"
    evidence = f"database:message.error.{name[:64]}"
    return (TurnEnded(session=session, frame_id=turn, frame_end=end, evidence=evidence),)


def _remember(known: dict[str, V], key: str, value: V) -> None:
    known[key] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
