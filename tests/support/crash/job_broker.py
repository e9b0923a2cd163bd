"""A broker that has jobs done and kills itself at a boundary."""

import asyncio
import os
from pathlib import Path

from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import NewJob
from lifebus_supervisor.configuration.resolution import load
from support.crash.dying_life import die_when_asked, life_root
from support.parts import running_whole, sessions_of

JOBS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
"""Each job and its project."""

PROGRAM = """
echo "begin $LIFEBUS_JOB_ID" >> world
trap '' TERM
echo "{\\"by\\": \\"$LIFEBUS_JOB_ATTEMPT\\"}"
echo "end $LIFEBUS_JOB_ID" >> world
"""
"""Says when it begins and when it is done; behind its last line nothing is left to be cut off."""


async def live(root: Path) -> str:
    """Queue every job that was not acknowledged, wait for all, and return how they stand."""
    settings, _ = load()
    die_when_asked("job/")
    async with running_whole(settings) as daemon:
        known = (root / "acknowledged").read_text().split()
        for job_id, project in JOBS.items():
            if job_id in known:
                continue  # one that is acknowledged must be there without any help
            await sessions_of(daemon).queue.enqueue(
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
        found = [await sessions_of(daemon).queue.wait(job_id, 600) for job_id in JOBS]
        return " ".join(f"{one.id}={one.state.value}" for one in found)


def main() -> None:
    """Live one life."""
    print(asyncio.run(live(life_root())), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main()
