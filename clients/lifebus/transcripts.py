"""Transcripts of sessions (docs/transcripts.md)."""

from lifebus._internal.connection import Connection
from lifebus_contract.jobs import Suggestion, SuggestionStatus
from lifebus_contract.transcripts import (
    SequencedEntry,
    TranscriptEntry,
    TranscriptInfo,
    TranscriptPage,
)
from lifebus_transports.messages.transcripts import (
    ShowSuggestion,
    ShowTranscript,
    SuggestedJob,
    SuggestionAnswer,
    SuggestRequest,
    TranscriptInfos,
    TranscriptsQuery,
    UpsertedEntry,
    UpsertEntry,
    UpsertSuggestion,
)


class Transcripts:
    """The transcripts of a broker; every call is bounded by `timeout` seconds.

    To follow one: `page`, then ``bus.signals(adapter="lifebus", thread="transcript/" + session_id, since=…)`` behind
    the page's `through`.
    """

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def upsert(self, session_id: str, entry: TranscriptEntry) -> TranscriptEntry:
        """Merge an entry into the one of its message id; return it as it is then, once that is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``: nobody has heard of the session; ``too_large``.
            LifebusError: it was refused, or no answer came.
        """
        body = UpsertEntry(session_id=session_id, entry=entry)
        answer = await self._connection.ask("transcript_upsert", body, UpsertedEntry, timeout=self._timeout)
        return answer.entry

    async def page(self, session_id: str, after: int = 0, limit: int = 64) -> TranscriptPage:
        """Return entries of a transcript in their order, those behind a sequence.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = ShowTranscript(session_id=session_id, after=after, limit=limit)
        return await self._connection.ask("transcript_show", body, TranscriptPage, timeout=self._timeout)

    async def entries(self, session_id: str) -> list[TranscriptEntry]:
        """Return all entries of a transcript that are kept, in their order.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        found: list[SequencedEntry] = []
        after: int | None = 0
        while after is not None:
            page = await self.page(session_id, after, 256)
            found += page.entries
            after = page.next
        return [one.entry for one in found]

    async def info(self, session_id: str) -> TranscriptInfo:
        """Return how a transcript stands; of a deleted session, when that was.

        Raises:
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = TranscriptsQuery(session_id=session_id)
        answer = await self._connection.ask("transcript_list", body, TranscriptInfos, timeout=self._timeout)
        return answer.transcripts[0]

    async def list(self, *, deleted: bool = False, system_owned: bool = False) -> list[TranscriptInfo]:
        """Return the transcripts that are kept, by session id.

        Raises:
            LifebusError: it was refused, or no answer came.
        """
        found: list[TranscriptInfo] = []
        after: str | None = None
        while True:
            body = TranscriptsQuery(after=after, limit=256, deleted=deleted, system_owned=system_owned)
            answer = await self._connection.ask("transcript_list", body, TranscriptInfos, timeout=self._timeout)
            found += answer.transcripts
            after = answer.next
            if after is None:
                return found

    async def suggest(
        self, session_id: str, *, model: str | None = None, effort: str | None = None, draft: str | None = None
    ) -> SuggestedJob:
        """Have an extension suggest what a person may ask for next; return the job that does.

        Raises:
            StateConflict: ``no_suggestion``: no extension queued a job; ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = SuggestRequest(session_id=session_id, model=model, effort=effort, draft=draft)
        return await self._connection.ask("suggest_request", body, SuggestedJob, timeout=self._timeout)

    async def upsert_suggestion(
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        *,
        suggestion: str | None = None,
        error: str | None = None,
    ) -> Suggestion:
        """Merge how a suggested request stands; return it as it is then, once that is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``missing_suggestion``: a complete one has a text.
            LifebusError: it was refused, or no answer came.
        """
        body = UpsertSuggestion(
            session_id=session_id, request_key=request_key, status=status, suggestion=suggestion, error=error
        )
        answer = await self._connection.ask("suggestion_upsert", body, SuggestionAnswer, timeout=self._timeout)
        return answer.suggestion

    async def suggestion(self, session_id: str, request_key: str) -> Suggestion:
        """Return how a suggested request stands.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_suggested_request``.
            LifebusError: it was refused, or no answer came.
        """
        body = ShowSuggestion(session_id=session_id, request_key=request_key)
        answer = await self._connection.ask("suggestion_show", body, SuggestionAnswer, timeout=self._timeout)
        return answer.suggestion
