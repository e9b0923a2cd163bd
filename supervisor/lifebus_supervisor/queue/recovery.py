"""Jobs after a restart: read from the journal, and gone on with where their records end.

What is over stays as it is.  Of what ran it is asked first whether it ended, outside of the broker: then that is its
end.  Else it is tried again while attempts are left.
"""

from collections.abc import Sequence

import msgspec
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ledger.records import records_of
from lifebus_broker.ports import Record
from lifebus_contract import LifebusError
from lifebus_contract.jobs import JobState
from lifebus_supervisor.queue.active_job import ActiveJob, JobInput
from lifebus_supervisor.queue.records import (
    STREAMS,
    JobContradiction,
    JobRecord,
    JobStanding,
    apply,
    decode_record,
)
from lifebus_supervisor.queue.rules.attempts import INVALID_PAYLOAD, UNKNOWN_TYPE, AttemptEnd, recovered
from lifebus_supervisor.queue.table import JobTable, queueing_order

_log = structlog.get_logger("lifebus.queue")


class _Read:
    """What was read of a job: how it stands, how many records it has, and their bytes."""

    def __init__(self, stream: str) -> None:
        self.standing: JobStanding | None = None
        self.is_unreadable = False
        self.records = self.size = 0
        self._stream = stream

    def take(self, record: Record) -> None:
        """Take in its next record; what stands behind one that cannot be read counts for nothing."""
        self.records += 1
        self.size += len(record.body)
        if self.is_unreadable:
            return
        try:
            self.standing = apply(self.standing, decode_record(record.body))
        except (msgspec.DecodeError, JobContradiction) as fault:
            self.is_unreadable = True
            _log.error("job_unreadable", stream=self._stream, fault=str(fault))


async def load_jobs(table: JobTable) -> None:
    """Read every job; nothing of them begins.  One whose records cannot be read is left alone, and said.

    Raises:
        LifebusError: the journal cannot be read.
    """
    found: dict[str, _Read] = {}
    # Forgotten jobs have streams without records: nothing is read of them.
    async for record in records_of(table.journal, STREAMS):
        found.setdefault(record.stream, _Read(record.stream)).take(record)
    readable = [(one.standing, one) for one in found.values() if one.standing is not None and not one.is_unreadable]
    for standing, read in sorted(readable, key=lambda one: queueing_order(one[0])):
        table.add(standing, read.records, read.size)


def go_on(table: JobTable, tasks: TaskGroup) -> None:
    """Go on with every job; those that ran are asked for first, each for itself."""
    for job in [*table.indexes.jobs.values()]:
        standing = job.require()
        if standing.state is JobState.RUNNING:
            tasks.start_soon(_take_over, table, job, standing)
        elif standing.state is JobState.QUEUED:
            _recover(table, job, None)
        else:
            table.after(job)


async def _take_over(table: JobTable, job: ActiveJob, standing: JobStanding) -> None:
    end: AttemptEnd | None = None
    kind = table.types.get(standing.definition.type)
    if kind is not None:
        try:
            end = await kind.runner.recover(standing)
        except (LifebusError, OSError) as fault:
            _log.warning("job_attempt_unknown", job_id=job.job_id, fault=str(fault))
    _recover(table, job, end)


def _recover(table: JobTable, job: ActiveJob, end: AttemptEnd | None) -> None:
    fault = _fault_of(table, job.require())
    fraction = table.engine.clocks.draw()

    def make(now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
        return () if now is None else recovered(now, end, fault, now_ms=now_ms, fraction=fraction)

    table.engine.put(job, JobInput(make))


def _fault_of(table: JobTable, standing: JobStanding) -> str | None:
    """Return why a job cannot be done any more."""
    kind = table.types.get(standing.definition.type)
    if kind is None:
        return f"{UNKNOWN_TYPE}:{standing.definition.type}"
    fault = kind.check(standing.payload)
    return None if fault is None else f"{INVALID_PAYLOAD}:{fault}"
