"""What the queue does: jobs a second that are acknowledged durably, and how long a job takes from its call to its end.

Each job is `true`, a process of its own with its shim; the broker syncs every record.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lifebus
from bench.lifebus_client import KEEP_ALL, broker
from bench.report import Aim, Run, print_table
from lifebus_contract.jobs import JobState, NewJob

PROJECTS = 50
IN_FLIGHT = 64
_CONFIG = KEEP_ALL + "[queue]\nmax_jobs = 10000\nmax_per_project = 10000\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Jobs a second that were acknowledged and done, and the ms of one at a time, to its start and to its end."""

    acknowledged: float
    done: float
    waits: Sequence[float]


def collect(jobs: int, singles: int) -> Queued:
    """Queue many jobs at once and have them done, then one after the other."""
    with broker(config=_CONFIG) as running:
        return asyncio.run(_collect(running.runtime_dir, jobs, singles))


async def _collect(runtime_dir: object, jobs: int, singles: int) -> Queued:
    async with lifebus.connect("bench", runtime_dir=str(runtime_dir), timeout=60) as bus:
        await _done(bus, "warm")
        places = asyncio.Semaphore(IN_FLIGHT)

        async def queue(number: int) -> None:
            async with places:
                await bus.jobs.enqueue(_job(f"j{number}", f"p{number % PROJECTS}"))

        # What begins meanwhile would take the processor from what is measured.
        await bus.jobs.drain()
        started = time.perf_counter()
        await asyncio.gather(*(queue(number) for number in range(jobs)))
        acknowledged = jobs / (time.perf_counter() - started)
        started = time.perf_counter()
        await bus.jobs.go_on()
        for number in range(jobs):
            await bus.jobs.wait(f"j{number}")
        done = jobs / (time.perf_counter() - started)
        waits = [await _done(bus, f"s{number}") for number in range(singles)]
    return Queued(acknowledged=acknowledged, done=done, waits=waits)


async def _done(bus: lifebus.Bus, job_id: str) -> float:
    """Have one job done, and return its seconds."""
    started = time.perf_counter()
    await bus.jobs.enqueue(_job(job_id, "single"))
    job = await bus.jobs.wait(job_id)
    if job.state is not JobState.COMPLETED:
        raise SystemExit(f"the job is {job.state.value}: {job.error}")
    return time.perf_counter() - started


def _job(job_id: str, project: str) -> NewJob:
    return NewJob(type="command", project_id=project, payload={"argv": ["/bin/true"], "cwd": "/"}, job_id=job_id)


def _measure(run: Run) -> list[Aim]:
    jobs, singles = (100, 10) if run.quick else (2_000, 200)
    found = collect(jobs, singles)
    slowest = sorted(found.waits)[int(0.99 * len(found.waits))]
    rows = [
        ("acknowledged a second, durable", f"{found.acknowledged:,.0f}"),
        ("done a second", f"{found.done:,.0f}"),
        ("one at a time, from the call to its end, p50 ms", f"{1e3 * statistics.median(found.waits):.1f}"),
        ("… p99 ms", f"{1e3 * slowest:.1f}"),
    ]
    title = f"The queue: {jobs:,} jobs of `true` in {PROJECTS} projects, {IN_FLIGHT} calls in flight"
    print_table(run.console, title, ("", "lifebus"), rows)
    return []


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"queue": _measure}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
