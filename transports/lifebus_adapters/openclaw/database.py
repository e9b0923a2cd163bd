"""The reader of an OpenClaw agent's database, as measured with 2026.9.6: nodes, transcript and run trace.

- `session_nodes` keeps the session's window: the budget that OpenClaw reckons with.
- `transcript_events` holds the messages; those of the model carry the usage of their own request.  A `compaction` entry
  is the proof of one.  Old entries are packed and hold no facts any more.
- `trajectory_runtime_events` names its runs; its `session.ended` comes with each run and ends the run, not the session.
  A run may make several attempts, each with `session.started` and `model.completed`; it ends once.  Where a hook
  refused the prompt, `model.completed` says so, and the run's end only that it failed.
- A run that was aborted from outside is over with `model.completed`: OpenClaw may end before it writes the run's end.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from lifebus_adapters.shared.lines import LineDecoder, bounded_sum, named
from lifebus_adapters.shared.rows import HISTORY_ROWS, Row, RowDecoder, TablePosition, json_bytes
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    RowQuery,
    TurnEnded,
    TurnStarted,
    Usage,
    WindowKnown,
)
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

_ROWS: Final = 500

# SQLite takes the JSON apart: prompts and answers are never a column of a row.
_NODES: Final = """
SELECT updated_at, current_session_id,
  CASE WHEN json_valid(entry_json) THEN json_extract(entry_json, '$.contextTokens') END
FROM session_nodes WHERE updated_at > coalesce(?, 0) ORDER BY updated_at DESC LIMIT ?
"""

# Fewer rows than were read: rows were deleted, and their numbers will come again.
_FEWER_ENTRIES: Final = (
    "SELECT last FROM (SELECT coalesce(max(rowid), 0) AS last FROM transcript_events) WHERE last < ?"
)
_ENTRIES: Final = """
SELECT number, session_id, json_extract(d, '$.type'), json_extract(d, '$.id'), json_extract(d, '$.message.role'),
  json_extract(d, '$.message.model'), json_extract(d, '$.message.usage'),
  json_extract(d, '$.tokensBefore'), json_extract(d, '$.tokensAfter')
FROM (
  SELECT rowid AS number, session_id, CASE WHEN json_valid(event_json) THEN event_json ELSE 'null' END AS d
  FROM transcript_events
  WHERE rowid > coalesce(?, (SELECT max(rowid) FROM transcript_events) - ?, 0) ORDER BY rowid LIMIT ?
)
ORDER BY number
"""

_FEWER_STEPS: Final = """
SELECT last FROM (SELECT coalesce(max(rowid), 0) AS last FROM trajectory_runtime_events) WHERE last < ?
"""
_STEPS: Final = """
SELECT number, session_id, run_id, json_extract(d, '$.type'), json_extract(d, '$.data.status'),
  json_extract(d, '$.data.promptErrorSource'), json_extract(d, '$.data.externalAbort')
FROM (
  SELECT rowid AS number, session_id, run_id, CASE WHEN json_valid(event_json) THEN event_json ELSE 'null' END AS d
  FROM trajectory_runtime_events
  WHERE rowid > coalesce(?, (SELECT max(rowid) FROM trajectory_runtime_events) - ?, 0) ORDER BY rowid LIMIT ?
)
ORDER BY number
"""

_REFUSED: Final = "hook:before_agent_run"
_FRAME_ENDS: Final = {"success": "completed", "interrupted": "interrupted", "cleanup": "interrupted"}


class CallUsage(Struct, frozen=True, rename="camel"):
    """The token counts of one request: what was sent is in three parts."""

    input: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0

    @property
    def prompt(self) -> int:
        """How many tokens the request had.

        Raises:
            InvalidRequest: the sum is no number that JSON readers agree on.
        """
        return bounded_sum(self.input, self.cache_read, self.cache_write)


class _Node(Struct, array_like=True):
    updated_at: Count
    session: str
    window: Count | None


class _Entry(Struct, array_like=True):
    number: Count
    session: str
    type: str | None
    id: str | None
    role: str | None
    model: str | None
    usage: str | None
    before: Count | None
    after: Count | None


class _Step(Struct, array_like=True):
    number: Count
    session: str
    run: str | None
    type: str | None
    status: str | None
    refused_by: str | None
    aborted: int | None


_NODE: Final = RowDecoder(_Node)
_ENTRY: Final = RowDecoder(_Entry)
_STEP: Final = RowDecoder(_Step)
_USAGE: Final = LineDecoder(CallUsage)


class AgentReader:
    """Reads the database of one agent, all sessions in it."""

    def __init__(self) -> None:
        self._nodes_at: int | None = None
        self._entries = TablePosition()
        self._steps = TablePosition()
        # The run whose prompt a hook refused; its end says only that it failed.
        self._refused: str | None = None
        self._read: dict[str, Callable[[Sequence[Row]], Sequence[Fact]]] = {
            _NODES: self._nodes,
            _FEWER_ENTRIES: partial(_end_at, self._entries),
            _ENTRIES: partial(self._entries.read, facts_of=_entry),
            _FEWER_STEPS: partial(_end_at, self._steps),
            _STEPS: partial(self._steps.read, facts_of=self._step),
        }

    def queries(self) -> Sequence[RowQuery]:
        """Return what to ask now (see `DatabaseReader`); the windows come first, so that usages find them."""
        return (
            RowQuery(sql=_NODES, values=(self._nodes_at, _ROWS), limit=_ROWS),
            RowQuery(sql=_FEWER_ENTRIES, values=(self._entries.at,)),
            RowQuery(sql=_ENTRIES, values=(self._entries.at, HISTORY_ROWS, _ROWS), limit=_ROWS),
            RowQuery(sql=_FEWER_STEPS, values=(self._steps.at,)),
            RowQuery(sql=_STEPS, values=(self._steps.at, HISTORY_ROWS, _ROWS), limit=_ROWS),
        )

    def read(self, query: RowQuery, rows: Sequence[Row]) -> Sequence[Fact]:
        """Return the facts in the rows.

        Raises:
            InvalidRequest: the rows are not what OpenClaw stores.
        """
        return self._read[query.sql](rows)

    def _nodes(self, rows: Sequence[Row]) -> Sequence[Fact]:
        nodes = [_NODE.read(row) for row in rows]
        # Nodes are changed in place, so that their time is what moves on.
        self._nodes_at = max((node.updated_at for node in nodes), default=self._nodes_at)
        return [
            WindowKnown(
                session=_session(node.session),
                window_tokens=node.window,
                window_source="database:session_nodes.contextTokens",
            )
            for node in nodes
            if node.window
        ]

    def _step(self, row: Row) -> Sequence[Fact]:
        step = _STEP.read(row)
        session, run = _session(step.session), named(step.run, "run_id")
        if run is None:
            return ()
        if step.type == "prompt.submitted":
            return (TurnStarted(session=session, frame_id=run, reports_end=True),)
        if step.type == "session.ended":
            return (self._run_ended(session, run, named(step.status, "data.status") or "unknown"),)
        if step.aborted:
            evidence = "database:trajectory.externalAbort"
            return (TurnEnded(session=session, frame_id=run, frame_end="interrupted", evidence=evidence),)
        if step.refused_by == _REFUSED:
            self._refused = run
        return (Activity(session=session),)

    def _run_ended(self, session: str, run: str, status: str) -> Fact:
        if run == self._refused:
            evidence = f"database:trajectory.promptErrorSource.{_REFUSED}"
            return TurnEnded(session=session, frame_id=run, frame_end="blocked", evidence=evidence)
        # A status that is not known is no success.
        end = _FRAME_ENDS.get(status, "failed")
        evidence = f"database:trajectory.session.ended.{status}"
        return TurnEnded(session=session, frame_id=run, frame_end=end, evidence=evidence)


def _end_at(position: TablePosition, rows: Sequence[Row]) -> Sequence[Fact]:
    position.end_at(rows)
    return ()


def _entry(row: Row) -> Sequence[Fact]:
    entry = _ENTRY.read(row)
    session = _session(entry.session)
    if entry.type == "compaction":
        return (_compacted(session, entry),)
    if entry.type != "message" or entry.role == "user":
        return ()
    if entry.role != "assistant" or entry.usage is None:
        return (Activity(session=session),)
    return (
        Usage(
            session=session,
            used_tokens=_USAGE.read(json_bytes(entry.usage)).prompt,
            used_source="database:transcript_events.usage.prompt",
            model=named(entry.model, "message.model"),
        ),
    )


def _compacted(session: str, entry: _Entry) -> Fact:
    entry_id = named(entry.id, "id")
    if entry_id is None:
        raise InvalidRequest("a compaction without its id", code="missing", field="$.id")
    return Compacted(session=session, key=f"entry:{entry_id}", tokens_before=entry.before, tokens_after=entry.after)


def _session(text: str) -> str:
    session = named(text, "session_id")
    if session is None:
        raise InvalidRequest("a row without its session", code="missing", field="$.session_id")
    return session
