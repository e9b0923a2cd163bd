"""Cancelling public coroutines anywhere: later calls work, nothing leaks, nothing is recorded twice."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_contract import CapabilityRequest, Emission, Receipt, RequirementLevel, encode_msgpack
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon import storage
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.emissions import Emit
from lifebus_transports.messages.reads import Backfill
from support.bus_box import emission
from support.integration.following import emit, frame, recorded, until
from support.integration.serving import EVENT, content, serving
from support.leftovers import descriptors
from support.patience import PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory

TURNS = 24
REQUIREMENT = CapabilityRequest(capability="context_pressure", level=RequirementLevel.OPTIONAL)

CALLS: dict[str, Callable[[lifebus.Bus], Awaitable[Any]]] = {
    "emit": lambda bus: bus.emit(frame("other")),
    "emit many": lambda bus: bus.emit([frame("other") for _ in range(70)]),
    "record": lambda bus: bus.record(Emit(client_id="other", emissions=(Emission(request=frame("other")),))),
    "ask": lambda bus: bus.ask("ping", encode_msgpack(Nothing())),
    "tick": lambda bus: bus.tick("codex", session="other"),
    "negotiate": lambda bus: bus.negotiate("codex", [REQUIREMENT]),
    "read": lambda bus: bus.read(Backfill()),
    "sessions": lambda bus: bus.sessions(),
    "close_session": lambda bus: bus.close_session(("codex", "other")),
    "forget_session": lambda bus: bus.forget_session(("codex", "other")),
    "clients": lambda bus: bus.clients(),
    "manifests": lambda bus: bus.manifests(),
    "status": lambda bus: bus.status(),
    "verify": lambda bus: bus.verify(),
    "state": lambda bus: bus.state(),
    "resume": lambda bus: bus.saves.resume(),
    "save": lambda bus: bus.saves.save("SESSION"),
    "receipts": lambda bus: anext(bus.receipts(since="start")),
    "receipts of a session": lambda bus: anext(bus.receipts(session=("codex", "s1"))),
    "serve": lambda bus: bus.serve([EVENT], content),
}


async def cancelled_after(turns: int, call: Awaitable[Any]) -> bool:
    """Cancel a call after so many turns of the loop; say whether it came to that."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait_for(asyncio.wait([task]), PATIENCE_S)
    return task.cancelled()


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_was_cancelled_anywhere_leaves_the_connection_working(name: str) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1")
        cancelled = [await cancelled_after(turns, CALLS[name](bus)) for turns in range(TURNS)]
        assert any(cancelled)
        await until(lambda: not bus._connection._pending)
        await until(lambda: not bus._connection.closing)
        assert bus._connection.on_push is None
        await until(lambda: not daemon.bus.clients.all())
        assert (await bus.emit(frame("s1"))).receipts[0].sequence == 2


async def test_calls_cancelled_at_random_beside_each_other_leave_everything_consistent() -> None:
    chance = random.Random(7)
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1")
        for _ in range(30):
            names = chance.sample([name for name in CALLS if name != "serve"], 6)
            await asyncio.gather(*(cancelled_after(chance.randrange(30), CALLS[name](bus)) for name in names))
        await until(lambda: not bus._connection._pending)
        await until(lambda: not bus._connection.closing)
        assert await daemon.bus.ledger.verify() == []
        assert (await bus.emit(frame("s1"))).receipts[0].sequence == 2


async def test_an_emission_that_was_cancelled_and_repeated_is_one_fact() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        for turns in range(TURNS):
            fact = frame()
            await cancelled_after(turns, bus.emit(fact))
            assert (await bus.emit(fact)).receipts[0].sequence == turns + 1
        assert len(await recorded(daemon)) == TURNS


async def test_an_emission_with_a_client_that_was_cancelled_and_repeated_is_one_fact() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:
        async with serving(worker, content):
            for turns in range(TURNS):
                fact = frame()
                await cancelled_after(turns, bus.emit(fact))
                assert [one.client_id for one in (await bus.emit(fact)).receipts] == ["worker"]
        assert [one.sequence for one in await recorded(daemon)] == list(range(1, TURNS + 1))
        assert daemon.bus.dispatches == 0


async def test_emissions_that_are_never_answered_leave_nothing_behind_when_they_are_given_up() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        daemon.requests.close()
        waiting = [asyncio.ensure_future(bus.emit(frame())) for _ in range(100)]
        await until(lambda: len(bus._connection._pending) == 3)  # the first alone, then 64, then the rest
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert not bus._connection._pending


async def test_a_follower_that_is_cancelled_between_items_misses_none() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(since="start")
        seen: list[Receipt] = []
        for turns in range(40):
            await emit(bus, "s1")
            waiting = asyncio.ensure_future(anext(follower))
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            if not waiting.cancelled():
                seen.append(waiting.result())
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < 40:
                seen.append(await anext(follower))
        assert [one.sequence for one in seen if isinstance(one, Receipt)] == list(range(1, 41))


async def test_connecting_can_be_cancelled_anywhere() -> None:
    async with running_bus() as daemon:

        async def connect_once() -> None:
            async with connected(daemon) as bus:
                await bus.status()

        for turns in range(TURNS):
            await cancelled_after(turns, connect_once())
        await connect_once()


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20, 100])
async def test_a_broker_whose_start_or_life_is_cancelled_leaves_its_directory_free(turns: int) -> None:
    with short_directory() as directory:

        async def live() -> None:
            async with running(settings_in(directory)):
                await anyio.sleep_forever()

        await cancelled_after(turns, live())
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            assert (await bus.emit(frame())).receipts[0].sequence == 1


async def test_a_start_that_is_cancelled_while_its_files_are_checked_leaves_none_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks: list[Settings] = []
    checking, checked = threading.Event(), threading.Event()

    def check(settings: Settings) -> None:
        checks.append(settings)
        if len(checks) == 2:  # the first is made before the ledger is opened
            checking.set()
            assert checked.wait(PATIENCE_S)

    monkeypatch.setattr(storage, "check_ledger_files", check)
    with short_directory() as directory:

        async def start() -> None:
            async with running(settings_in(directory)):
                await anyio.sleep_forever()

        task = asyncio.ensure_future(start())
        await until(checking.is_set)
        task.cancel()
        checked.set()
        await asyncio.wait([task])
        assert task.cancelled()
        assert [what for what in descriptors().values() if what.startswith(str(directory))] == []


async def test_emitting_inside_the_broker_can_be_cancelled_anywhere_and_repeated() -> None:
    async with running_bus() as daemon:
        for turns in range(TURNS):
            fact = emission(idempotency_key=f"k{turns}")
            await cancelled_after(turns, daemon.bus.emit("inside", [fact]))
            (outcome,) = await daemon.bus.emit("inside", [fact])
            assert outcome.refusal is None
        assert [one.sequence for one in await recorded(daemon)] == list(range(1, TURNS + 1))


def test_every_public_coroutine_of_the_client_is_in_the_list() -> None:
    public = {
        name
        for name, member in vars(lifebus.Bus).items()
        if not name.startswith("_") and asyncio.iscoroutinefunction(member)
    }
    assert public - {name.split()[0] for name in CALLS} == set()
