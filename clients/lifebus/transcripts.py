"""Transcripts of sessions (docs/transcripts.md)."""

import msgspec

from lifebus._internal.connection import Connection
from lifebus._internal.long_wait import WAIT_MS, ask_until
from lifebus_contract import InvalidRequest
from lifebus_contract.jobs import CompletionSignal, Job, Suggestion, SuggestionStatus
from lifebus_contract.transcripts import (
    SequencedEntry,
    TranscriptEntry,
    TranscriptInfo,
    TranscriptPage,
)
from lifebus_transports.messages.jobs import JobWait
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
from lifebus_transports.messages.verbs import VERBS


class Transcripts:
    """The transcripts of a broker; every call but `wait_suggestion` is bounded by `timeout` seconds.

    `session_id` is the harness's own id; `request_key` names a suggested request.

    To follow a transcript, call `page`, and then ``bus.signals(adapter="lifebus", thread="transcript/" + session_id,
    since=…)`` from the page's `through` on.
    """

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def upsert(self, session_id: str, entry: TranscriptEntry) -> TranscriptEntry:
        """Merge an entry into the one with its message id, and return the result once it is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``: the session is not known; ``too_large``.
            LifebusError: it was refused, or no answer came.
        """
        body = UpsertEntry(session_id=session_id, entry=entry)
        answer = await self._connection.ask("transcript_upsert", body, UpsertedEntry, timeout=self._timeout)
        return answer.entry

    async def page(self, session_id: str, after: int = 0, limit: int = 64) -> TranscriptPage:
        """Return at most `limit` entries of a transcript in their order, those after the sequence `after`.

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
        """Return what is known of a transcript; for a deleted session, when it was deleted.

        Raises:
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = TranscriptsQuery(session_id=session_id)
        answer = await self._connection.ask("transcript_list", body, TranscriptInfos, timeout=self._timeout)
        return answer.transcripts[0]

    async def list(self, *, deleted: bool = False, system_owned: bool = False) -> list[TranscriptInfo]:
        """Return the transcripts that are kept, by session id.

        With ``deleted``, the list also has deleted sessions, and with `system_owned` those of the broker's own workers.

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
        """Have an extension suggest what a person may ask next, and return its job, for `wait_suggestion`.

        `draft` is what the person has written so far.  `model` and `effort` are passed to the extension.

        Raises:
            StateConflict: ``no_suggestion``: no extension queued a job; ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = SuggestRequest(session_id=session_id, model=model, effort=effort, draft=draft)
        # Handlers of extensions are asked, one after the other.
        timeout = self._timeout * VERBS["suggest_request"].timeout_factor
        return await self._connection.ask("suggest_request", body, SuggestedJob, timeout=timeout)

    async def wait_suggestion(self, asked: SuggestedJob) -> Suggestion:
        """Return the suggestion for `asked` once it is over, however long that takes, over restarts of the broker.

        If the job ends and nobody has reported a state, the suggestion is an `error` with the job's error.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_job``: the job is forgotten, and with it how it ended.
            LifebusError: it was refused.
        """
        job = await ask_until(lambda: self._wait_job(asked.job_id, 0), lambda _: True)
        answers = _key_of(job)
        # A job that was queued before answers under the key that it was queued with.
        key = answers or asked.request_key
        if answers is None:
            # Nobody writes the suggestion of such a job for it: with the job everything is over.
            job = await ask_until(lambda: self._wait_job(asked.job_id, WAIT_MS), lambda one: one.state.is_terminal)
        unsaid = Suggestion(request_key=key, status=SuggestionStatus.STREAMING)

        async def look() -> Suggestion:
            try:
                stands = await self.suggestion(asked.session_id, key, wait_ms=0 if answers is None else WAIT_MS)
            except InvalidRequest as fault:
                if fault.code != "no_suggested_request":
                    raise
                stands = unsaid
            if answers is None and not stands.status.is_terminal:
                return Suggestion(request_key=key, status=SuggestionStatus.ERROR, error=job.error)
            return stands

        return await ask_until(look, lambda stands: stands.status.is_terminal)

    async def upsert_suggestion(
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        *,
        suggestion: str | None = None,
        error: str | None = None,
    ) -> Suggestion:
        """Merge a new state into a suggested request, and return the result once it is durable.

        `request_key` names the request.  With the `status` `complete` it needs a `suggestion`; with `error` it has an
        `error`.

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

    async def suggestion(self, session_id: str, request_key: str, *, wait_ms: int = 0) -> Suggestion:
        """Return a suggested request; with `wait_ms` (up to 30,000) as soon as it is over.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``no_suggested_request``.
            LifebusError: it was refused, or no answer came.
        """
        body = ShowSuggestion(session_id=session_id, request_key=request_key, wait_ms=wait_ms)
        timeout = self._timeout + wait_ms / 1_000
        answer = await self._connection.ask("suggestion_show", body, SuggestionAnswer, timeout=timeout, lasting=True)
        return answer.suggestion

    async def _wait_job(self, job_id: str, wait_ms: int) -> Job:
        body, timeout = JobWait(job_id=job_id, wait_ms=wait_ms), self._timeout + wait_ms / 1_000
        # Also what does not wait: the broker may die before it answers, and the next one is asked then.
        return await self._connection.ask("job_wait", body, Job, timeout=timeout, lasting=True)


def _key_of(job: Job) -> str | None:
    """Return the key of the suggested request that is written when a job ends, None where none is."""
    try:
        return msgspec.convert(job.payload.get("completionSignal"), CompletionSignal).request_key
    except msgspec.ValidationError:
        return None
