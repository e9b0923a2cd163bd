"""What is dropped of jobs, many at once: files and records of forgotten ones, records before a whole state."""

from collections.abc import Callable
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ports import Journal
from lifebus_contract import LifebusError
from lifebus_contract.fields import MAX_INTEGER
from lifebus_supervisor.queue.ports import JobRunner
from lifebus_supervisor.queue.records import STREAMS, JobDefinition, stream_of

MOST_AT_ONCE: Final = 256
"""Most jobs of one round: what comes meanwhile is dropped in the next one."""

KNOWN: Final = 8_192
"""Forgotten jobs whose ids are known: those of the newest ones, so that whoever repeats a call repeats no job."""

REMOVE_EVERY: Final = 1_024
"""After so many forgotten jobs the ids of the oldest ones are removed."""

GATHER_S: Final = 0.5
"""Seconds before each round."""

_log = structlog.get_logger("lifebus.queue")


class JobDropper:
    """Drops in rounds, one after the other; each costs as many commits as its records need, and not one a job.

    What cannot be dropped stays, and the next start of the broker passes over it.
    """

    def __init__(self, journal: Journal, runner_of: Callable[[str], JobRunner | None], tasks: TaskGroup) -> None:
        self._journal, self._runner_of, self._tasks = journal, runner_of, tasks
        self._forgotten: list[JobDefinition] = []
        self._throughs: dict[str, int] = {}
        self._is_running = False
        self._unremoved = REMOVE_EVERY  # how many the broker before has left is unknown

    def forget(self, job: JobDefinition) -> None:
        """Have everything dropped that is kept of a job that is over."""
        self._forgotten.append(job)
        self._start()

    def drop(self, job_id: str, through: int) -> None:
        """Have the records of a job dropped up to a number."""
        self._throughs[stream_of(job_id)] = through
        self._start()

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._tasks.start_soon(self._run)

    async def _run(self) -> None:
        try:
            while self._forgotten or self._throughs:
                # Nobody waits for it: what else ends in this time is dropped in the same commit.
                await anyio.sleep(GATHER_S)
                await self._round()
        finally:
            self._is_running = False

    async def _round(self) -> None:
        forgotten, self._forgotten = self._forgotten[:MOST_AT_ONCE], self._forgotten[MOST_AT_ONCE:]
        throughs, self._throughs = self._throughs, {}
        for name in {job.type for job in forgotten}:
            runner = self._runner_of(name)
            if runner is not None:
                # First the files: a job whose records are there is forgotten again at the next start.
                await runner.forget([job.job_id for job in forgotten if job.type == name])
        throughs |= {stream_of(job.job_id): MAX_INTEGER for job in forgotten}
        self._unremoved += len(forgotten)
        is_due = self._unremoved >= REMOVE_EVERY
        try:
            await self._journal.drop_all(throughs, (STREAMS, KNOWN) if is_due else None)
        except LifebusError as fault:
            _log.warning("job_records_not_dropped", jobs=len(throughs), code=fault.code)
            return
        self._unremoved = 0 if is_due else self._unremoved
