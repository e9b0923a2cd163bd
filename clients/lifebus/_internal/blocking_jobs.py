"""Jobs of the queue for scripts without an event loop."""

from functools import partial

from anyio.from_thread import BlockingPortal

from lifebus.jobs import Jobs
from lifebus_contract.jobs import Enqueued, Job, JobState, NewJob
from lifebus_transports.messages.jobs import JobSummary, QueueStatus


class BlockingJobs:
    """`lifebus.jobs.Jobs` without an event loop: its calls block; the methods and errors are the same."""

    def __init__(self, portal: BlockingPortal, jobs: Jobs) -> None:
        self._portal = portal
        self._jobs = jobs

    def enqueue(self, job: NewJob) -> Enqueued:
        """Queue a job and return it once it is durable, or return the job of which it is a duplicate.

        Raises:
            StateConflict: the queue is off, nobody does such jobs, or the id is another job's.
            InvalidRequest: the payload is none of the type, or too large.
            BrokerBusy: the queue is full.
        """
        return self._portal.call(self._jobs.enqueue, job)

    def list(self, *, project_id: str | None = None, state: JobState | str | None = None) -> list[JobSummary]:
        """Return jobs in the order in which they were queued: all, those of a project, or those in a `state`."""
        return self._portal.call(partial(self._jobs.list, project_id=project_id, state=state))

    def show(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return self._portal.call(self._jobs.show, job_id)

    def wait(self, job_id: str) -> Job:
        """Return a job once it is over, however long that takes.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return self._portal.call(self._jobs.wait, job_id)

    def cancel(self, job_id: str, *, reason: str = "api_cancel") -> Job:
        """Cancel a job.  A running job is asked to end, and is canceled once it has ended.

        Raises:
            StateConflict: it is over already.
        """
        return self._portal.call(partial(self._jobs.cancel, reason=reason), job_id)

    def retry(self, job_id: str) -> Job:
        """Queue a failed or canceled job again, with as many attempts as at first.

        Raises:
            StateConflict: the job is completed, waits or runs.
        """
        return self._portal.call(self._jobs.retry, job_id)

    def drain(self, *, cancel: bool = False, wait_s: float = 0) -> QueueStatus:
        """Let no further job begin until `go_on` or the next start; wait up to 30 s for those that run."""
        return self._portal.call(partial(self._jobs.drain, cancel=cancel, wait_s=wait_s))

    def go_on(self) -> QueueStatus:
        """Let jobs begin again after `drain`."""
        return self._portal.call(self._jobs.go_on)
