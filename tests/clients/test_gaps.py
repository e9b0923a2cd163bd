"""Where history is gone an iterator raises, calls a function or yields, and passes no gap that is not known."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Literal, assert_type

import anyio.to_thread
import pytest

import lifebus
import lifebus.blocking
from lifebus import Delivery, Gap, GapFound
from lifebus.signals import SignalReceived
from lifebus_contract import Receipt
from lifebus_contract.failure import FailureClass, RetryClass
from lifebus_supervisor.daemon.composition import Daemon
from support.integration.following import drain, emit, take, until
from support.integration.observing import Observer, drain_signals, signal
from support.patience import PATIENCE_S
from support.running import connected, running_bus


async def pruned_broker(daemon: Daemon, bus: lifebus.Bus) -> Gap:
    """Record five receipts, of which two are left; return the gap that a follower meets."""
    await emit(bus, *["s1"] * 5)
    base = await daemon.follower.dump_at(3) if daemon.follower is not None else b""
    await daemon.bus.ledger.prune(3, base)
    return Gap(epoch=daemon.bus.ledger.epoch, after=0, until=3, reason="pruned", state_at=3)


async def test_a_gap_is_raised_with_what_is_gone_and_how_to_go_on() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        gone = await pruned_broker(daemon, bus)
        receipts = bus.receipts(since="start")
        with pytest.raises(GapFound, match=r"receipts 1 to 3 are gone: .*goes on behind them") as raised:
            await take(receipts, 1)
        fault = raised.value
        assert (fault.gap, fault.cursor) == (gone, lifebus.Position(gone.epoch, 3))
        assert (fault.code, fault.failure_class) == ("gap_found", FailureClass.STATE_CONFLICT)
        assert fault.retry_class is RetryClass.RETRY_AFTER_REREAD
        assert [one.sequence for one in await take(receipts, 2)] == [4, 5], "the same iterator goes on"


async def test_who_begins_again_where_it_was_before_the_gap_hears_of_it_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await pruned_broker(daemon, bus)
        place = lifebus.Position(daemon.bus.ledger.epoch, 1)
        for _ in range(2):  # a program that ends by the error and is started again
            receipts = bus.receipts(since=place, until_head=True)
            with pytest.raises(GapFound) as raised:
                await drain(receipts)
            assert receipts.cursor == place
        assert raised.value.cursor is not None
        assert [one.sequence for one in await drain(bus.receipts(since=raised.value.cursor, until_head=True))] == [4, 5]


async def test_a_state_asked_for_at_a_gap_counts_it_as_known() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        gone = await pruned_broker(daemon, bus)
        receipts = bus.receipts(since="start")
        with pytest.raises(GapFound):
            await take(receipts, 1)
        state = await receipts.state()
        assert receipts.cursor == state.cursor == lifebus.Position(gone.epoch, 3)
        assert [one.sequence for one in await take(receipts, 2)] == [4, 5]


async def test_a_function_is_called_with_the_gap_and_the_iterator_goes_on() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        gone = await pruned_broker(daemon, bus)
        gaps: list[Gap] = []
        receipts = bus.receipts(since="start", until_head=True, gaps=gaps.append)
        assert [one.sequence for one in await drain(receipts)] == [4, 5]
        assert gaps == [gone]


async def test_a_function_may_be_async_and_ask_for_the_state() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await pruned_broker(daemon, bus)
        states: list[int] = []

        async def rebuild(_: Gap) -> None:
            states.append((await receipts.state()).position)

        receipts = bus.receipts(since="start", until_head=True, gaps=rebuild)
        assert [one.sequence for one in await drain(receipts)] == [4, 5]
        assert states == [3]


async def test_a_function_that_fails_is_called_again_and_the_place_waits_for_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        gone = await pruned_broker(daemon, bus)
        called: list[Gap] = []

        def fail_once(gap: Gap) -> None:
            called.append(gap)
            if len(called) == 1:
                raise ZeroDivisionError

        receipts = bus.receipts(since="start", gaps=fail_once)
        with pytest.raises(ZeroDivisionError):
            await take(receipts, 1)
        assert receipts.cursor == lifebus.Position(gone.epoch, 0)
        assert [one.sequence for one in await take(receipts, 2)] == [4, 5]
        assert called == [gone, gone]


async def test_a_function_that_is_cancelled_is_called_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        gone = await pruned_broker(daemon, bus)
        called: list[Gap] = []

        async def hang_once(gap: Gap) -> None:
            called.append(gap)
            if len(called) == 1:
                await asyncio.Event().wait()

        receipts = bus.receipts(since="start", gaps=hang_once)
        waiting = asyncio.ensure_future(anext(receipts))
        await until(lambda: called)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert receipts.cursor == lifebus.Position(gone.epoch, 0)
        assert [one.sequence for one in await take(receipts, 2)] == [4, 5]
        assert called == [gone, gone]


async def test_every_receipt_comes_or_is_raised_however_often_the_ledger_is_pruned() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        receipts, known = bus.receipts(since="start"), set[int]()
        for _ in range(4):
            await emit(bus, *["s1"] * 6)
            await daemon.bus.ledger.prune(daemon.bus.ledger.head - 4, b"{}")
            while max(known, default=0) < daemon.bus.ledger.head:
                try:
                    (one,) = await take(receipts, 1)
                    known.add(one.sequence or 0)
                except GapFound as fault:
                    known |= set(range(fault.gap.after + 1, (fault.gap.until or 0) + 1))
        assert known == set(range(1, 25))


async def test_signals_that_are_gone_are_raised_too() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await Observer(bus).observe(*[signal("t1")] * 5)
        await daemon.bus.ledger.journal.drop("signal/codex/t1", 3)
        signals = bus.signals(since="start", until_head=True)
        with pytest.raises(GapFound, match="signals of the thread 't1' 1 to 3 are gone") as raised:
            await drain_signals(signals)
        assert signals.cursors["t1"].position == 0
        assert (raised.value.gap.thread, raised.value.gap.until) == ("t1", 3)
        assert [one.sequence for one in await drain_signals(signals)] == [4, 5]
        gaps: list[Gap] = []
        assert len(await drain_signals(bus.signals(since="start", until_head=True, gaps=gaps.append))) == 2
        assert gaps == [raised.value.gap]


async def test_a_consumer_that_ends_by_the_error_hears_of_the_gap_again_and_one_that_goes_on_does_not() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        async with bus.consume("n", since="start"):
            pass
        await pruned_broker(daemon, bus)
        for _ in range(2):
            with pytest.raises(GapFound, match="receipts 1 to 3 are gone"):
                async with bus.consume("n") as deliveries:
                    await anext(deliveries)
        async with asyncio.timeout(PATIENCE_S), bus.consume("n") as deliveries:
            with pytest.raises(GapFound):
                await anext(deliveries)
            assert (await anext(deliveries)).position == 4
        async with asyncio.timeout(PATIENCE_S), bus.consume("n") as deliveries:
            assert (await anext(deliveries)).position == 4, "it came again, and the gap did not"


async def test_the_function_of_a_consumer_fails_and_the_broker_does_not_take_the_gap_as_known() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        async with bus.consume("n", since="start"):
            pass
        await pruned_broker(daemon, bus)
        gaps: list[Gap] = []
        async with asyncio.timeout(PATIENCE_S), bus.consume("n", gaps=_fail) as deliveries:
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await anext(deliveries)
        async with asyncio.timeout(PATIENCE_S), bus.consume("n", gaps=gaps.append) as deliveries:
            assert (await anext(deliveries)).position == 4
        assert [(one.after, one.until) for one in gaps] == [(0, 3)]


def _fail(_: Gap) -> None:
    raise ZeroDivisionError


async def test_a_script_without_an_event_loop_has_the_same_choices() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        async with bus.consume("n", since="start"):
            pass
        gone = await pruned_broker(daemon, bus)
        await anyio.to_thread.run_sync(_script, daemon, gone)


def _script(daemon: Daemon, gone: Gap) -> None:
    with lifebus.blocking.connect(runtime_dir=daemon.settings.runtime_dir) as bus:
        receipts = bus.receipts(since="start")
        with pytest.raises(GapFound) as raised:
            next(receipts)
        assert raised.value.gap == gone
        assert next(receipts).sequence == 4
        heard: list[tuple[Gap, int]] = []

        def handle(gap: Gap) -> None:
            heard.append((gap, threading.get_ident()))
            if len(heard) == 1:
                raise ZeroDivisionError
            assert called.state().position == 3

        called = bus.receipts(since="start", until_head=True, gaps=handle)
        with pytest.raises(ZeroDivisionError):
            next(called)
        assert [one.sequence for one in called] == [4, 5]
        assert heard == [(gone, threading.get_ident())] * 2, "in the thread of the script"
        assert isinstance(next(bus.receipts(since="start", gaps="yield")), Gap)
        with bus.consume("n") as deliveries:
            with pytest.raises(GapFound):
                next(deliveries)
            assert next(deliveries).position == 4


async def test_another_word_is_refused_at_once() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        word: Callable[[Gap], object] = "ignore"  # type: ignore[assignment]  # as a user may write it
        with pytest.raises(ValueError, match="'ignore'"):
            bus.receipts(gaps=word)
        with pytest.raises(ValueError, match="'ignore'"):
            bus.signals(gaps=word)
        with pytest.raises(ValueError, match="'ignore'"):
            async with bus.consume("n", gaps=word):
                pass


async def test_types_say_whether_gaps_are_items() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        as_items: Literal["yield"] = "yield"
        assert_type(bus.receipts(), lifebus.Subscription[Receipt])
        assert_type(bus.receipts(gaps=print), lifebus.Subscription[Receipt])
        assert_type(bus.receipts(gaps=as_items), lifebus.Subscription[Receipt | Gap])
        assert_type(bus.signals(), lifebus.Signals[SignalReceived])
        assert_type(bus.signals(gaps=as_items), lifebus.Signals[SignalReceived | Gap])
        iterated: AsyncIterator[Receipt] = bus.receipts()
        assert aiter(iterated) is iterated
        async with bus.consume("n") as one, bus.consume("m", gaps=as_items) as other:
            assert_type(one, lifebus.Deliveries[Delivery])
            assert_type(other, lifebus.Deliveries[Delivery | Gap])
