"""How a broker stops: in order within five seconds, whatever hangs; at once when it is told twice."""

import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from anyio.abc import TaskGroup

import lifebus
from lifebus_contract import CallbackRequest, CallbackResponse, DispatchEnvelope, LifebusError, RetryClass
from support.broker_process import BrokerProcess, broker_process, until
from support.patience import PATIENCE_S, SOON_S
from support.running import short_directory
from support.subscriber_process import stopped_subscribers


class HeldWorker:
    """A callback client that keeps its dispatches until it is released; `results` is what the emitter got."""

    def __init__(self) -> None:
        self.results: list[lifebus.Emitted] = []
        self.release = anyio.Event()
        self._ready = anyio.Event()
        self._asked = anyio.Event()

    async def has_work(self) -> None:
        """Wait until a dispatch has come."""
        with anyio.fail_after(PATIENCE_S):
            await self._asked.wait()

    async def serve(self, broker: BrokerProcess) -> None:
        async with lifebus.connect("held", runtime_dir=broker.runtime_dir) as bus:
            await bus.serve(["session.started"], self._handle, deadline=600.0, on_ready=self._ready.set)

    async def emit(self, broker: BrokerProcess) -> None:
        """Emit something that the worker keeps."""
        await self._ready.wait()
        async with lifebus.connect("emitter", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            self.results.append(await bus.emit(lifebus.make_request("session.started", "codex", session="s1")))

    async def _handle(self, _: DispatchEnvelope) -> CallbackResponse:
        self._asked.set()
        await self.release.wait()
        return CallbackResponse.ok()


@asynccontextmanager
async def dispatch_under_way(broker: BrokerProcess) -> AsyncIterator[HeldWorker]:
    worker = HeldWorker()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.serve, broker)
        tasks.start_soon(worker.emit, broker)
        await worker.has_work()
        yield worker
        tasks.cancel_scope.cancel()


async def signal_to_stop(broker: BrokerProcess, number: signal.Signals = signal.SIGTERM) -> None:
    """Send the signal and wait until the broker has taken it."""
    broker.signal(number)
    await until(lambda: '"stopping"' in broker.log)


async def test_what_is_in_flight_is_acknowledged_before_the_broker_goes() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory, LIFEBUS_LIMITS_SHUTDOWN_MS="60000") as broker,
            dispatch_under_way(broker) as worker,
        ):
            await signal_to_stop(broker)
            worker.release.set()
            assert await broker.ended() == 0
            await until(lambda: bool(worker.results))
    assert [receipt.client_id for receipt in worker.results[0].receipts] == ["held"]


async def test_a_stopping_broker_takes_nothing_new_and_says_so_in_a_way_that_can_be_repeated() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory, LIFEBUS_LIMITS_SHUTDOWN_MS="60000") as broker,
            dispatch_under_way(broker) as worker,
            lifebus.connect("late", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            await signal_to_stop(broker)
            bus.timeout = 0.3
            with pytest.raises(LifebusError) as refused:
                await bus.emit(lifebus.make_request("session.ended", "codex", session="s2"))
            assert refused.value.retry_class is RetryClass.SAFE_RETRY
            worker.release.set()
            assert await broker.ended() == 0
        async with (
            broker_process(directory) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir) as bus,
        ):
            assert [head.harness_session_id for head in await bus.sessions()] == ["s1"]


async def test_emitters_meet_a_stop_with_acknowledgements_or_refusals_and_lose_nothing() -> None:
    sent = [lifebus.make_request("session.started", "codex", session=f"s{number % 7}") for number in range(3_000)]
    acked: dict[str, lifebus.Emitted] = {}
    with short_directory() as directory:
        async with broker_process(directory) as broker, anyio.create_task_group() as tasks:
            await emit_until_it_stops(broker, sent, acked, tasks)
            tasks.cancel_scope.cancel()
        assert len(acked) > 0
        async with (
            broker_process(directory) as broker,
            lifebus.connect("many", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            again = await bus.emit(sent)
    for request, result in zip(sent, again, strict=True):
        before = acked.get(str(request.idempotency_key))
        assert result.refusal is None
        assert before is None or (result.replayed and result.receipts == before.receipts)


async def emit_until_it_stops(
    broker: BrokerProcess,
    sent: list[CallbackRequest],
    acked: dict[str, lifebus.Emitted],
    tasks: TaskGroup,
) -> None:
    """Emit from many tasks, stop the broker at the first acknowledgement, and wait for its end."""

    async def emit(bus: lifebus.Bus, request: CallbackRequest) -> None:
        try:
            acked[str(request.idempotency_key)] = await bus.emit(request)
        except LifebusError:
            return

    async with lifebus.connect("many", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        for request in sent:
            tasks.start_soon(emit, bus, request)
        await until(lambda: bool(acked))
        assert await broker.terminate() == 0


async def test_a_callback_client_that_hangs_does_not_hold_the_broker_beyond_five_seconds() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, dispatch_under_way(broker) as worker:
            began = time.monotonic()
            assert await broker.terminate() == 0
            assert time.monotonic() - began < SOON_S
    assert worker.results == []


async def test_a_stopped_subscriber_does_not_hold_the_broker_either() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            with stopped_subscribers(broker.runtime_dir, 2):
                requests = [lifebus.make_request("session.started", "codex", session="s") for _ in range(3_000)]
                results = await bus.emit(requests)
                began = time.monotonic()
                assert await broker.terminate() == 0
                assert time.monotonic() - began < SOON_S
    assert all(result.refusal is None for result in results)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_broker_at_once(number: signal.Signals) -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory, LIFEBUS_LIMITS_SHUTDOWN_MS="60000") as broker,
            dispatch_under_way(broker),
        ):
            await signal_to_stop(broker, number)
            await until(partial(gone_after, broker, number))
            assert await broker.ended() != 0


def gone_after(broker: BrokerProcess, number: signal.Signals) -> bool:
    """Tell it again, because it may not have let go of its receiver yet when it says that it is stopping."""
    broker.signal(number)
    return not broker.alive
