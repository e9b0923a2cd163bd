"""Dispatches synthesised events, each at least once: what is due is durable together with the transcript.

One stream of the journal holds what is due, in order.  A record is dropped once its event is settled, so that a broker
which starts again goes on with the first that is not.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import msgspec
import structlog

from lifebus_broker.ledger.records import find_stream
from lifebus_broker.ports import Journal, NewRecord
from lifebus_broker.signals.log import StoredSignal
from lifebus_contract import LifebusError
from lifebus_contract.extensions import (
    FILE_CHANGE_APPROVAL_REQUESTED,
    SUGGEST_REQUEST_REQUESTED,
    TURN_COMPLETED,
    EmitResult,
    SuggestRequestRequested,
)
from lifebus_contract.jobs import EnqueueStatus, SuggestionStatus
from lifebus_contract.transcripts import no_session, session_deleted
from lifebus_supervisor.extensions.rules.dispatch import queue_winner
from lifebus_supervisor.synthesis.ports import EventSink, NobodyListens
from lifebus_supervisor.synthesis.rules import (
    MAX_TRIES,
    PAUSES_S,
    DueEvent,
    approval_event,
    due_events,
    is_settled,
    suggest_event,
    turn_event,
)
from lifebus_supervisor.transcripts.filler import TranscriptFiller
from lifebus_supervisor.transcripts.session_marks import SessionKind
from lifebus_supervisor.transcripts.suggestions import Suggestions

STREAM: Final = "synthesis-due"
"""The stream of the journal."""

_AGAIN_S: Final = 1.0

_log = structlog.get_logger("lifebus.synthesis")


class Synthesizer:
    """Makes events of transcripts; `run` must run.  `sink` is who dispatches them."""

    def __init__(
        self,
        journal: Journal,
        filler: TranscriptFiller,
        suggestions: Suggestions,
        make_id: Callable[[str], str],
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.sink: EventSink = NobodyListens()
        self._journal, self._store, self._make_id, self._pause = journal, suggestions.store, make_id, pause
        self._suggestions = suggestions
        self._restored = 0
        self._came = anyio.Event()
        filler.beside = self._due_of
        filler.after_change = self._wake

    async def run(self) -> None:
        """Dispatch what is due until cancelled; first what the broker before left."""
        stream = await find_stream(self._journal, STREAM)
        self._restored = 0 if stream is None else stream.head
        while True:
            self._came = anyio.Event()
            try:
                await self.dispatch_due()
            except LifebusError as fault:
                _log.warning("synthesis.not_now", detail=fault.detail)
                await self._pause(_AGAIN_S)
                continue
            await self._came.wait()

    async def dispatch_due(self) -> None:
        """Dispatch everything that is due now, one event after the other.

        Raises:
            LifebusError: the journal cannot be read or written now.
        """
        after, complete = 0, False
        while not complete:
            page = await self._journal.read(STREAM, after, 64)
            for record in page.records:
                due = msgspec.msgpack.decode(record.body, type=DueEvent)
                await self._dispatch(due, again=record.number <= self._restored)
                # Behind the dispatch: a crash in between dispatches the event again, and loses none.
                await self._journal.drop(STREAM, record.number)
            complete, after = page.complete, max(page.floor, *(one.number for one in page.records), after)

    async def suggest(
        self, session_id: str, *, model: str | None = None, effort: str | None = None, draft: str | None = None
    ) -> tuple[SuggestRequestRequested, Sequence[EmitResult]]:
        """Have a next request suggested; return the event and what came of it.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``: nobody has heard of it, or it belongs to a worker of the broker.
            LifebusError: the journal cannot be read.
        """
        await self._store.require(session_id)
        if self._store.marks.kind_of(session_id) is SessionKind.SYSTEM:
            raise no_session(session_id)
        entries = await self._store.read(session_id)
        if self._store.marks.kind_of(session_id) is SessionKind.DELETED:
            raise session_deleted(session_id)
        project = await self._suggestions.project(session_id)
        event = suggest_event(entries, session_id, self._make_id("sug_"), project, model, effort, draft)
        results = await self.sink.emit(SUGGEST_REQUEST_REQUESTED, _plain(event))
        winner = queue_winner(results)
        if winner is not None and winner.status is EnqueueStatus.ENQUEUED:
            # A job that has ended already has written more than this, which then changes nothing.
            await self._suggestions.upsert(
                session_id, event.request_key, SuggestionStatus.STREAMING, project_id=project
            )
        return event, results

    async def _dispatch(self, due: DueEvent, *, again: bool) -> None:
        """Dispatch an event until something comes of it, a few times at most."""
        if self._store.marks.kind_of(due.session_id) is not SessionKind.USER:
            return
        entries = await self._store.read(due.session_id)
        event = approval_event(entries, due, again=again) if due.kind == "approval" else turn_event(entries, due)
        if event is None:
            return
        name = FILE_CHANGE_APPROVAL_REQUESTED if due.kind == "approval" else TURN_COMPLETED
        for attempt in range(MAX_TRIES):
            if attempt:
                await self._pause(PAUSES_S[attempt - 1])
            try:
                results = await self.sink.emit(name, _plain(event))
            except Exception:  # noqa: BLE001  a defect in dispatching costs this event, not all that are due
                _log.exception("synthesis.dispatch_failed", event_type=name, session=due.session_id)
                continue
            if is_settled(results):
                return
        _log.info("synthesis.nothing_came_of_it", event_type=name, session=due.session_id, turn=due.turn_id)

    def _due_of(self, _: str, session_id: str, signals: Sequence[StoredSignal]) -> Sequence[NewRecord]:
        found = due_events(session_id, [one.signal for one in signals])
        return [NewRecord(STREAM, msgspec.msgpack.encode(one)) for one in found]

    def _wake(self) -> None:
        self._came.set()


def _plain(event: object) -> dict[str, Any]:
    """Return an event's payload as plain data, as JSON has it."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return plain
