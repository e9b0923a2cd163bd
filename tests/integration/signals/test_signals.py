"""Following signals over real sockets: nothing is missed, nothing comes twice, what is gone is said."""

import asyncio
from contextlib import AsyncExitStack

import pytest

import lifebus
from lifebus.signals import SignalReceived
from lifebus_supervisor.configuration.settings import SignalSettings
from support.integration.following import lose_every, until
from support.integration.observing import EVENT, Observer, drain_signals, places, signal, take_signals
from support.running import connected, running_bus, short_directory

THREADS = ["t1", "t2", "", "t 1/x", "会议"]
SCOPES = pytest.mark.parametrize("thread", [None, "t1"], ids=["all threads", "one thread"])


@SCOPES
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_follower_of_a_publisher_that_loses_messages_sees_every_signal(thread: str | None, nth: int) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        lose_every(daemon.receipts, nth, beacons=nth > 1)
        signals, observer = bus.signals(thread=thread, since="start"), Observer(bus)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take_signals(signals, 20 if thread else 100))
            for _ in range(20):
                await observer.observe(*[signal(name) for name in THREADS])
        followed = THREADS if thread is None else [thread]
        assert places(reading.result()) == {name: list(range(1, 21)) for name in followed}


@SCOPES
async def test_the_loss_of_the_last_signal_is_noticed_without_another_one(thread: str | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        signals, observer = bus.signals(thread=thread, since="start"), Observer(bus)
        await observer.observe(signal("t1"))
        await take_signals(signals, 1)
        lose_every(daemon.receipts, 1)
        await observer.observe(signal("t1"))
        assert places(await take_signals(signals, 1)) == {"t1": [2]}


async def test_what_is_followed_from_now_on_begins_with_the_next_signal_of_every_thread() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(signal("t1"), signal("t2"), signal("t1"))
        signals = bus.signals()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take_signals(signals, 3))
            await until(lambda: signals.cursors)
            await observer.observe(signal("t1"), signal("new"), signal("t2"))
        assert places(reading.result()) == {"t1": [3], "new": [1], "t2": [2]}


async def test_a_signal_has_its_number_its_name_its_cursor_and_the_envelope_as_it_was_sent() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        sent = signal("t1", size=3)
        await Observer(bus).observe(sent)
        (item,) = await take_signals(bus.signals(thread="t1", since="start"), 1)
        assert isinstance(item, SignalReceived)
        assert (item.adapter_id, item.thread, item.sequence, item.event_type) == ("codex", "t1", 1, EVENT)
        assert (item.raw, item.cursor) == (sent.signal, lifebus.Position(daemon.bus.ledger.epoch, 1))
        assert item.envelope["params"] == {"delta": "xxx"}


async def test_following_goes_on_after_a_restart_of_the_broker_from_where_it_was() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            observer, signals = Observer(bus), bus.signals(since="start")
            await observer.observe(*[signal(name) for name in THREADS])
            seen = await take_signals(signals, 3)
            await observer.observe(signal("late"))
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            again = bus.signals(since=signals.cursors, until_head=True)
            seen += await drain_signals(again)
            assert places(seen) == {name: [1] for name in [*THREADS, "late"]}
            await Observer(bus, "o2").observe(signal("t1"))
            assert places(await drain_signals(bus.signals(since=again.cursors, until_head=True))) == {"t1": [2]}


@pytest.mark.parametrize(("keep_mb", "after"), [(64, [2, 3]), (0, ["epoch_changed", 1, 2])])
async def test_a_follower_lives_through_a_broker_restart(keep_mb: int, after: list[int | str]) -> None:
    settings = SignalSettings(keep_mb=keep_mb)
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory, signals=settings) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                signals = bus.signals(thread="t1", gaps="yield")
                async with asyncio.TaskGroup() as tasks:
                    reading = tasks.create_task(take_signals(signals, 1))
                    await until(lambda: signals.cursors)
                    await Observer(bus).observe(signal("t1"))
                assert places(reading.result()) == {"t1": [1]}
            async with running_bus(directory=directory, signals=settings):
                signals._views._beacon = None  # that of the first broker says nothing of whether the second is heard
                async with asyncio.TaskGroup() as tasks:
                    reading = tasks.create_task(take_signals(signals, len(after)))
                    await until(lambda: signals._views._beacon)
                    await Observer(bus, "o2").observe(signal("t1"), signal("t1"))
                assert places(reading.result()) == {"t1": after}


@SCOPES
async def test_signals_that_are_pruned_are_one_gap_and_then_what_is_left(thread: str | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await Observer(bus).observe(*[signal("t1")] * 10)
        await daemon.bus.ledger.journal.drop("signal/codex/t1", 6)
        seen = await drain_signals(bus.signals(thread=thread, since="start", until_head=True, gaps="yield"))
        epoch = daemon.bus.ledger.epoch
        assert seen[0] == lifebus.Gap(epoch=epoch, after=0, until=6, reason="pruned", thread="t1")
        assert places(seen) == {"t1": ["pruned", 7, 8, 9, 10]}


async def test_signals_take_no_more_room_than_they_may_and_a_loud_thread_leaves_a_quiet_one_alone() -> None:
    async with running_bus(signals=SignalSettings(keep_mb=1)) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(*[signal("quiet", size=1_000)] * 20)
        for _ in range(60):
            await observer.observe(*[signal("loud", size=5_000)] * 20)
        await until(lambda: daemon.signals.dropped)
        journal = daemon.bus.ledger.journal
        kept = await journal.streams("signal/")
        seen = places(await drain_signals(bus.signals(since="start", until_head=True, gaps="yield")))
        assert sum(one.bytes for one in kept) < 4 * 1_048_576
        assert seen["quiet"] == list(range(1, 21))
        assert seen["loud"][0] == "pruned"  # more may go while it is read: then that is another gap
        assert seen["loud"][-1] == 1_200


async def test_without_room_signals_are_live_only_and_a_loss_is_a_gap() -> None:
    async with running_bus(signals=SignalSettings(keep_mb=0)) as daemon, connected(daemon) as bus:
        signals, observer = bus.signals(thread="t1", gaps="yield"), Observer(bus)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take_signals(signals, 2))
            await until(lambda: signals.cursors)
            await observer.observe(signal("t1"), signal("t1"))
        assert places(reading.result()) == {"t1": [1, 2]}
        assert await daemon.bus.ledger.journal.streams("signal/") == []
        lose_every(daemon.receipts, 1)
        for _ in range(30):
            await observer.observe(*[signal("t1", size=5_000)] * 20)
        assert places(await take_signals(signals, 1)) == {"t1": ["pruned"]}


async def test_a_reader_that_is_slower_than_its_queue_gets_everything_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus.signals._MAX_READY", 8)
    monkeypatch.setattr("lifebus._internal.view._MAX_HELD", 16)
    async with running_bus() as daemon, connected(daemon) as bus:
        signals, observer = bus.signals(since="start"), Observer(bus)
        await observer.observe(signal("t1"))
        seen = await take_signals(signals, 1)
        for _ in range(30):
            await observer.observe(*[signal(name) for name in ["t1", "t2"] * 5])
        assert len(signals._ready) <= 8 + 10
        seen += await take_signals(signals, 300)
        assert places(seen) == {"t1": list(range(1, 152)), "t2": list(range(1, 151))}


async def test_only_signals_that_the_user_wants_are_yielded() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        events = ["app_server.turn.started", "app_server.item.started", "app_server.turn.completed"]
        await Observer(bus).observe(*[signal(event=event) for event in events * 2])
        turns = await drain_signals(bus.signals(since="start", event="app_server.turn.*", until_head=True))
        late = await drain_signals(bus.signals(since="start", where=lambda one: one.sequence > 4, until_head=True))
        assert (places(turns), places(late)) == ({"t1": [1, 3, 4, 6]}, {"t1": [5, 6]})


async def test_the_last_few_of_every_thread_can_be_asked_for() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await Observer(bus).observe(*[signal(name) for name in ["t1", "t2", "t1", "t1"]])
        seen = await drain_signals(bus.signals(last=2, until_head=True))
        assert places(seen) == {"t1": [2, 3], "t2": [1]}


async def test_following_until_the_head_ends_although_signals_keep_coming() -> None:
    async with running_bus() as daemon, connected(daemon, "observer") as source, connected(daemon) as bus:
        observer = Observer(source)
        await observer.observe(*[signal(name) for name in ["t1", "t2"] * 300])
        signals = bus.signals(since="start", until_head=True)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(drain_signals(signals))
            while not reading.done():
                await observer.observe(signal("t1"), signal("t3"))
        seen = places(reading.result())
        assert seen["t2"] == list(range(1, 301))
        assert seen["t1"] == list(range(1, len(seen["t1"]) + 1))
        with pytest.raises(StopAsyncIteration):
            await anext(signals)


async def test_many_threads_are_followed_at_once() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        signals, observer = bus.signals(since="start"), Observer(bus)
        names = [f"t{number}" for number in range(300)]
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take_signals(signals, 900))
            for _ in range(3):
                await observer.observe(*[signal(name) for name in names])
        assert places(reading.result()) == {name: [1, 2, 3] for name in names}


async def test_signals_are_no_receipts() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        head = daemon.bus.ledger.head
        await Observer(bus).observe(signal())
        status = await bus.status()
        assert daemon.bus.ledger.head == head
        assert status.counters["signals_stored"] == 1
