"""Whoever waits for a change of a run is told when its broker is another one, however quickly that came."""

import asyncio
import signal
from contextlib import suppress

import anyio

import lifebus
from lifebus_contract import TransportError
from lifebus_contract.runs import RunInfo, RunStatus
from support.broker_process import broker_process
from support.flows import flow, step
from support.patience import PATIENCE_S
from support.running import short_directory

TOLD_S = 12.0
"""Half of the 25 s for which an answer is waited for; one that is gone never answers."""


async def until_waiting(bus: lifebus.Bus, run: RunInfo) -> RunInfo:
    with anyio.fail_after(PATIENCE_S):
        while run.status is not RunStatus.WAITING:
            run = await bus.flows.wait(run.run_id, run.number)
    return run


async def wait_in_vain(bus: lifebus.Bus, run: RunInfo) -> None:
    """Wait until it is told that the broker has gone, or that the next one found the run interrupted."""
    with anyio.move_on_after(TOLD_S) as scope, suppress(TransportError):
        # a run that waits gets one more record, which may come only now
        while not run.interruptions:
            run = await bus.flows.wait(run.run_id, run.number)
    assert not scope.cancelled_caught


async def test_a_broker_that_was_killed_and_is_back_at_once_ends_a_wait() -> None:
    with short_directory() as directory:
        (directory / "project").mkdir()
        blocked = flow(directory / "project", step("blocked", command=("/bin/sh", "-c", "exit 2")))
        async with broker_process(directory) as first, lifebus.connect("test", runtime_dir=first.runtime_dir) as bus:
            run = await until_waiting(bus, await bus.flows.submit(blocked, run_id="blocked-1"))
            waiting = asyncio.create_task(wait_in_vain(bus, run))
            await asyncio.sleep(0)  # it has sent its request
            await bus.flows.show(run.run_id)  # answered by the same broker
            await first.kill()
            async with broker_process(directory):
                await waiting
                assert (await until_waiting(bus, await bus.flows.wait(run.run_id))).interruptions == 1


async def test_a_submission_whose_broker_dies_is_sent_to_the_next_one_and_begins_one_run() -> None:
    with short_directory() as directory:
        (directory / "project").mkdir()
        once = flow(directory / "project", step("once", command=("/bin/sh", "-c", "echo x >> ran")))
        async with (
            broker_process(directory) as first,
            lifebus.connect("test", runtime_dir=first.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            first.signal(signal.SIGSTOP)  # it takes what is sent, and does nothing about it
            submitting = asyncio.create_task(bus.flows.submit(once, run_id="once-1"))
            await asyncio.sleep(0)  # it has sent its request
            await first.kill()
            async with broker_process(directory):
                run = await submitting
                with anyio.fail_after(PATIENCE_S):
                    while not run.status.is_over:
                        run = await bus.flows.wait(run.run_id, run.number)
        assert run.status is RunStatus.COMPLETED
        assert (directory / "project" / "ran").read_text() == "x\n"
