"""Suggested requests: how each stands, kept beside the transcript of its session, each change with its event."""

import anyio
import msgspec

from lifebus_broker.signals.log import SignalLog
from lifebus_contract.jobs import (
    ADAPTER,
    SuggestedRequestEvent,
    SuggestedRequestPayload,
    Suggestion,
    SuggestionStatus,
    project_of,
    thread_of,
)
from lifebus_contract.transcripts import no_session, no_suggested_request
from lifebus_supervisor.transcripts.rules.filling import read_signal
from lifebus_supervisor.transcripts.rules.suggesting import suggested
from lifebus_supervisor.transcripts.session_marks import SessionKind
from lifebus_supervisor.transcripts.state import TranscriptState
from lifebus_supervisor.transcripts.store import TranscriptChanges, TranscriptStore


class Suggestions:
    """Reads and writes suggested requests (`queue.ports.SuggestedRequests`)."""

    def __init__(self, store: TranscriptStore, signals: SignalLog) -> None:
        self.store, self._signals = store, signals
        self._waiting: dict[tuple[str, str], set[anyio.Event]] = {}

    async def upsert(  # noqa: PLR0917  the fields of an upsert
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        suggestion: str | None = None,
        error: str | None = None,
        project_id: str | None = None,
    ) -> Suggestion:
        """Merge how a suggested request stands into what is known; return what it is then, once that is durable.

        What changes nothing is not recorded and no event tells of it.  Without a project it is that of the session.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``, also for a session of the broker's own; ``missing_suggestion``.
            LifebusError: it cannot be made durable now.
        """
        await self.store.require(session_id)
        if self.store.marks.kind_of(session_id) is SessionKind.SYSTEM:
            raise no_session(session_id)
        thread = thread_of(project_id or await self.project(session_id))
        now_ms = self.store.now_ms()

        def decide(state: TranscriptState) -> TranscriptChanges:
            known = state.suggestions.get(request_key)
            made = suggested(known, request_key, status, suggestion, error, now_ms)
            if made == known:
                return TranscriptChanges()
            told = self._signals.new_records(ADAPTER, thread, [_event(session_id, made)])
            return TranscriptChanges(suggestion=made, told=tuple(told))

        changes = await self.store.change(session_id, decide)
        stands = changes.suggestion or await self.show(session_id, request_key)
        if stands.status.is_terminal:
            for over in self._waiting.get((session_id, request_key), ()):
                over.set()
        return stands

    async def show(self, session_id: str, request_key: str) -> Suggestion:
        """Return how a suggested request stands.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_suggested_request``.
            LifebusError: the journal cannot be read.
        """
        await self.store.require(session_id)
        found = await self.store.suggestion(session_id, request_key)
        if found is None:
            raise no_suggested_request(request_key)
        return found

    async def wait(self, session_id: str, request_key: str, seconds: float) -> Suggestion:
        """Return how a suggested request stands once it is over, or after so long as it is then.

        Raises:
            LifebusError: as `show`.
        """
        waiting = self._waiting.setdefault((session_id, request_key), set())
        over = anyio.Event()
        # Before it is looked at: what ends it during the look must wake this one, too.
        waiting.add(over)
        try:
            with anyio.move_on_after(seconds):
                if not await self._is_over(session_id, request_key):
                    await over.wait()
            return await self.show(session_id, request_key)
        finally:
            waiting.discard(over)
            if not waiting:
                self._waiting.pop((session_id, request_key), None)

    async def _is_over(self, session_id: str, request_key: str) -> bool:
        await self.store.require(session_id)
        found = await self.store.suggestion(session_id, request_key)
        return found is not None and found.status.is_terminal

    async def project(self, session_id: str) -> str:
        """Return the project of a session, as its newest signal names it; without one it is a project of its own.

        Raises:
            LifebusError: the journal cannot be read.
        """
        named: str | None = None
        for adapter_id, through in (await self.store.filled(session_id)).items():
            page = await self._signals.read(adapter_id, session_id, max(through.number - 1, 0), 1)
            bodies = [read_signal(one.signal) for one in page.signals]
            named = next((one.project_id for one in bodies if one is not None and one.project_id), named)
        return project_of(session_id, named)


def _event(session_id: str, suggestion: Suggestion) -> tuple[str, bytes]:
    payload = SuggestedRequestPayload(
        session_id=session_id,
        request_key=suggestion.request_key,
        status=suggestion.status,
        suggestion=suggestion.suggestion,
        error=suggestion.error,
    )
    event = SuggestedRequestEvent(thread_id=session_id, payload=payload)
    return event.type, msgspec.json.encode(event)
