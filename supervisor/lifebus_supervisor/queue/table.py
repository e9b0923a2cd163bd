"""The jobs of a broker: queued, listed, cancelled, retried (docs/queue.md)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import anyio

from lifebus_broker.ports import Journal
from lifebus_contract import BrokerBusy, InvalidRequest, StateConflict
from lifebus_contract.jobs import Dedupe, Enqueued, EnqueueStatus, Job, JobState, NewJob
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.queue.active_job import ActiveJob
from lifebus_supervisor.queue.definitions import checked_payload, define, merged_payload
from lifebus_supervisor.queue.engine import QueueEngine
from lifebus_supervisor.queue.indexes import JobIndexes, has_open_targets
from lifebus_supervisor.queue.job_info import job_of
from lifebus_supervisor.queue.ports import JobType
from lifebus_supervisor.queue.records import (
    CancelRequested,
    JobAnswered,
    JobDefinition,
    JobEnded,
    JobQueued,
    JobRecord,
    JobRevived,
    JobStanding,
    PayloadMerged,
    WorkerAnswer,
    stream_of,
)
from lifebus_supervisor.queue.rules.attempts import StopReason, reason_of
from lifebus_supervisor.queue.rules.duplicates import duplicate_of
from lifebus_supervisor.queue.rules.scheduling import Aging
from lifebus_supervisor.queue.targets import TargetSettler
from lifebus_supervisor.queue.turns import JobTurns

JOB: Final = "job_"
"""What the ids of jobs begin with that the broker makes."""


class JobTable:
    """The jobs of a broker, by id.  `make_id` returns a new id with a prefix."""

    def __init__(  # noqa: PLR0917  all that it acts on
        self,
        journal: Journal,
        engine: QueueEngine,
        types: Mapping[str, JobType],
        settings: QueueSettings,
        make_id: Callable[[str], str],
        settler: TargetSettler,
    ) -> None:
        self.engine, self.settings, self.types = engine, settings, types
        self.indexes = JobIndexes()
        aging = Aging(background_ms=settings.aging_ms, interactive_burst=settings.interactive_burst)
        self.turns = JobTurns(engine, self.indexes, aging, settings.concurrency)
        self.settler = settler
        self.journal, self._make_id = journal, make_id
        engine.on_change = self._changed

    async def enqueue(self, new: NewJob) -> Enqueued:
        """Queue a job, and return it once it is durable; the same `job_id` with the same content is the same job.

        Cancelling the caller does not undo it.

        Raises:
            StateConflict: ``queue_off``; ``unknown_job_type``; ``job_exists``: the id is that of another job, or of one
                that was forgotten or cannot be read.
            InvalidRequest: ``invalid_payload``, ``too_large``.
            BrokerBusy: ``queue_full``.
            LifebusError: it cannot be made durable now.
        """
        self._require_enabled()
        kind = self._require_type(new.type)
        checked_payload(kind, new.payload)
        if new.job_id is not None and new.job_id not in self.indexes.jobs:
            await self._refuse_used(new.job_id)
        definition = define(new, kind, self.settings, new.job_id or self._make_id(JOB))
        while True:
            known = self.indexes.jobs.get(definition.job_id) or self._duplicate(definition)
            if known is None:
                break
            if known.standing is not None:
                return await self._take_known(known, known.standing, definition, new)
            await known.changed.wait()  # it is being written; where that fails this one is none of its duplicates
        self._require_room(definition.project_id)
        return await self._add(definition, new)

    def job(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            InvalidRequest: ``no_job``.
        """
        return job_of(self._require(job_id).require())

    def standings(self, project_id: str | None = None, state: JobState | None = None) -> list[JobStanding]:
        """Return how the jobs of a project, or all, stand, in the order in which they were queued."""
        known = [one.standing for one in self.indexes.jobs.values() if project_id in (None, one.project_id)]
        wanted = [one for one in known if one is not None and state in (None, one.state)]
        return sorted(wanted, key=queueing_order)

    async def wait(self, job_id: str, seconds: float) -> Job:
        """Return a job once it is over, or after so many seconds.

        Raises:
            InvalidRequest: ``no_job``.
        """
        job = self._require(job_id)
        with anyio.move_on_after(seconds):
            while not job.require().state.is_terminal:
                await job.changed.wait()
        return job_of(job.require())

    async def cancel(self, job_id: str, reason: str) -> Job:
        """Cancel a job and return it once that is durable; one that runs has its grace, and ends behind it.

        Raises:
            InvalidRequest: ``no_job``.
            StateConflict: ``job_over``.
        """
        job = self._require(job_id)
        await self.engine.record(job, partial(_cancelled, reason))
        return job_of(job.require())

    async def retry(self, job_id: str) -> Job:
        """Queue a failed or canceled job again, with as many attempts as at first; return it once that is durable.

        Raises:
            InvalidRequest: ``no_job``.
            StateConflict: ``queue_off``; ``job_not_retriable``; ``unknown_job_type``; ``job_exists``: another job with
                its key waits or runs.
            BrokerBusy: ``queue_full``.
        """
        self._require_enabled()
        job = self._require(job_id)
        standing = job.require()
        self._require_type(standing.definition.type)
        if standing.state.is_terminal:
            self._require_room(job.project_id)
        if standing.definition.dedupe is not Dedupe.NONE:
            for other in self.indexes.same(standing.definition):
                if other is not job and (other.standing is None or not other.standing.state.is_terminal):
                    raise StateConflict(f"`{other.job_id}` has the same key and is not over", code="job_exists")
        await self.engine.record(job, _revived)
        return job_of(job.require())

    async def drain(self, *, drains: bool, cancel: bool, seconds: float) -> None:
        """Begin no further job, and wait so many seconds for those that run; without `drains`, go on.

        With `cancel`, those that run are asked to end, and wait for their next turn.
        """
        self.turns.is_draining = drains
        if not drains:
            self.turns.begin_next()
            return
        if cancel:
            self.turns.end_running(StopReason.SHUTDOWN)
        await self.turns.wait_idle(seconds)

    async def answered(self, thread_id: str, answer: WorkerAnswer) -> bool:
        """Record how the turn of the job ended that runs in a thread; False where no job runs there.

        Raises:
            LifebusError: it was not recorded.
        """
        for job in map(self.indexes.jobs.__getitem__, self.turns.busy()):
            if job.standing is not None and job.standing.context.thread_id == thread_id:
                await self.engine.record(job, partial(_answered, answer))
                return True
        return False

    def add(self, standing: JobStanding, records: int, size: int) -> ActiveJob:
        """Take a job that was read from the journal."""
        job = self.indexes.add(standing.definition)
        job.standing, job.records, job.size = standing, records, size
        self.indexes.sort(job)
        self.turns.changed(job)
        return job

    def after(self, job: ActiveJob) -> None:
        """Do what follows once a job is over: its targets end, and what is beyond the limit is forgotten."""
        if has_open_targets(job):
            self.settler.add(job)
        for old in self.indexes.forgettable(job.project_id, self.settings.keep):
            self._forget(old)

    async def _take_known(
        self, known: ActiveJob, standing: JobStanding, definition: JobDefinition, new: NewJob
    ) -> Enqueued:
        """Return a job that is there already for a call that means it."""
        if known.job_id == definition.job_id:
            if standing.definition.digest != definition.digest:
                raise StateConflict(f"`{known.job_id}` is another job; use a new id", code="job_exists")
            return Enqueued(status=EnqueueStatus.ENQUEUED, job=job_of(standing))
        if definition.dedupe is Dedupe.MERGE_DUPLICATE:
            payload = merged_payload(self._require_type(new.type), standing.payload, new.payload)
            if payload != standing.payload:
                await self.engine.record(known, partial(_merged, payload))
        return Enqueued(status=EnqueueStatus.ALREADY_QUEUED, job=job_of(known.require()))

    def _duplicate(self, definition: JobDefinition) -> ActiveJob | None:
        same = self.indexes.same(definition)
        known = ((one.job_id, JobState.QUEUED if one.standing is None else one.standing.state) for one in same)
        found = duplicate_of(definition.dedupe, known)
        return None if found is None else self.indexes.jobs[found]

    async def _add(self, definition: JobDefinition, new: NewJob) -> Enqueued:
        job = self.indexes.add(definition)
        await self.engine.record(job, partial(_queued, definition, new))
        return Enqueued(status=EnqueueStatus.ENQUEUED, job=job_of(job.require()))

    def _changed(self, job: ActiveJob, before: JobStanding | None) -> None:
        if job.standing is None:
            # Its first record could not be written: it never was.
            if not job.is_writing and not job.inputs:
                self._remove(job)
                job.notify()
            return
        self.indexes.sort(job)
        self.turns.changed(job)
        if job.standing.state.is_terminal and job.standing is not before:
            self.after(job)
        self.turns.begin_next()

    def _remove(self, job: ActiveJob) -> None:
        self.turns.remove(job)
        self.indexes.remove(job)

    def _forget(self, job: ActiveJob) -> None:
        if job.is_writing or job.inputs:
            return  # somebody wants something of it; the next end of a job comes by here again
        self._remove(job)
        self.engine.dropper.forget(job.definition)

    def _require(self, job_id: str) -> ActiveJob:
        job = self.indexes.jobs.get(job_id)
        if job is None or job.standing is None:
            raise InvalidRequest(f"there is no job `{job_id[:64]}`; `lifebus jobs list` lists them", code="no_job")
        return job

    def _require_enabled(self) -> None:
        if not self.settings.enabled:
            raise StateConflict("the queue is off; `queue.enabled` turns it on", code="queue_off")

    def _require_type(self, name: str) -> JobType:
        kind = self.types.get(name)
        if kind is None:
            known = ", ".join(sorted(self.types))
            raise StateConflict(f"no such type of jobs: `{name[:64]}`; known are {known}", code="unknown_job_type")
        return kind

    def _require_room(self, project_id: str) -> None:
        if self.indexes.open_count >= self.settings.max_jobs:
            raise BrokerBusy(f"{self.settings.max_jobs} jobs wait or run; try again later", code="queue_full")
        if self.indexes.open_of(project_id) >= self.settings.max_per_project:
            text = f"{self.settings.max_per_project} jobs of the project wait or run; try again later"
            raise BrokerBusy(text, code="queue_full")

    async def _refuse_used(self, job_id: str) -> None:
        """Refuse the id of a job that is in the journal alone: its records were dropped, will be, or are unreadable."""
        (head,) = await self.journal.heads([stream_of(job_id)])
        # What came meanwhile with the same id has its place by now.
        if head and job_id not in self.indexes.jobs:
            text = f"`{job_id}` is the id of a job that is forgotten or cannot be read; use a new id"
            raise StateConflict(text, code="job_exists")


def queueing_order(standing: JobStanding) -> tuple[int, str]:
    """Return the place of a job among all: when it was queued, and its id."""
    return standing.created_at_ms, standing.job_id


def _queued(definition: JobDefinition, new: NewJob, _: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
    return (JobQueued(at_ms=now_ms, definition=definition, payload=new.payload),)


def _merged(payload: dict[str, object], now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
    # It may have ended while the record waited for its turn: then there is nothing to merge into.
    if now is None or now.state.is_terminal:
        return ()
    return (PayloadMerged(at_ms=now_ms, payload=payload),)


def _cancelled(reason: str, now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
    if now is None or now.state.is_terminal:
        state = "gone" if now is None else now.state.value
        raise StateConflict(f"the job is {state} already", code="job_over")
    if now.state is JobState.QUEUED:
        return (JobEnded(at_ms=now_ms, state=JobState.CANCELED, error=reason_of(reason)),)
    return () if now.cancel_requested_at_ms is not None else (CancelRequested(at_ms=now_ms),)


def _answered(answer: WorkerAnswer, now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
    if now is None or now.state is not JobState.RUNNING or now.answer is not None:
        return ()
    # The turn that ran there before may be told once more.
    if now.context.turn_id not in {None, answer.turn_id}:
        return ()
    return (JobAnswered(at_ms=now_ms, answer=answer),)


def _revived(now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
    if now is None or now.state not in (JobState.FAILED, JobState.CANCELED):
        state = "gone" if now is None else now.state.value
        raise StateConflict(
            f"the job is {state}; one that failed or was canceled can be retried", code="job_not_retriable"
        )
    return (JobRevived(at_ms=now_ms),)
