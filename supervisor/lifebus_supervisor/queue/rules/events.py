"""Which events follow from a record of a job.  Pure."""

from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from lifebus_contract.jobs import (
    MAX_SUGGESTION,
    MAX_SUGGESTION_ERROR,
    CompletionSignal,
    JobEvent,
    JobEventPayload,
    JobEventType,
    JobState,
    SuggestionStatus,
)
from lifebus_supervisor.queue.records import (
    JobEnded,
    JobQueued,
    JobRecord,
    JobRequeued,
    JobRevived,
    JobStanding,
    JobStarted,
)

_ENDS: Final = {
    JobState.COMPLETED: JobEventType.COMPLETED,
    JobState.FAILED: JobEventType.FAILED,
    JobState.CANCELED: JobEventType.CANCELED,
}
_SUGGESTIONS: Final = {
    JobState.QUEUED: SuggestionStatus.STREAMING,
    JobState.RUNNING: SuggestionStatus.STREAMING,
    JobState.COMPLETED: SuggestionStatus.COMPLETE,
    JobState.FAILED: SuggestionStatus.ERROR,
    JobState.CANCELED: SuggestionStatus.CANCELED,
}


def events_of(after: JobStanding, record: JobRecord) -> list[tuple[str, bytes]]:
    """Return the events of a record, as signals take them: name and JSON; `after` is the job with it."""
    match record:
        # Also where it comes back: a follower sees a retry and a recovery as it sees everything else.
        case JobQueued() | JobRevived() | JobRequeued():
            kind = JobEventType.QUEUED
        case JobStarted():
            kind = JobEventType.STARTED
        case JobEnded(state=state):
            kind = _ENDS[state]
        case _:
            return []
    return [_event(after, kind)]


def progress_event(job: JobStanding, progress: Any) -> tuple[str, bytes]:
    """Return the event of a progress report."""
    return _event(job, JobEventType.PROGRESS, progress)


def suggestion_key(payload: dict[str, Any]) -> str | None:
    """Return the suggested request that a job answers, None where it answers none."""
    found = payload.get("completionSignal")
    if found is None:
        return None
    try:
        return msgspec.convert(found, CompletionSignal).request_key
    except msgspec.ValidationError:
        return None


def _event(job: JobStanding, kind: JobEventType, progress: Any = None) -> tuple[str, bytes]:
    payload = JobEventPayload(
        job_id=job.job_id,
        project_id=job.project_id,
        job_type=job.definition.type,
        state=job.state,
        source_session_id=job.definition.source_session_id,
        result=job.result,
        error=job.error,
        progress=progress,
    )
    event = JobEvent(type=kind, thread_id=job.definition.source_session_id, payload=payload)
    return kind.value, msgspec.json.encode(event)


class JobSuggestion(Struct, frozen=True):
    """How the suggested request stands that a job answers."""

    session_id: str
    request_key: str
    status: SuggestionStatus
    suggestion: str | None
    error: str | None


def suggestion_of(job: JobStanding) -> JobSuggestion | None:
    """Return how the suggested request stands that a job answers, None where it answers none."""
    key, session = suggestion_key(job.payload), job.definition.source_session_id
    if key is None or session is None:
        return None
    status = _SUGGESTIONS[job.state]
    text = _suggested(job.result) if status is SuggestionStatus.COMPLETE else None
    if status is SuggestionStatus.COMPLETE and text is None:
        return JobSuggestion(session, key, SuggestionStatus.ERROR, None, "the job ended without a suggestion")
    return JobSuggestion(session, key, status, text, (job.error or "")[:MAX_SUGGESTION_ERROR] or None)


def _suggested(result: Any) -> str | None:
    """Return the text that a worker suggests."""
    if not isinstance(result, dict):
        return None
    found = cast("dict[str, Any]", result)
    texts = (found.get(key) for key in ("suggestion", "outputText"))
    return next((text[:MAX_SUGGESTION] for text in texts if isinstance(text, str) and text.strip()), None)
