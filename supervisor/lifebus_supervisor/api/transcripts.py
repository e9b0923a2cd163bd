"""The verbs of transcripts (docs/transcripts.md)."""

from lifebus_contract import StateConflict
from lifebus_contract.transcripts import TranscriptInfo, TranscriptPage
from lifebus_supervisor.api.table import Handlers, Work, durable_handlers
from lifebus_supervisor.extensions.rules.dispatch import queue_winner
from lifebus_supervisor.synthesis.synthesizer import Synthesizer
from lifebus_supervisor.transcripts.store import TranscriptStore
from lifebus_supervisor.transcripts.suggestions import Suggestions
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


class TranscriptVerbs:
    """Serves the verbs of a store of transcripts."""

    def __init__(self, store: TranscriptStore, suggestions: Suggestions, synthesis: Synthesizer) -> None:
        self._store = store
        self._suggestions = suggestions
        self._synthesis = synthesis

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        served: dict[str, Work] = {
            "transcript_upsert": self._upsert,
            "transcript_show": self._show,
            "transcript_list": self._list,
            "suggest_request": self._suggest,
            "suggestion_upsert": self._upsert_suggestion,
            "suggestion_show": self._show_suggestion,
        }
        return durable_handlers(served)

    async def _upsert(self, body: UpsertEntry) -> UpsertedEntry:
        entry = await self._store.upsert(body.session_id, body.entry)
        return UpsertedEntry(session_id=body.session_id, entry=entry)

    async def _show(self, body: ShowTranscript) -> TranscriptPage:
        return await self._store.page(body.session_id, body.after, body.limit)

    async def _suggest(self, body: SuggestRequest) -> SuggestedJob:
        event, results = await self._synthesis.suggest(
            body.session_id, model=body.model, effort=body.effort, draft=body.draft
        )
        winner = queue_winner(results)
        if winner is None:
            raise StateConflict("no extension queued a job that suggests a request", code="no_suggestion")
        return SuggestedJob(
            session_id=body.session_id,
            request_key=event.request_key,
            project_id=event.project_id,
            job_id=winner.job.id,
            status=winner.status,
        )

    async def _upsert_suggestion(self, body: UpsertSuggestion) -> SuggestionAnswer:
        stands = await self._suggestions.upsert(
            body.session_id, body.request_key, body.status, body.suggestion, body.error
        )
        return SuggestionAnswer(session_id=body.session_id, suggestion=stands)

    async def _show_suggestion(self, body: ShowSuggestion) -> SuggestionAnswer:
        stands = await self._suggestions.wait(body.session_id, body.request_key, body.wait_ms / 1_000)
        return SuggestionAnswer(session_id=body.session_id, suggestion=stands)

    async def _list(self, body: TranscriptsQuery) -> TranscriptInfos:
        if body.session_id is not None:
            return TranscriptInfos(transcripts=(await self._store.info(body.session_id),))
        names = [name for name in await self._store.session_ids() if name > (body.after or "")]
        found: list[TranscriptInfo] = []
        for place, name in enumerate(names):
            info = await self._store.info(name)
            if _is_asked_for(info, body):
                found.append(info)
            if len(found) == body.limit:
                return TranscriptInfos(transcripts=tuple(found), next=name if place + 1 < len(names) else None)
        return TranscriptInfos(transcripts=tuple(found))


def _is_asked_for(info: TranscriptInfo, body: TranscriptsQuery) -> bool:
    if info.deleted_at is not None:
        return body.deleted
    # One that has nothing yet is known by its signals alone.
    return bool(info.entries or info.dropped) and (not info.system_owned or body.system_owned)
