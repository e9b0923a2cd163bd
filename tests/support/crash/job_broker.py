"""A broker that has jobs done and kills itself at a boundary.

The variables ``JOB_ROOT`` and ``JOB_KILL`` say where, and when: ``before:N`` is before the N-th append of records of a
job is handed to the ledger, ``after:N`` once it is durable and before anything is done about it.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import NewJob
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.daemon.lifecycle import running

JOBS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
"""Each job and its project."""

PROGRAM = """
echo "begin $LIFEBUS_JOB_ID" >> world
trap '' TERM
echo "{\\"by\\": \\"$LIFEBUS_JOB_ATTEMPT\\"}"
echo "end $LIFEBUS_JOB_ID" >> world
"""
"""Says when it begins and when it is done; behind its last line nothing is left to be cut off."""


def die_at(when: str, number: int) -> None:
    """Have this process killed at its append of this number that holds records of a job."""
    append, left = SqliteJournal.append, [number]

    def dying(
        self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        if any(one.stream.startswith("job/") for one in records):
            left[0] -= 1
            if not left[0] and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if not left[0]:
                done = die
        return append(self, records, done)

    SqliteJournal.append = dying  # type: ignore[method-assign]


def die(_: object) -> None:
    """End as a process does that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


async def live(root: Path, kill: str) -> str:
    """Queue every job that was not acknowledged, wait for all, and return how they stand."""
    settings, _ = load()
    when, _, number = kill.partition(":")
    if number:
        die_at(when, int(number))
    async with running(settings) as daemon:
        known = (root / "acknowledged").read_text().split()
        for job_id, project in JOBS.items():
            if job_id in known:
                continue  # one that is acknowledged must be there without any help
            await daemon.queue.enqueue(
                NewJob(
                    type="command",
                    project_id=project,
                    job_id=job_id,
                    payload={"argv": ["sh", "-c", PROGRAM], "cwd": str(root)},
                    max_attempts=100,
                    pause=RetryPause(first_ms=0, longest_ms=0),
                    time_limit_ms=600_000,
                )
            )
            with (root / "acknowledged").open("a") as file:
                file.write(f"{job_id}\n")
                file.flush()
                os.fsync(file.fileno())
        found = [await daemon.queue.wait(job_id, 600) for job_id in JOBS]
        return " ".join(f"{one.id}={one.state.value}" for one in found)


def main() -> None:
    """Live one life."""
    print(asyncio.run(live(Path(os.environ["JOB_ROOT"]), os.environ.get("JOB_KILL", ""))), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main()
