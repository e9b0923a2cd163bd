"""What happens to jobs: inputs become records and events in one append, and what follows is done once they are durable.

One append of a job is under way at a time.  Nothing is told and nothing begins before its record is committed.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.ledger.records import error_of
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_broker.signals.log import SignalLog
from lifebus_contract import InvalidRequest, LifebusError
from lifebus_contract.jobs import ADAPTER, JobState, RunningContext, thread_of
from lifebus_supervisor.queue.active_job import ActiveJob, Event, JobInput, Make
from lifebus_supervisor.queue.attempt import Attempt
from lifebus_supervisor.queue.dropping import JobDropper
from lifebus_supervisor.queue.ports import JobRunner
from lifebus_supervisor.queue.records import (
    JobPlaced,
    JobRecord,
    JobStanding,
    JobStarted,
    WholeJob,
    apply,
    encode_record,
    stream_of,
)
from lifebus_supervisor.queue.rules.attempts import AttemptEnd, StopReason, after_attempt, unfit_result
from lifebus_supervisor.queue.rules.events import events_of, progress_event
from lifebus_supervisor.runtime.active_run import awaited_settle
from lifebus_supervisor.runtime.clocks import Clocks

CHECKPOINT_RECORDS: Final = 64
"""Records of one job after which its whole state is written and the older ones are dropped."""

AGAIN_S: Final = 1.0
"""After so many seconds what could not be written is tried again."""

_log = structlog.get_logger("lifebus.queue")


class _Batch(Struct, frozen=True, kw_only=True):
    """What is written in one append: the records, the state after them, the events, and the inputs they came from."""

    records: Sequence[JobRecord]
    standing: JobStanding | None
    events: Sequence[Event]
    inputs: Sequence[JobInput]


class QueueEngine:
    """Records and acts.  `runner_of` returns who does the jobs of a type; `tasks` owns the attempts.

    `dropper` drops what is not kept any more.

    `on_change` is called with a job and how it stood before, after each durable change and each end of an attempt;
    `on_stuck` with one whose records could not be written and have to come again.
    `before_attempt` is awaited before each attempt.
    """

    def __init__(
        self,
        journal: Journal,
        signals: SignalLog,
        runner_of: Callable[[str], JobRunner | None],
        clocks: Clocks,
        tasks: TaskGroup,
    ) -> None:
        self.clocks = clocks
        self.on_change: Callable[[ActiveJob, JobStanding | None], None] = lambda _, __: None
        self.before_attempt: Callable[[JobStanding], Awaitable[None]] = _nothing
        self.on_stuck: Callable[[ActiveJob, float], None] = lambda _, __: None
        self.dropper = JobDropper(journal, runner_of, tasks)
        self._journal, self._signals, self._runner_of, self._tasks = journal, signals, runner_of, tasks

    def put(self, job: ActiveJob, given: JobInput) -> None:
        """Take something that came in for a job; returns at once."""
        job.inputs.append(given)
        self.advance(job)

    def advance(self, job: ActiveJob) -> None:
        """Record what has come in, unless something is being written; returns at once."""
        if job.is_writing or not job.inputs:
            return
        batch = self._next_batch(job)
        if not batch.records and not batch.events:
            self._settle(batch.inputs, None)
            self.on_change(job, job.standing)
            return
        job.is_writing = True
        new = [NewRecord(stream_of(job.job_id), encode_record(one)) for one in batch.records]
        told = self._signals.new_records(ADAPTER, thread_of(job.project_id), batch.events)
        refusal = self._signals.append_beside(self._journal, new, told, partial(self._written, job, batch))
        if refusal is not None:
            self._failed(job, batch, error_of(refusal))

    def _next_batch(self, job: ActiveJob) -> _Batch:
        now_ms = self.clocks.now_ms()
        records: list[JobRecord] = []
        events: list[Event] = []
        taken: list[JobInput] = []
        standing = job.standing
        given, job.inputs = job.inputs, []
        for one in given:
            try:
                made = one.make(standing, now_ms)
                after = standing
                for record in made:
                    after = apply(after, record)
                    events += events_of(after, record)
            except LifebusError as fault:
                self._settle([one], fault)
                continue
            standing = after
            records += made
            events += [] if one.event is None else [one.event]
            taken.append(one)
        return _Batch(records=records, standing=standing, events=events, inputs=taken)

    def _written(self, job: ActiveJob, batch: _Batch, result: list[Record] | Refusal) -> None:
        if isinstance(result, Refusal):
            self._failed(job, batch, error_of(result))
            return
        before = job.standing
        job.is_writing, job.standing = False, batch.standing
        mine = [one for one in result if one.stream == stream_of(job.job_id)]
        job.records += len(mine)
        job.size += sum(len(one.body) for one in mine)
        self._begin(job, batch.records)
        self._settle(batch.inputs, None)
        job.notify()
        self.on_change(job, before)
        self.advance(job)
        if job.records >= CHECKPOINT_RECORDS and not job.is_writing:
            self._checkpoint(job)

    def _failed(self, job: ActiveJob, batch: _Batch, fault: LifebusError) -> None:
        """Nothing was written: whoever waits is told, and what is a fact is written later."""
        job.is_writing = False
        job.inputs[:0] = [one for one in batch.inputs if one.settle is None]
        self._settle([one for one in batch.inputs if one.settle is not None], fault)
        if job.standing is None:
            self.on_change(job, None)
        elif fault.code != "closed":
            _log.warning("job_not_recorded", job_id=job.job_id, code=fault.code, detail=fault.detail)
            self.on_stuck(job, AGAIN_S)

    def _checkpoint(self, job: ActiveJob) -> None:
        """Have the whole state written, and what lies before it dropped afterwards; without success all stays."""
        standing = job.require()
        job.is_writing = True

        def done(result: list[Record] | Refusal) -> None:
            job.is_writing = False
            if isinstance(result, Refusal):
                _log.warning("checkpoint_failed", job_id=job.job_id, code=result.code)
            else:
                job.records, job.size = 1, len(result[0].body)
                self.dropper.drop(job.job_id, result[0].number - 1)
            self.advance(job)

        refusal = self._journal.append(
            [NewRecord(stream_of(job.job_id), encode_record(WholeJob(standing=standing)))], done
        )
        if refusal is not None:
            done(refusal)

    def _begin(self, job: ActiveJob, records: Sequence[JobRecord]) -> None:
        """Begin the attempt that is durable now; ask one to end whose job is cancelled."""
        standing = job.require() if records else None
        if standing is None or standing.state is not JobState.RUNNING:
            return
        if any(isinstance(one, JobStarted) for one in records):
            job.is_starting = False
            job.attempt = Attempt(partial(self._progress, job), partial(self._place, job))
            self._tasks.start_soon(self._run, job, job.attempt, standing)
        if standing.cancel_requested_at_ms is not None and job.attempt is not None:
            job.attempt.ask_to_end(StopReason.CANCELED)

    async def _run(self, job: ActiveJob, attempt: Attempt, standing: JobStanding) -> None:
        await self.before_attempt(standing)
        runner = self._runner_of(standing.definition.type)
        if runner is None:
            end = AttemptEnd(error=f"nobody does jobs of the type `{standing.definition.type}`")
        else:
            end = await attempt.run(runner, standing)
        job.attempt = None
        fraction = self.clocks.draw()

        def ended(now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
            if now is None:
                return ()
            return after_attempt(now, end, attempt.stop, forced=attempt.forced, now_ms=now_ms, fraction=fraction)

        self.put(job, JobInput(ended))

    async def _progress(self, job: ActiveJob, report: Any) -> None:
        """Tell how far a job is.

        Raises:
            LifebusError: it is too large, or cannot be told now.
        """
        if (fault := unfit_result(report)) is not None:
            raise InvalidRequest(fault.replace("result", "report", 1), code="too_large")
        await self.record(job, lambda _, __: (), progress_event(job.require(), report))

    async def _place(self, job: ActiveJob, thread_id: str | None, turn_id: str | None, host: str | None) -> None:
        context = RunningContext(thread_id=thread_id, turn_id=turn_id)

        def placed(now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
            if now is None or now.state is not JobState.RUNNING:
                return ()
            return (JobPlaced(at_ms=now_ms, context=context, host=host),)

        await self.record(job, placed)

    async def record(self, job: ActiveJob, make: Make, event: Event | None = None) -> None:
        """Have something recorded, and return once it is durable; cancelling the caller does not undo it.

        Raises:
            LifebusError: it was not recorded.
        """
        settle, durable = awaited_settle()
        self.put(job, JobInput(make, settle, event))
        await durable

    @staticmethod
    def _settle(inputs: Sequence[JobInput], fault: LifebusError | None) -> None:
        for one in inputs:
            if one.settle is not None:
                one.settle(fault)


async def _nothing(_: JobStanding) -> None:
    """Do nothing before an attempt."""
