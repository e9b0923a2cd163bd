"""Callback clients over ZeroMQ: asked, answering, failing, vanishing, coming back."""

import asyncio
from contextlib import AsyncExitStack

import pytest

import lifebus
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    FailureClass,
    InvalidRequest,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
    RequirementLevel,
    StateConflict,
)
from support.bus_box import payload
from support.integration.following import frame, recorded, until
from support.integration.serving import EVENT, content, serving, silent_worker
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory


async def one_receipt(bus: lifebus.Bus) -> Receipt:
    """Emit one fact and return its only receipt."""
    async with asyncio.timeout(PATIENCE_S):
        (receipt,) = (await bus.emit(frame())).receipts
    return receipt


HUGE = payload("worker", body="x" * 300_000)


async def test_a_worker_is_asked_and_its_payload_comes_back_to_the_emitter() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "notes") as worker:
        note = payload("notes")

        async def deliver(envelope: DispatchEnvelope) -> CallbackResponse:
            assert [one.body for one in envelope.payloads] == ["from the emitter"]
            return CallbackResponse.ok(ReceiptStatus.DELIVERED, note)

        async with serving(worker, deliver):
            own = payload("test", body="from the emitter")
            result = await bus.emit(Emission(request=frame(), payloads=(own,)))
        assert [(one.client_id, one.status) for one in result.receipts] == [
            ("test", ReceiptStatus.DELIVERED),
            ("notes", ReceiptStatus.DELIVERED),
        ]
        assert [one.payload for one in result.deliveries] == [own, note]
        assert result.receipts[1].parent_receipt_id == result.receipts[0].receipt_id


async def test_two_workers_are_asked_at_the_same_time() -> None:
    async with (
        running_bus() as daemon,
        connected(daemon) as bus,
        connected(daemon, "one") as one,
        connected(daemon, "two") as two,
    ):
        meeting = asyncio.Barrier(2)

        async def meet(_: DispatchEnvelope) -> CallbackResponse:
            await meeting.wait()
            return CallbackResponse.ok()

        async with serving(one, meet, deadline=PATIENCE_S), serving(two, meet, deadline=PATIENCE_S):
            result = await bus.emit(frame())
        assert sorted((one.client_id, one.status) for one in result.receipts) == [
            ("one", ReceiptStatus.OBSERVED),
            ("two", ReceiptStatus.OBSERVED),
        ]


async def test_a_worker_that_goes_in_the_middle_of_a_dispatch_leaves_a_transport_error() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        started = asyncio.Event()

        async def think(_: DispatchEnvelope) -> CallbackResponse:
            started.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody wakes it")

        async with connected(daemon, "worker") as worker, serving(worker, think, deadline=60):
            asking = asyncio.ensure_future(one_receipt(bus))
            await asyncio.wait_for(started.wait(), PATIENCE_S)
        await asking
        assert asking.result().failure_class is FailureClass.TRANSPORT_ERROR
        assert daemon.bus.clients.all() == ()


async def test_a_worker_that_vanishes_without_a_word_leaves_a_transport_error_and_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus_supervisor.daemon.periodic._SWEEP_S", 0.02)
    async with running_bus() as daemon, connected(daemon) as bus, silent_worker(daemon) as worker:
        await worker.register("worker")
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(PATIENCE_S):
            asking = tasks.create_task(one_receipt(bus))
            await worker.dispatched.wait()
            worker.vanish()
            monkeypatch.setattr("lifebus_supervisor.api.workers.LEASE_S", 0.2)
        assert asking.result().failure_class is FailureClass.TRANSPORT_ERROR
        assert daemon.bus.clients.all() == ()
        assert (await one_receipt(bus)).client_id == "test"


async def test_a_worker_that_has_vanished_already_is_noticed_when_it_is_asked() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, silent_worker(daemon) as worker:
        await worker.register("worker", deadline_ms=200)
        worker.vanish()
        receipt = await one_receipt(bus)
        assert receipt.failure_class in {FailureClass.TRANSPORT_ERROR, FailureClass.TIMEOUT}


async def test_a_silent_worker_costs_its_deadline() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, silent_worker(daemon) as worker:
        await worker.register("worker", deadline_ms=50)
        assert (await one_receipt(bus)).failure_class is FailureClass.TIMEOUT


async def test_an_answer_that_comes_after_the_deadline_changes_nothing() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "late") as worker:
        release = asyncio.Event()

        async def late(_: DispatchEnvelope) -> CallbackResponse:
            await asyncio.shield(release.wait())
            return CallbackResponse.ok()

        async with serving(worker, late, deadline=60):
            (client,) = daemon.bus.clients.all()
            client.deadline = 0.05
            assert (await one_receipt(bus)).failure_class is FailureClass.TIMEOUT
            answered = daemon.requests.counters.requests
            release.set()
            await until(lambda: daemon.requests.counters.requests > answered)
            client.deadline = 5.0
            assert (await one_receipt(bus)).status is ReceiptStatus.OBSERVED
        assert len(await recorded(daemon)) == 2


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (RuntimeError("boom"), FailureClass.TRANSPORT_ERROR),
        (TimeoutError(), FailureClass.TIMEOUT),
        (InvalidRequest("no"), FailureClass.INVALID_REQUEST),
    ],
)
async def test_a_handler_that_raises_is_a_failed_receipt_and_the_worker_goes_on(
    fault: Exception, failure: FailureClass
) -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:
        faults = [fault]

        async def answer(_: DispatchEnvelope) -> CallbackResponse:
            while faults:
                raise faults.pop()
            return CallbackResponse.ok()

        async with serving(worker, answer):
            assert (await one_receipt(bus)).failure_class is failure
            assert (await one_receipt(bus)).status is ReceiptStatus.OBSERVED


@pytest.mark.parametrize(
    ("response", "failure"),
    [
        (None, FailureClass.INVALID_REQUEST),
        (CallbackResponse.ok(ReceiptStatus.DELIVERED, payload("somebody else")), FailureClass.INVALID_REQUEST),
        (
            CallbackResponse.ok(ReceiptStatus.DELIVERED, payload("worker", body="x" * 300_000)),
            FailureClass.PAYLOAD_TOO_LARGE,
        ),
    ],
    ids=["nothing", "another client's payload", "larger than a message"],
)
async def test_a_bad_answer_is_a_failed_receipt(response: CallbackResponse, failure: FailureClass) -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:

        async def answer(_: DispatchEnvelope) -> CallbackResponse:
            return response

        async with serving(worker, answer):
            assert (await one_receipt(bus)).failure_class is failure


async def test_a_worker_at_its_limit_refuses_and_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus._internal.worker._MAX_RUNNING", 1)
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:
        started, release = asyncio.Event(), asyncio.Event()

        async def wait(_: DispatchEnvelope) -> CallbackResponse:
            started.set()
            await release.wait()
            return CallbackResponse.ok()

        async with serving(worker, wait, deadline=PATIENCE_S), asyncio.TaskGroup() as tasks:
            first = tasks.create_task(one_receipt(bus))
            await started.wait()
            assert (await one_receipt(bus)).failure_class is FailureClass.TRANSPORT_ERROR
            release.set()
        assert first.result().status is ReceiptStatus.OBSERVED


async def test_a_requirement_that_cannot_be_had_is_refused_without_asking_the_worker() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "worker") as worker:
        needs = [CapabilityRequest(capability="session_rename", level=RequirementLevel.REQUIRED)]
        async with serving(worker, content, requirements=needs):
            assert (await one_receipt(bus)).failure_class is FailureClass.CAPABILITY_UNSUPPORTED
            (client,) = await bus.clients()
        assert client.dispatched == 0


async def test_a_connection_that_registers_again_replaces_its_own_wish() -> None:
    async with running_bus() as daemon, silent_worker(daemon) as worker:
        await worker.register("worker", LifecycleEvent.SESSION_STARTED)
        await worker.register("worker", LifecycleEvent.SESSION_ENDED)
        await worker.register("worker", LifecycleEvent.SESSION_ENDED)
        assert [client.events for client in daemon.bus.clients.all()] == [{LifecycleEvent.SESSION_ENDED}]


async def test_the_newest_of_two_workers_of_one_name_stays_and_the_other_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus._internal.worker._REFRESH_S", 0.02)
    async with (
        running_bus() as daemon,
        connected(daemon) as bus,
        connected(daemon, "worker") as old,
        connected(daemon, "worker") as new,
        serving(old, content) as first,
        serving(new, content) as second,
        asyncio.timeout(PATIENCE_S),
    ):
        (registered,) = daemon.bus.clients.all()
        await asyncio.wait([first])
        fault = first.exception()
        assert isinstance(fault, StateConflict)
        assert fault.code == "replaced"
        requests = daemon.requests.counters.requests
        await until(lambda: daemon.requests.counters.requests > requests + 3)
        assert daemon.bus.clients.all() == (registered,)
        assert not second.done()
        assert (await one_receipt(bus)).status is ReceiptStatus.OBSERVED


async def test_a_dispatch_under_way_fails_when_its_worker_is_replaced() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, silent_worker(daemon) as old:
        await old.register("worker")
        async with asyncio.TaskGroup() as tasks, silent_worker(daemon) as new:
            asking = tasks.create_task(one_receipt(bus))
            await old.dispatched.wait()
            await new.register("worker")
        assert asking.result().failure_class is FailureClass.TRANSPORT_ERROR


@pytest.mark.parametrize("refresh_s", [0.05, 3600])
async def test_a_worker_survives_a_broker_restart(monkeypatch: pytest.MonkeyPatch, refresh_s: float) -> None:
    # With the long pause it is the connection to the new broker that has it register.
    monkeypatch.setattr("lifebus._internal.worker._REFRESH_S", refresh_s)
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                worker = await clients.enter_async_context(connected(daemon, "worker"))
                await clients.enter_async_context(serving(worker, content))
            async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
                await until(daemon.bus.clients.all)
                assert (await one_receipt(bus)).client_id == "worker"


async def test_a_registration_that_breaks_the_contract_is_refused_plainly() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(InvalidRequest):
            await bus.serve([], content)
        with pytest.raises(InvalidRequest):
            await bus.serve([EVENT], content, deadline=0)
        assert daemon.bus.clients.all() == ()


async def test_one_connection_serves_as_one_client() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, serving(bus, content):
        with pytest.raises(InvalidRequest) as caught:
            await bus.serve([EVENT], content)
        assert caught.value.code == "already_serving"
        assert len(daemon.bus.clients.all()) == 1


async def test_a_connection_can_emit_to_the_worker_that_it_serves() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, serving(bus, content):
        assert (await one_receipt(bus)).status is ReceiptStatus.OBSERVED
