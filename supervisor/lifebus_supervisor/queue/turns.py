"""Which jobs begin and when: one in each project, as many at once as the settings say."""

from collections.abc import Sequence

import anyio

from lifebus_contract.jobs import JobState
from lifebus_supervisor.queue.active_job import ActiveJob, JobInput
from lifebus_supervisor.queue.engine import QueueEngine
from lifebus_supervisor.queue.indexes import JobIndexes, runs
from lifebus_supervisor.queue.records import JobRecord, JobStanding, JobStarted
from lifebus_supervisor.queue.rules.attempts import StopReason
from lifebus_supervisor.queue.rules.scheduling import Aging, Waiting, WaitingJobs
from lifebus_supervisor.runtime.due.due_times import DueTimes


class JobTurns:
    """Begins jobs.  `is_draining` says that no further one begins for now, `is_started` that some may at all."""

    def __init__(self, engine: QueueEngine, indexes: JobIndexes, aging: Aging, concurrency: int) -> None:
        self.is_draining = self.is_started = False
        self._engine, self._indexes, self._concurrency = engine, indexes, concurrency
        self._waiting = WaitingJobs(aging)
        self._busy: dict[str, str] = {}
        self._due: DueTimes[ActiveJob] = DueTimes(self._on_due)
        self._idle = anyio.Event()
        engine.on_stuck = self._due.set

    @property
    def running(self) -> int:
        """How many jobs are begun and not over."""
        return len(self._busy)

    def busy(self) -> list[str]:
        """Return the jobs that are begun and not over."""
        return [*self._busy.values()]

    def start(self) -> None:
        """Begin what may begin."""
        self.is_started = True
        self.begin_next()

    def stop(self) -> None:
        """Begin nothing any more, and ask what runs to end: it goes on with the next broker."""
        self.is_started = False
        self._due.close()
        self.end_running(StopReason.SHUTDOWN)

    def end_running(self, reason: StopReason) -> None:
        """Ask every attempt to end."""
        for job_id in [*self._busy.values()]:
            attempt = self._indexes.jobs[job_id].attempt
            if attempt is not None:
                attempt.ask_to_end(reason)

    def changed(self, job: ActiveJob) -> None:
        """Take note of how a job stands now; call `begin_next` afterwards."""
        if job.is_starting and not job.is_writing and not job.inputs:
            job.is_starting = False
        if runs(job):
            self._busy.setdefault(job.project_id, job.job_id)
        elif self._busy.get(job.project_id) == job.job_id:
            del self._busy[job.project_id]
        self._set_waiting(job)
        if not self._busy:
            self._idle.set()
            self._idle = anyio.Event()

    def remove(self, job: ActiveJob) -> None:
        """Forget a job."""
        self._waiting.remove(job.job_id, job.project_id)
        self._due.set(job, None)

    def begin_next(self) -> None:
        """Begin as many jobs as may run now."""
        while self.is_started and not self.is_draining and len(self._busy) < self._concurrency:
            found = self._waiting.next(self._busy, self._engine.clocks.now_ms())
            if found is None:
                return
            self._waiting.begun(found)
            job = self._indexes.jobs[found.job_id]
            self._busy[job.project_id] = job.job_id
            job.is_starting = True
            self._engine.put(job, JobInput(self._started))

    async def wait_idle(self, seconds: float) -> None:
        """Return when nothing runs, after so many seconds at the latest."""
        with anyio.move_on_after(seconds):
            while self._busy:
                await self._idle.wait()

    def _started(self, now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
        if now is None or now.state is not JobState.QUEUED or not self.is_started:
            return ()
        return (JobStarted(at_ms=now_ms),)

    def _set_waiting(self, job: ActiveJob) -> None:
        standing = job.standing
        if standing is None or standing.state is not JobState.QUEUED or job.is_starting:
            self._waiting.remove(job.job_id, job.project_id)
            # What could not be written waits for its own time.
            if not job.inputs:
                self._due.set(job, None)
            return
        left_ms = 0
        if standing.next_attempt_at_ms is not None:
            left_ms = standing.next_attempt_at_ms - self._engine.clocks.now_ms()
        # No longer than the pause itself: a clock that is set back puts nothing off.
        left_ms = min(left_ms, standing.pause_ms or 0)
        if left_ms <= 0:
            self._add(job, standing)
        else:
            self._waiting.remove(job.job_id, job.project_id)
            self._due.set(job, left_ms / 1_000)

    def _add(self, job: ActiveJob, standing: JobStanding) -> None:
        self._due.set(job, None)
        self._waiting.add(
            Waiting(
                job_id=job.job_id,
                project_id=job.project_id,
                priority=standing.definition.priority,
                since_ms=standing.created_at_ms,
                number=job.number,
            )
        )

    def _on_due(self, job: ActiveJob) -> None:
        """Write what could not be written, and let a job begin whose pause is over."""
        self._engine.advance(job)
        standing = job.standing
        if standing is not None and standing.state is JobState.QUEUED and not job.is_starting:
            self._add(job, standing)
        self.begin_next()
