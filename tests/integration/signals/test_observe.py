"""The verb `observe`: durable before it is answered, once however often it comes, in order."""

import asyncio
from collections.abc import Sequence

import pytest

import lifebus
from lifebus import Gap
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError
from lifebus_supervisor.api.observations import LifecycleObservation
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.signals import (
    MAX_SIGNAL_BYTES,
    Observation,
    ObservedExit,
    ObservedFact,
    ObservedLoss,
    ObservedProcess,
)
from support.integration.following import frame, until
from support.integration.observing import Observer, signal
from support.parts import sessions_of
from support.running import connected, running_bus, short_directory


async def sequences(daemon: Daemon, thread: str = "t1") -> list[int]:
    found = await daemon.signals.read("codex", thread, 0, 1024)
    return [one.sequence for one in found.signals]


class Notebook:
    """An intake that writes down what it is given, and refuses while a test has it refuse."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, LifecycleObservation]] = []
        self.refusal: LifebusError | None = None

    async def take(
        self,
        _origin: str,
        _adapter_id: str,
        _process: ObservedProcess | None,
        taken: Sequence[tuple[int, LifecycleObservation]],
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.taken.extend(taken)


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
async def test_signals_are_numbered_per_thread_and_a_batch_that_comes_again_adds_nothing(backend: str) -> None:
    async with running_bus(whole=True, backend=backend) as daemon, connected(daemon) as bus:
        observer, other = Observer(bus), Observer(bus, "o2")
        assert await observer.observe(signal("t1"), signal("t2"), signal("t1"), signal("")) == 4
        assert await other.observe(signal("t1")) == 1
        assert await observer.send(1, [signal("t1"), signal("t2"), signal("t1"), signal("")]) == 4
        assert await observer.send(3, [signal("t1"), signal(""), signal("t1")]) == 5
        assert [await sequences(daemon, thread) for thread in ("t1", "t2", "")] == [[1, 2, 3, 4], [1], [1]]


async def test_a_batch_is_known_after_a_restart_of_the_broker() -> None:
    with short_directory() as directory:
        async with running_bus(whole=True, directory=directory) as daemon, connected(daemon) as bus:
            assert await Observer(bus).observe(signal(), signal()) == 2
        async with running_bus(whole=True, directory=directory) as daemon, connected(daemon) as bus:
            assert await Observer(bus).send(1, [signal(), signal(), signal()]) == 3
            assert await sequences(daemon) == [1, 2, 3]


async def test_the_same_batch_sent_many_times_at_once_is_recorded_once() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(observer.send(1, [signal()] * 50)) for _ in range(10)]
        assert {answer.result() for answer in answers} == {50}
        assert await sequences(daemon) == list(range(1, 51))
        assert sessions_of(daemon).observations.counters()["observations_replayed"] == 450


async def test_facts_losses_and_the_end_reach_the_intake_in_order_with_their_numbers() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        sessions_of(daemon).observations._intake = notebook = Notebook()
        started = ObservedFact(fact={"type": "TurnStarted", "session": "t1"})
        seen: list[Observation] = [signal(), started, ObservedLoss(messages=2), signal(), ObservedExit(exit_code=0)]
        observer = Observer(bus)
        assert await observer.observe(*seen) == 5
        await observer.send(1, seen)
        assert notebook.taken == [(2, started), (3, ObservedLoss(messages=2)), (5, ObservedExit(exit_code=0))]


async def test_what_the_intake_refuses_is_sent_again_and_its_signals_come_once() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        sessions_of(daemon).observations._intake = notebook = Notebook()
        notebook.refusal = InvalidRequest("no such fact", code="bad_fact")
        observer = Observer(bus)
        with pytest.raises(InvalidRequest, match="no such fact"):
            await observer.send(1, [signal(), ObservedLoss()])
        assert await sequences(daemon) == []
        notebook.refusal = None
        assert await observer.send(1, [signal(), ObservedLoss()]) == 2
        assert (await sequences(daemon), notebook.taken) == ([1], [(2, ObservedLoss())])


async def test_observers_beyond_a_bound_are_refused_as_busy_and_can_come_again() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        sessions_of(daemon).observations._intake = slow = Slow()
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(Observer(bus, f"o{number}").observe(ObservedLoss())) for number in range(64)]
            await until(lambda: slow.asked == 64)
            with pytest.raises(BrokerBusy, match="observations"):
                await Observer(bus, "late").observe(ObservedLoss())
            assert (await bus.emit(frame())).receipts  # receipts are taken all the same
            slow.go.set()
        assert {one.result() for one in waiting} == {1}
        assert await Observer(bus, "late").observe(ObservedLoss()) == 1


class Slow:
    """An intake that takes nothing until it may go."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()

    async def take(self, *_: object) -> None:
        self.asked += 1
        await self.go.wait()


async def test_numbers_that_never_came_are_counted() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        assert await observer.send(7, [signal()]) == 7  # the broker knows nothing of what was before
        assert await observer.send(10, [signal()]) == 10
        assert sessions_of(daemon).observations.counters()["observations_missing"] == 2


async def test_the_signals_of_a_deleted_thread_are_dropped() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        await observer.observe(signal("t1"), signal("t2"), signal("t1"))
        await observer.observe(signal("t1", event="app_server.thread.deleted"))
        assert [await sequences(daemon, thread) for thread in ("t1", "t2")] == [[], [1]]
        (tip,) = await daemon.signals.threads("codex", "t1")
        assert (tip.head, tip.floor) == (3, 3)


async def test_a_reader_that_comes_after_a_deletion_is_told_so_also_by_the_next_broker() -> None:
    with short_directory() as directory:
        async with running_bus(whole=True, directory=directory) as daemon, connected(daemon) as bus:
            observer = Observer(bus)
            await observer.observe(signal("t1"), signal("t2"), signal("t1"))
            await observer.observe(signal("t1", event="app_server.thread.deleted"))
            assert await gaps_of(bus) == [
                Gap(epoch=daemon.signals.epoch, after=0, until=3, reason="deleted", thread="t1")
            ]
        async with running_bus(whole=True, directory=directory) as daemon, connected(daemon) as bus:
            assert await gaps_of(bus) == [
                Gap(epoch=daemon.signals.epoch, after=0, until=3, reason="deleted", thread="t1")
            ]
            assert daemon.signals.stored == 0


async def gaps_of(bus: lifebus.Bus) -> list[Gap]:
    return [one async for one in bus.signals(since="start", until_head=True, gaps="yield") if isinstance(one, Gap)]


async def test_a_deletion_that_a_broker_could_not_finish_is_finished_when_it_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        observer, deletion = Observer(bus), signal("t1", event="app_server.thread.deleted")
        with monkeypatch.context() as broken:
            broken.setattr(daemon.signals, "forget", refuse)
            with pytest.raises(BrokerBusy):
                await observer.send(1, [signal("t1"), deletion])
        assert await sequences(daemon) == [1, 2]
        assert await observer.send(1, [signal("t1"), deletion]) == 2
        assert await sequences(daemon) == []


async def refuse(*_: object) -> None:
    raise BrokerBusy("not now", code="busy")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (signal(event="app_server.turn.started", eventType="app_server.turn.ended"), "another event"),
        (signal(source="elsewhere"), "source"),
        (signal(size=65_600), "65536 bytes"),
        (signal(size=MAX_SIGNAL_BYTES), "length"),
        (signal("t\n1"), "unprintable"),
        (signal("t" * 257), "length"),
    ],
)
async def test_what_is_no_signal_is_refused_with_the_whole_batch(wrong: object, says: str) -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        with pytest.raises(InvalidRequest, match=says):
            await Observer(bus).send(1, [signal(), wrong])  # type: ignore[list-item]
        assert await sequences(daemon) == []


async def test_an_adapter_that_nobody_knows_is_refused() -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        with pytest.raises(LifebusError, match="nonsense"):
            await Observer(bus, adapter="nonsense").observe(signal())
