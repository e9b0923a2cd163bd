"""Transcripts for scripts without an event loop."""

from functools import partial

from anyio.from_thread import BlockingPortal

from lifebus.transcripts import Transcripts
from lifebus_contract.jobs import Suggestion, SuggestionStatus
from lifebus_contract.transcripts import TranscriptEntry, TranscriptInfo, TranscriptPage
from lifebus_transports.messages.transcripts import SuggestedJob


class BlockingTranscripts:
    """`lifebus.transcripts.Transcripts` without an event loop: its calls block; methods and errors are the same."""

    def __init__(self, portal: BlockingPortal, transcripts: Transcripts) -> None:
        self._portal = portal
        self._transcripts = transcripts

    def upsert(self, session_id: str, entry: TranscriptEntry) -> TranscriptEntry:
        """Merge an entry into the one with its message id, and return the result once it is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``too_large``.
        """
        return self._portal.call(self._transcripts.upsert, session_id, entry)

    def page(self, session_id: str, after: int = 0, limit: int = 64) -> TranscriptPage:
        """Return entries of a transcript in their order, those behind a sequence.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
        """
        return self._portal.call(self._transcripts.page, session_id, after, limit)

    def entries(self, session_id: str) -> list[TranscriptEntry]:
        """Return all entries of a transcript that are kept, in their order.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
        """
        return self._portal.call(self._transcripts.entries, session_id)

    def info(self, session_id: str) -> TranscriptInfo:
        """Return what is known of a transcript; for a deleted session, when it was deleted.

        Raises:
            InvalidRequest: ``no_session``.
        """
        return self._portal.call(self._transcripts.info, session_id)

    def list(self, *, deleted: bool = False, system_owned: bool = False) -> list[TranscriptInfo]:
        """Return the transcripts that are kept, by session id."""
        return self._portal.call(partial(self._transcripts.list, deleted=deleted, system_owned=system_owned))

    def suggest(
        self, session_id: str, *, model: str | None = None, effort: str | None = None, draft: str | None = None
    ) -> SuggestedJob:
        """Have an extension suggest what a person may ask next, and return its job.

        Raises:
            StateConflict: ``no_suggestion``; ``session_deleted``.
            InvalidRequest: ``no_session``.
        """
        call = partial(self._transcripts.suggest, session_id, model=model, effort=effort, draft=draft)
        return self._portal.call(call)

    def wait_suggestion(self, asked: SuggestedJob) -> Suggestion:
        """Return the suggestion once it is over, however long that takes, over restarts of the broker.

        If the job ends and nobody has reported a state, the suggestion is an `error` with the job's error.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_job``.
        """
        return self._portal.call(self._transcripts.wait_suggestion, asked)

    def upsert_suggestion(
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        *,
        suggestion: str | None = None,
        error: str | None = None,
    ) -> Suggestion:
        """Merge a new state into a suggested request, and return the result once it is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``missing_suggestion``.
        """
        call = partial(
            self._transcripts.upsert_suggestion, session_id, request_key, status, suggestion=suggestion, error=error
        )
        return self._portal.call(call)

    def suggestion(self, session_id: str, request_key: str, *, wait_ms: int = 0) -> Suggestion:
        """Return a suggested request; with `wait_ms` (up to 30,000) as soon as it is over.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_suggested_request``.
        """
        return self._portal.call(partial(self._transcripts.suggestion, session_id, request_key, wait_ms=wait_ms))
