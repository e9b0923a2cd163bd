"""Emissions from threads: each gets its own result, none waits for another, and none waits for ever."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest
from msgspec import structs

import lifebus
import lifebus.blocking
from lifebus_broker.ledger.refusals import BUSY
from lifebus_contract import DeadlineExceeded, InvalidRequest, TransportError
from lifebus_supervisor.daemon.composition import Daemon
from support.broker_process import until
from support.integration.following import frame
from support.patience import PATIENCE_S
from support.running import running_bus


async def in_thread(daemon: Daemon, work: Callable[[lifebus.blocking.BlockingBus], Any], seconds: float = 5.0) -> Any:
    """Return what a thread does with a bus of its own."""

    def connected() -> Any:
        with lifebus.blocking.connect("thread", runtime_dir=daemon.settings.runtime_dir, timeout=seconds) as bus:
            return work(bus)

    return await asyncio.to_thread(connected)


def never_answer(daemon: Daemon) -> threading.Event:
    """Have the ledger take appends and answer none; return what is set by the first."""
    taken = threading.Event()

    def take(*_: Any) -> None:
        taken.set()

    daemon.bus.ledger.append = take  # type: ignore[method-assign, assignment]  # an answer that does not come is the point
    return taken


async def test_threads_that_emit_at_once_get_their_own_results() -> None:
    def emit(bus: lifebus.blocking.BlockingBus) -> list[tuple[str, str]]:
        def one(number: int) -> tuple[str, str]:
            key = f"key-{number}"
            return key, str(bus.emit(frame(idempotency_key=key)).receipts[0].idempotency_key)

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(one, range(200)))

    async with running_bus() as daemon:
        found = await in_thread(daemon, emit)
        assert found == [(f"key-{number}", f"key-{number}") for number in range(200)]


async def test_a_busy_broker_is_asked_again() -> None:
    async with running_bus() as daemon:
        append, refusals = daemon.bus.ledger.append, [3]

        def full(receipts: Any, done: Any) -> Any:
            if refusals[0]:
                refusals[0] -= 1
                return BUSY
            return append(receipts, done)

        daemon.bus.ledger.append = full  # type: ignore[method-assign]  # a full ledger is the point
        results = await in_thread(daemon, lambda bus: bus.emit([frame(idempotency_key=None)] * 2))
        assert [one.receipts[0].sequence for one in results] == [1, 2]
        assert refusals == [0]


async def test_an_empty_list_asks_nobody() -> None:
    async with running_bus() as daemon:
        assert await in_thread(daemon, lambda bus: bus.emit([])) == []


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_call_without_an_answer_ends_at_its_deadline(key: str | None) -> None:
    async with running_bus() as daemon:
        never_answer(daemon)
        with pytest.raises(DeadlineExceeded):
            await in_thread(daemon, lambda bus: bus.emit(frame(idempotency_key=key)), seconds=0.2)


async def test_a_call_under_way_ends_with_the_connection() -> None:
    async with running_bus() as daemon:
        taken = never_answer(daemon)
        with ThreadPoolExecutor(1) as thread:

            def emit(bus: lifebus.blocking.BlockingBus) -> Future[Any]:
                pending = thread.submit(bus.emit, frame(idempotency_key=None))
                assert taken.wait(PATIENCE_S)
                return pending

            pending = await in_thread(daemon, emit, seconds=PATIENCE_S)
            fault = await asyncio.to_thread(pending.exception, PATIENCE_S)
            assert isinstance(fault, TransportError)


async def test_a_late_answer_is_not_taken_for_that_of_another_call() -> None:
    late: list[Any] = []
    kept = threading.Event()
    async with running_bus() as daemon:
        append = daemon.bus.ledger.append

        def keep(receipts: Any, done: Any) -> None:
            late.append(partial(append, receipts, done))
            kept.set()

        def emit(bus: lifebus.blocking.BlockingBus) -> str | None:
            daemon.bus.ledger.append = keep  # type: ignore[method-assign]  # an answer that comes late is the point
            bus._bus.timeout = 0.2
            with pytest.raises(DeadlineExceeded):
                bus.emit(frame(idempotency_key=None))
            assert kept.wait(PATIENCE_S)  # a slow machine takes it when its time is over
            bus._bus.timeout = PATIENCE_S
            daemon.bus.ledger.append = append  # type: ignore[method-assign]
            return bus.emit(frame(idempotency_key="own")).receipts[0].idempotency_key

        async with anyio.create_task_group() as tasks:

            async def answer() -> None:
                await until(lambda: bool(late))
                await until(lambda: daemon.bus.ledger.append is append)
                late[0]()

            tasks.start_soon(answer)
            assert await in_thread(daemon, emit) == "own"


async def test_after_the_end_a_call_says_that_the_connection_is_closed() -> None:
    async with running_bus() as daemon:

        def leave(bus: lifebus.blocking.BlockingBus) -> lifebus.blocking.BlockingBus:
            bus.emit(frame())
            return bus

        gone = await in_thread(daemon, leave)
        with pytest.raises(TransportError, match="closed"):
            gone.emit(frame())


async def test_a_list_longer_than_a_message_and_an_impossible_emission_are_recorded_as_by_the_bus() -> None:
    bad = structs.replace(frame(), adapter_id="")

    async with running_bus() as daemon:
        results = await in_thread(daemon, lambda bus: bus.emit([frame() for _ in range(130)]))
        assert [one.positions[0] for one in results] == list(range(1, 131))
        results = await in_thread(daemon, lambda bus: bus.emit([frame(), bad, frame()]))
        assert [isinstance(one.refusal, InvalidRequest) for one in results] == [False, True, False]
