"""A job as everybody sees it.  Pure."""

from lifebus_adapters.app_server.signals import iso_time
from lifebus_contract.jobs import Job
from lifebus_supervisor.queue.records import JobStanding


def job_of(standing: JobStanding) -> Job:
    """Return a job in the words of the contract."""
    known = standing.definition
    return Job(
        id=known.job_id,
        type=known.type,
        version=known.version,
        project_id=known.project_id,
        source_session_id=known.source_session_id,
        priority=known.priority,
        state=standing.state,
        dedupe_key=known.dedupe_key,
        payload=standing.payload,
        result=standing.result,
        error=standing.error,
        attempts=standing.attempts,
        max_attempts=known.max_attempts,
        created_at=iso_time(standing.created_at_ms),
        started_at=_iso(standing.started_at_ms),
        completed_at=_iso(standing.completed_at_ms),
        cancel_requested_at=_iso(standing.cancel_requested_at_ms),
        next_attempt_at=_iso(standing.next_attempt_at_ms),
        last_attempt_at=_iso(standing.last_attempt_at_ms),
        running_context=standing.context,
    )


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_time(at_ms)
