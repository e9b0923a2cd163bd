"""What a broker of a busy day has: recorded sessions, questions, runs, jobs, dead letters, losses and gaps."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio

import lifebus
from lifebus_contract import Degradation, RetryClass, SupportState
from lifebus_contract.consumers import MAX_TRIES, ConsumerSettings
from lifebus_contract.jobs import NewJob
from lifebus_contract.runs import RunInfo, RunStatus
from lifebus_supervisor.daemon.composition import Daemon
from support.flows import flow, step
from support.integration.hooking import call_hook
from support.patience import PATIENCE_S
from support.transcripts.boxes import entry
from support.transports.dashboards import SUBAGENTS
from support.transports.gateway import emit

BLOCKED: Final = "if [ ! -e answered ]; then touch answered; echo no credentials >&2; exit 2; fi"
"""A step that needs a person once."""

RUN: Final = "run_1"
"""The run that waits for a person."""


def recorded_positions(state: Path) -> list[int]:
    """The positions in the ledger's file, read without any of our code."""
    with closing(sqlite3.connect(f"file:{state / 'ledger.db'}?mode=ro", uri=True)) as database:
        return [position for (position,) in database.execute("SELECT position FROM rows ORDER BY position")]


async def until(bus: lifebus.Bus, run: RunInfo, status: RunStatus) -> RunInfo:
    """Wait until a run has a state."""
    with anyio.fail_after(PATIENCE_S):
        while run.status is not status:
            run = await bus.flows.wait(run.run_id, run.number)
    return run


async def leave_a_dead_letter(bus: lifebus.Bus) -> None:
    """A consumer that fails on its first receipt each time, and then goes away."""
    async with bus.consume("desk", ConsumerSettings(retry_ms=1), since="start") as deliveries:
        poison = await anext(deliveries)
        while poison.attempt < MAX_TRIES:
            await poison.nack(delay=0)
            poison = await anext(deliveries)
        await poison.nack(delay=0)
        # It is given up when the next one is handed out.
        await emit(bus, "s1")
        await anext(deliveries)


async def lose_pressure(daemon: Daemon, bus: lifebus.Bus) -> None:
    """A session of Claude Code of which it is reported that its transcript is gone."""
    await call_hook(
        daemon, "claude", hook_event_name="SessionStart", source="startup", session_id="s1", cwd="/srv/shop"
    )
    loss = Degradation(
        capability="context_pressure",
        previous_support=SupportState.PARTIAL,
        current_support=SupportState.UNAVAILABLE,
        event="capability.degraded",
        evidence="the transcript is gone",
        observed_at_epoch_s=1_790_000_000,
        retry_class=RetryClass.RETRY_AFTER_RECONFIGURE,
    )
    request = lifebus.make_request("capability.degraded", "claude", session="s1")
    await bus.emit(lifebus.Emission(request=request, degradations=(loss,)))
    with anyio.fail_after(PATIENCE_S):
        while not any(one.degraded for one in (await bus.status()).harnesses):
            await bus.tick()


async def furnish(daemon: Daemon, bus: lifebus.Bus, folder: Path) -> dict[str, str]:
    """Have a broker know something for every screen; return the places of the page, and what each shows."""
    await emit(bus, "d1")
    await leave_a_dead_letter(bus)
    await lose_pressure(daemon, bus)
    await anyio.Path(folder).mkdir()
    steps = (step("a", command=("/bin/sh", "-c", BLOCKED)), step("b", "a"))
    await until(bus, await bus.flows.submit(flow(folder, *steps), run_id=RUN), RunStatus.WAITING)
    for number in range(3):
        await bus.transcripts.upsert("s1", entry(f"m{number}", content=f"said {number}"))
    job = NewJob(type="command", project_id="p1", payload={"argv": ["sleep", "600"], "cwd": "/"})
    job_id = (await bus.jobs.enqueue(job)).job.id
    for sequence in (1, 2, 7):
        await bus.emit(lifebus.make_request("session.started", "hermes", session="gap", sequence=sequence))
    return {
        "now": "waits for an answer in the inbox",
        "session": "Choose a session.",
        f"session/claude/{SUBAGENTS}": "sub-agent",
        "session/hermes/gap": "the harness's numbers have a gap",
        "tail?at=20": "Payloads",
        "inbox": "Waiting for an answer (1)",
        f"inbox/{RUN}": "no credentials",
        "jobs": job_id,
        f"jobs/job/{job_id}": '"sleep"',
        "jobs/transcript/s1": "said 2",
        "ledger": "missing_first 3, missing_last 6",
        "hooks": "none since the broker started",
        "doctor": "What was found",
        "clients": "1 letter",
        "clients/desk": "given up",
        "capabilities": "the transcript is gone",
    }
