"""The life of a follower of signals: other histories, leaving early, cancellation, being forgotten, a broker's end."""

import asyncio
import gc
import shutil
import weakref
from contextlib import AsyncExitStack

import pytest

import lifebus
from lifebus.signals import SignalReceived
from lifebus_contract import BrokerBusy, DeadlineExceeded, TransportError
from support.integration.following import until
from support.integration.observing import Observer, drain_signals, places, signal, take_signals
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory


@pytest.mark.parametrize("thread", [None, "t1"], ids=["all threads", "one thread"])
async def test_another_history_in_the_same_place_is_a_gap_and_then_its_signals(thread: str | None) -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                old = daemon.bus.ledger.epoch
                bus = await clients.enter_async_context(connected(daemon))
                signals = bus.signals(thread=thread, since="start", gaps="yield")
                await Observer(bus).observe(*[signal("t1")] * 5)
                await take_signals(signals, 5)
            shutil.rmtree(directory / "state")
            async with running_bus(directory=directory):
                await Observer(bus, "o2").observe(signal("t1"), signal("t1"))
                gap = lifebus.Gap(epoch=old, after=5, until=None, reason="epoch_changed", thread="t1")
                assert await take_signals(signals, 1) == [gap]
                place = dict(signals.cursors)
                assert places(await take_signals(signals, 2)) == {"t1": [1, 2]}
                assert places(await drain_signals(bus.signals(since=place, until_head=True))) == {"t1": [1, 2]}


async def test_a_cursor_of_another_history_is_a_gap_however_far_it_had_come() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await Observer(bus).observe(signal("t1"), signal("t2"))
        stale = lifebus.Position("ab" * 16, 1_000)
        one = await drain_signals(bus.signals(thread="t1", since=stale, until_head=True, gaps="yield"))
        several = await drain_signals(bus.signals(since={"t1": stale}, until_head=True, gaps="yield"))
        assert places(one) == {"t1": ["epoch_changed", 1]}
        assert places(several) == {"t1": ["epoch_changed", 1], "t2": [1]}


async def test_leaving_early_and_going_on_continues_where_it_stopped() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, asyncio.timeout(PATIENCE_S):
        await Observer(bus).observe(*[signal()] * 6)
        signals = bus.signals(since="start")
        seen: list[SignalReceived] = []
        async for item in signals:
            seen.append(item)
            if len(seen) == 3:
                break
        seen += await take_signals(signals, 3)
        assert places(seen) == {"t1": [1, 2, 3, 4, 5, 6]}


async def test_a_closed_follower_ends_wakes_who_waits_and_holds_no_socket() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        signals = bus.signals(since="start")
        await Observer(bus).observe(signal())
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(drain_signals(signals))
            await until(lambda: signals.cursors and signals.cursors["t1"].position == 1)
            await signals.aclose()
            await signals.aclose()
        assert places(waiting.result()) == {"t1": [1]}
        assert not bus._connection.closing
        assert await drain_signals(signals) == []


async def test_a_forgotten_follower_frees_its_socket() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        signals = bus.signals(since="start")
        await Observer(bus).observe(signal())
        await take_signals(signals, 1)
        gone = weakref.ref(signals)
        del signals
        gc.collect()
        assert gone() is None
        await until(lambda: not bus._connection.closing)


async def test_a_waiting_follower_learns_that_its_connection_was_closed() -> None:
    async with running_bus() as daemon, asyncio.timeout(PATIENCE_S):
        async with connected(daemon) as bus:
            signals = bus.signals(since="start")
            await Observer(bus).observe(signal())
            await take_signals(signals, 1)
            waiting = asyncio.ensure_future(anext(signals))
            await asyncio.sleep(0)
        with pytest.raises(TransportError, match="connection"):
            await waiting


async def test_a_join_or_a_question_that_was_cancelled_can_be_tried_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await Observer(bus).observe(signal(), signal())
        for turns in range(40):
            signals = bus.signals(since="start")
            first = asyncio.ensure_future(anext(signals))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            got = await asyncio.gather(first, return_exceptions=True)
            seen = [item for item in got if isinstance(item, SignalReceived)]
            assert places([*seen, *await take_signals(signals, 2 - len(seen))]) == {"t1": [1, 2]}
            await signals.aclose()
        assert not bus._connection._pending
        assert not bus._connection.closing


async def test_a_join_without_a_broker_fails_in_time_and_can_be_tried_again() -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                await Observer(bus).observe(signal())
            bus.timeout = 0.1
            signals = bus.signals(since="start")
            with pytest.raises(DeadlineExceeded):
                await anext(signals)
            async with running_bus(directory=directory):
                bus.timeout = signals._timeout = PATIENCE_S
                assert places(await take_signals(signals, 1)) == {"t1": [1]}


async def test_a_broker_that_stops_takes_no_more_observations() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        daemon.api.stopping = True
        with pytest.raises(BrokerBusy, match="stopping"):
            await Observer(bus).observe(signal())
        daemon.api.stopping = False
        assert await Observer(bus).observe(signal()) == 1
