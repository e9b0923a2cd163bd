"""Jobs of the queue: queue, watch, cancel and retry them (docs/queue.md)."""

import secrets
from typing import Final

from msgspec import structs

from lifebus._internal.connection import Connection
from lifebus._internal.long_wait import WAIT_MS, ask_until
from lifebus_contract import BrokerBusy, DeadlineExceeded, TransportError
from lifebus_contract.fields import Document
from lifebus_contract.jobs import Enqueued, Job, JobState, NewJob
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

_TRIES: Final = 3


class Jobs:
    """The jobs of a broker; every call but `wait` is bounded by `timeout` seconds."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Queue a job and return it once it is durable, or return the job of which it is a duplicate.

        If the job has no id, it gets one here, so that the call can be repeated after silence without queueing it
        twice.

        Raises:
            StateConflict: the queue is off, nobody does such jobs, or the id is another job's.
            InvalidRequest: the payload is none of the type, or too large.
            BrokerBusy: the queue is full.
            DeadlineExceeded: no answer came; it may be queued all the same.
        """
        named = job if job.job_id is not None else structs.replace(job, job_id=f"job_{secrets.token_hex(13)}")
        body = JobEnqueue(job=named)
        for _ in range(_TRIES - 1):
            try:
                return await self._connection.ask("job_enqueue", body, Enqueued, timeout=self._timeout)
            except BrokerBusy:
                raise
            except (TransportError, DeadlineExceeded):
                continue
        return await self._connection.ask("job_enqueue", body, Enqueued, timeout=self._timeout)

    async def list(self, *, project_id: str | None = None, state: JobState | str | None = None) -> list[JobSummary]:
        """Return jobs in the order in which they were queued: all, those of a project, or those in a `state`."""
        found: list[JobSummary] = []
        after = None
        wanted = None if state is None else JobState(state)
        while True:
            body = JobListing(project_id=project_id, state=wanted, after=after)
            page = await self._connection.ask("job_list", body, JobPage, timeout=self._timeout)
            found += page.jobs
            after = page.next
            if after is None:
                return found

    async def show(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return await self._ask("job_show", JobShow(job_id=job_id))

    async def wait(self, job_id: str) -> Job:
        """Return a job once it is over, however long that takes, over restarts of the broker.

        Raises:
            InvalidRequest: there is none of this id.
        """
        body = JobWait(job_id=job_id, wait_ms=WAIT_MS)
        return await ask_until(
            lambda: self._ask("job_wait", body, more=WAIT_MS / 1_000), lambda job: job.state.is_terminal
        )

    async def cancel(self, job_id: str, *, reason: str = "api_cancel") -> Job:
        """Cancel a job.  A running job is asked to end, and is canceled once it has ended.  `reason` is recorded.

        Raises:
            InvalidRequest: there is none of this id.
            StateConflict: it is over already.
        """
        return await self._ask("job_cancel", JobCancel(job_id=job_id, reason=reason))

    async def retry(self, job_id: str) -> Job:
        """Queue a failed or canceled job again, with as many attempts as at first.

        Raises:
            InvalidRequest: there is none of this id.
            StateConflict: the job is completed, waits or runs.
        """
        return await self._ask("job_retry", JobRetry(job_id=job_id))

    async def drain(self, *, cancel: bool = False, wait_s: float = 0) -> QueueStatus:
        """Let no further job begin until `go_on` or the next start; wait `wait_s` seconds, up to 30, for running ones.

        With `cancel`, running jobs are asked to end, and are queued again.
        """
        body = JobDrain(cancel=cancel, wait_ms=round(wait_s * 1_000))
        # Ended at once where the broker dies: the next one begins jobs again.
        return await self._connection.ask(
            "job_drain", body, QueueStatus, timeout=self._timeout + wait_s, lasting=wait_s > 0
        )

    async def go_on(self) -> QueueStatus:
        """Let jobs begin again after `drain`."""
        return await self._connection.ask("job_drain", JobDrain(drains=False), QueueStatus, timeout=self._timeout)

    async def _ask(self, verb: str, body: Document, *, more: float = 0) -> Job:
        # What waits is asked of one broker: when that one dies, it is noticed at once and the next one is asked.
        return await self._connection.ask(verb, body, Job, timeout=self._timeout + more, lasting=more > 0)
