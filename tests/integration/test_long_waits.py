"""Whoever waits for a job, an answer or a drain is told of a dead broker at once, and waits on with the next one."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_contract import TransportError
from lifebus_contract.jobs import NewJob
from support.broker_process import broker_process
from support.inbox.questions import answer, question
from support.patience import PATIENCE_S, SOON_S
from support.running import short_directory

SILENT_S = 20 * PATIENCE_S
"""Whoever only waits for the answer that the dead broker owes waits as long as this."""

FAR_MS = 4_000_000_000_000
"""In the year 2096."""


async def ends_soon(waiting: "asyncio.Task[Any]") -> bool:
    """Whether it ends, with whatever result."""
    ended, _ = await asyncio.wait((waiting,), timeout=SOON_S)
    return bool(ended)


async def begun(bus: lifebus.Bus, wait: Awaitable[Any]) -> "asyncio.Task[Any]":
    """Begin to wait, and return when the broker has the request."""
    waiting = asyncio.ensure_future(wait)
    await asyncio.sleep(0)  # it has sent its request
    await bus.jobs.show("late")  # answered by the same broker, behind it
    return waiting


async def test_waiting_goes_on_with_the_next_broker_as_soon_as_the_first_one_is_killed() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory) as first,
            lifebus.connect("test", runtime_dir=first.runtime_dir, timeout=SILENT_S) as bus,
        ):
            await bus.jobs.enqueue(NewJob(type="command", project_id="p", job_id="late", not_before_ms=FAR_MS,
                                          payload={"argv": ["true"], "cwd": str(directory)}))  # fmt: skip
            await bus.inbox.ask(question())
            job = await begun(bus, bus.jobs.wait("late"))
            asked = await begun(bus, bus.inbox.wait("q_1"))
            await first.kill()
            async with broker_process(directory):
                with anyio.fail_after(PATIENCE_S):
                    await bus.jobs.cancel("late", reason="enough")
                    await bus.inbox.give("q_1", answer())
                assert await ends_soon(job)
                assert (await job).error == "enough"
                assert await ends_soon(asked)
                assert (await asked).answer is not None


async def test_a_drain_that_waits_ends_with_its_broker() -> None:
    with short_directory() as directory:
        hold = {"argv": ["sh", "-c", "while :; do sleep 1; done"], "cwd": str(directory)}
        async with (
            broker_process(directory) as broker,
            lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=SILENT_S) as bus,
        ):
            await bus.jobs.enqueue(NewJob(type="command", project_id="p", job_id="late", payload=hold))
            draining = await begun(bus, bus.jobs.drain(wait_s=30))
            await broker.kill()
            assert await ends_soon(draining)
            with pytest.raises(TransportError):
                await draining
