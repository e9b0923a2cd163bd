"""Ticks over real sockets: driven ones are stored and answered, those that observed nothing are told to who asks."""

import asyncio
from typing import Any

import anyio.to_thread
import pytest
import zmq

import lifebus
import lifebus.blocking
from lifebus.client import TickResult
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.transitions import transition
from lifebus_contract import (
    AdapterUnavailable,
    CapabilityRequest,
    Emission,
    InvalidRequest,
    LifecycleEvent,
    Receipt,
    RequirementLevel,
    SupportState,
    TransportError,
)
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.messages.ticks import Tick, TickAnswer
from support.integration.following import emit, ids, joined, recorded, take, until
from support.patience import PATIENCE_S
from support.running import connected, running_bus

TICK = LifecycleEvent.SUPERVISOR_TICK
OPENING = "event:frame.opening"


def publish_tick(bus: EventBus, session: str | None = "s1", adapter: str = "codex") -> Receipt:
    """What the built-in loop does when it observed nothing."""
    request = lifebus.make_request(TICK, adapter, session=session)
    return bus.publish_transient("lifebus.supervisor", Emission(request=request))


@pytest.mark.parametrize("session", [None, ("codex", "s1")], ids=["whole ledger", "one session"])
async def test_followers_of_the_ledger_neither_see_transient_receipts_nor_take_them_for_holes(
    session: tuple[str, str] | None,
) -> None:
    async with running_bus(beacon_ms=10_000) as daemon, connected(daemon) as bus:
        asked: list[Any] = []
        original = daemon.bus.ledger.read

        async def read(query: Any) -> Any:
            asked.append(query)
            return await original(query)

        daemon.bus.ledger.read = read  # type: ignore[method-assign]
        follower = bus.receipts(session=session)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take(follower, 20))
            await joined(follower)
            view = follower._view
            assert view is not None
            await until(lambda: not view.behind)
            before = len(asked)
            for _ in range(20):
                publish_tick(daemon.bus)
                await emit(bus, "s1")
                publish_tick(daemon.bus, None)
        assert (len(asked) - before, view.behind) == (0, False)
        assert ids(reading.result()) == ids(await recorded(daemon))
        assert (await bus.status()).counters["ticks_transient"] == 40


async def test_a_transient_receipt_has_position_0_on_its_own_topic_and_no_other() -> None:
    async with running_bus(beacon_ms=10_000) as daemon, connected(daemon) as bus:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        everything = context.socket(zmq.SUB)
        try:
            everything.connect(f"ipc://{daemon.settings.runtime_dir / 'receipts.ipc'}")
            everything.setsockopt(zmq.SUBSCRIBE, b"")
            await until(lambda: daemon.receipts._topics.is_subscribed(b"a/"))
            with_session, without = publish_tick(daemon.bus, "s/1"), publish_tick(daemon.bus, None)
            await emit(bus, "s1")
            topics: list[bytes] = []
            while not topics or topics[-1] != b"r/codex/s1/":
                await until(lambda: bool(everything.poll(0)))
                topics.append(everything.recv_multipart()[0])
            assert topics == [b"t/codex/s%2F1/", b"t/codex/", b"a/", b"r/codex/s1/"]
            assert (with_session.sequence, without.sequence) == (None, None)
        finally:
            everything.close(0)
            context.destroy(0)


async def test_ticks_are_heard_by_who_follows_them_those_of_one_adapter_or_all() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        every, mine = bus.ticks(), bus.ticks("codex")
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(anext(one)) for one in (every, mine)]
            await until(lambda: every._marked and mine._marked)
            first = publish_tick(daemon.bus, adapter="claude")
            second = publish_tick(daemon.bus)
        assert [reader.result() for reader in readers] == [first, second]
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(every) == second
        await every.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(every)
        await mine.aclose()


async def test_a_slow_follower_of_ticks_loses_the_oldest_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus.ticks._MAX_READY", 3)
    async with running_bus() as daemon, connected(daemon) as bus:
        ticks = bus.ticks()
        async with asyncio.timeout(PATIENCE_S):
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(anext(ticks))
                await until(lambda: ticks._marked)
                publish_tick(daemon.bus)
            published = [first.result(), *(publish_tick(daemon.bus) for _ in range(5))]
            await until(lambda: ticks.dropped == 2)
            assert [await anext(ticks) for _ in range(3)] == published[3:]
        await ticks.aclose()


async def test_following_ticks_ends_with_the_connection() -> None:
    async with running_bus() as daemon:
        async with connected(daemon) as bus:
            ticks = bus.ticks()
            waiting = asyncio.ensure_future(anext(ticks))
            await until(lambda: ticks._marked)
        with pytest.raises(TransportError):
            await waiting


async def test_a_driven_tick_is_stored_and_answered_for_one_session_one_adapter_or_all() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        one, adapter, every = await bus.tick("codex", "s1"), await bus.tick("codex"), await bus.tick()
        assert isinstance(one, TickResult)
        assert [(one.event, one.harness_session_id, one.client_id) for one in one.receipts] == [(TICK, "s1", "test")]
        assert [(one.event, one.adapter_id) for one in adapter.receipts] == [(TICK, "codex")]
        assert {one.event for one in every.receipts} == {TICK}
        stored = [*one.receipts, *adapter.receipts, *every.receipts]
        assert ids(await recorded(daemon)) == ids(stored)
        assert (*one.positions, *adapter.positions, *every.positions) == tuple(range(1, len(stored) + 1))


async def test_a_tick_of_an_unknown_adapter_is_refused() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(AdapterUnavailable, match="known are codex"):
            await bus.tick("codx")
        with pytest.raises((InvalidRequest, ValueError), match="together with its adapter"):
            await bus.tick(session="s1")
        assert daemon.bus.ledger.head == 0


async def test_a_session_is_ticked_by_its_short_name_with_and_without_its_adapter() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        for found in (await bus.tick(session="codex#1"), await bus.tick("codex", "codex#1")):
            assert [one.harness_session_id for one in found.receipts] == ["s1"]
        with pytest.raises(InvalidRequest, match="no session is called `codex#2`"):
            await bus.tick(session="codex#2")


async def test_a_driven_tick_is_what_the_supervisor_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tick] = []

    async def supervise(_: Supervisor, __: EventBus, tick: Tick) -> TickAnswer:
        asked.append(tick)
        return TickAnswer(receipts=(), positions=(), sessions=3, files=2, degraded=1)

    monkeypatch.setattr("lifebus_supervisor.daemon.composition.drive", supervise)
    async with running_bus() as daemon, connected(daemon) as bus:
        assert await bus.tick("codex", "s1") == TickResult(sessions=3, files=2, degraded=1)
        assert asked == [Tick(client_id="test", adapter_id="codex", session="s1")]

        def block() -> TickResult:
            with lifebus.blocking.connect("b", runtime_dir=daemon.settings.runtime_dir) as blocking:
                return blocking.tick()

        assert (await anyio.to_thread.run_sync(block)).sessions == 3


async def test_negotiation_asks_about_a_session_as_it_is_now() -> None:
    needs = [CapabilityRequest(capability=OPENING, level=RequirementLevel.REQUIRED)]
    lost = transition(OPENING, SupportState.NATIVE, SupportState.UNAVAILABLE, at_epoch_s=5, evidence="two polls")
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = lifebus.make_request(LifecycleEvent.CAPABILITY_DEGRADED, "codex", session="s1")
        (receipt,) = (await bus.emit(Emission(request=fact, degradations=(lost,)))).receipts
        assert (receipt.status, receipt.capability_degradations) == ("degraded", (lost,))
        outcomes = [(await bus.negotiate("codex", needs, session=one)).outcome for one in ("s1", "codex#1", "s2", None)]
        assert outcomes == ["unsupported", "unsupported", "satisfied", "satisfied"]

        def block() -> str:
            with lifebus.blocking.connect("b", runtime_dir=daemon.settings.runtime_dir) as blocking:
                return blocking.negotiate("codex", needs, session="s1").outcome

        assert await anyio.to_thread.run_sync(block) == "unsupported"
