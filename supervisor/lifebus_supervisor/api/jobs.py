"""The verbs of the queue (docs/queue.md)."""

from typing import Final

from lifebus_contract.jobs import Enqueued, Job
from lifebus_supervisor.api.table import Handlers, Work, durable_handlers
from lifebus_supervisor.queue.job_info import job_of
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.table import JobTable, queueing_order
from lifebus_transports.messages.jobs import (
    JobCancel,
    JobDrain,
    JobEnqueue,
    JobListing,
    JobPage,
    JobRetry,
    JobShow,
    JobSummary,
    JobWait,
    QueueStatus,
)

_MOST_ERROR: Final = 256
"""So much of an error stands in a list."""


class JobVerbs:
    """Serves the verbs of a table of jobs."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        served: dict[str, Work] = {
            "job_enqueue": self._enqueue,
            "job_list": self._list,
            "job_show": self._show,
            "job_wait": self._wait,
            "job_cancel": self._cancel,
            "job_retry": self._retry,
            "job_drain": self._drain,
        }
        return durable_handlers(served)

    async def _enqueue(self, body: JobEnqueue) -> Enqueued:
        return await self._table.enqueue(body.job)

    async def _list(self, body: JobListing) -> JobPage:
        found = self._table.standings(body.project_id, body.state)
        if body.after is not None:
            found = [one for one in found if queueing_order(one) > body.after]
        page = found[: body.limit]
        place = queueing_order(page[-1]) if len(found) > len(page) else None
        return JobPage(jobs=tuple(summary_of(one) for one in page), next=place)

    async def _show(self, body: JobShow) -> Job:
        return self._table.job(body.job_id)

    async def _wait(self, body: JobWait) -> Job:
        return await self._table.wait(body.job_id, body.wait_ms / 1_000)

    async def _cancel(self, body: JobCancel) -> Job:
        return await self._table.cancel(body.job_id, body.reason)

    async def _retry(self, body: JobRetry) -> Job:
        return await self._table.retry(body.job_id)

    async def _drain(self, body: JobDrain) -> QueueStatus:
        await self._table.drain(drains=body.drains, cancel=body.cancel, seconds=body.wait_ms / 1_000)
        running = self._table.turns.running
        queued = max(0, self._table.indexes.open_count - running)
        return QueueStatus(drains=self._table.turns.is_draining, running=running, queued=queued)


def summary_of(standing: JobStanding) -> JobSummary:
    """Return a job as a list has it."""
    job = job_of(standing)
    return JobSummary(
        id=job.id,
        type=job.type,
        project_id=job.project_id,
        source_session_id=job.source_session_id,
        priority=job.priority,
        state=job.state,
        error=None if job.error is None else job.error[:_MOST_ERROR],
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        created_at=job.created_at,
        completed_at=job.completed_at,
        next_attempt_at=job.next_attempt_at,
    )
