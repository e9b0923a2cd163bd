"""Keys through the real bus: a repeated request is the same fact, byte for byte, whatever happened in between."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

import lifebus
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    FailureClass,
    LifecycleEvent,
    ReceiptStatus,
    StateConflict,
    encode_json,
)
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.emissions import EmitAnswer
from lifebus_transports.zmq.requests import ZmqRequest
from support.bus_box import payload
from support.integration.following import emit, frame, recorded, until
from support.integration.serving import serving
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory


def texts(result: lifebus.Emitted) -> list[bytes]:
    return [encode_json(receipt) for receipt in result.receipts]


def changed(request: CallbackRequest, **fields: Any) -> CallbackRequest:
    """Return the same key with other content."""
    return frame(idempotency_key=request.idempotency_key, **fields)


async def test_a_repeated_request_returns_the_stored_bytes_and_takes_no_sequence() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        first = await bus.emit(fact)
        await emit(bus, "s1")
        again = await bus.emit(fact)
        (after,) = await emit(bus, "s1")
        assert (texts(again), again.positions, again.replayed) == (texts(first), first.positions, True)
        assert after.receipts[0].sequence == 3
        assert len(await recorded(daemon)) == 3


async def test_repeats_within_one_list_are_one_fact() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        results = await bus.emit([fact, frame(), fact])
        assert texts(results[0]) == texts(results[2])
        assert [one.replayed for one in results] == [False, False, True]
        assert len(await recorded(daemon)) == 2


@pytest.mark.parametrize(
    "content",
    [{"event_id": "evt_other"}, {"session": "s2"}, {"sequence": 7}, {"metadata": {"x": 1}}, {"harness_run_id": "r"}],
    ids=["event id", "session", "harness number", "metadata", "run"],
)
async def test_the_same_key_with_other_content_is_a_conflict_and_records_nothing(content: dict[str, Any]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        await bus.emit(fact)
        with pytest.raises(StateConflict) as caught:
            await bus.emit(changed(fact, **{"event_id": fact.event_id, "invocation_id": fact.invocation_id} | content))
        assert caught.value.code == "duplicate_id_conflict"
        assert len(await recorded(daemon)) == 1


async def test_a_number_written_with_a_fraction_of_nothing_is_the_same_number() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        first = await bus.emit(frame(idempotency_key="k", metadata={"budget": 1000}))
        again = await bus.emit(frame(idempotency_key="k", metadata={"budget": 1000.0}))
        assert (texts(again), again.replayed) == (texts(first), True)
        with pytest.raises(StateConflict):
            await bus.emit(frame(idempotency_key="k", metadata={"budget": 1000.5}))


async def test_a_payload_in_the_name_of_another_client_is_refused_to_its_emitter() -> None:
    async with running_bus() as daemon, connected(daemon, "emitter") as bus:
        foreign = lifebus.make_payload("somebody else", "hello")
        result = await bus.emit(Emission(request=frame(), payloads=(foreign,)))
        assert [one.status for one in result.receipts] == [ReceiptStatus.FAILED]
        assert result.receipts[0].failure_class is FailureClass.INVALID_REQUEST
        assert [one.code for one in result.receipts[0].warnings] == ["foreign_payload"]
        assert result.deliveries == ()


async def test_a_conflict_in_a_list_stands_in_its_place() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        await bus.emit(fact)
        results = await bus.emit([frame(), changed(fact), frame()])
        assert [one.refusal and one.refusal.code for one in results] == [None, "duplicate_id_conflict", None]
        assert len(await recorded(daemon)) == 3


async def test_the_same_key_from_two_connections_at_once_is_one_receipt() -> None:
    async with running_bus() as daemon, connected(daemon) as one, connected(daemon) as other:
        for _ in range(20):
            fact = frame()
            first, second = await asyncio.gather(one.emit(fact), other.emit(fact))
            assert texts(first) == texts(second)
            assert sorted([first.replayed, second.replayed]) == [False, True]
        assert len(await recorded(daemon)) == 20


async def test_a_key_is_known_after_a_broker_restart() -> None:
    with short_directory() as directory:
        fact = frame()
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            first = await bus.emit(fact)
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            again = await bus.emit(fact)
            assert (texts(again), again.replayed) == (texts(first), True)
            with pytest.raises(StateConflict):
                await bus.emit(changed(fact))
            assert len(await recorded(daemon)) == 1


async def test_keys_of_different_clients_and_adapters_do_not_meet() -> None:
    async with running_bus() as daemon, connected(daemon, "one") as one, connected(daemon, "other") as other:
        results = [
            await bus.emit(frame(adapter=adapter, idempotency_key="k1"))
            for bus in (one, other)
            for adapter in ("codex", "claude")
        ]
        assert [result.replayed for result in results] == [False] * 4
        assert len(await recorded(daemon)) == 4


async def test_a_key_whose_receipt_was_pruned_is_not_recorded_anew() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        fact = frame()
        await bus.emit(fact)
        await emit(bus, "s1")
        await daemon.bus.ledger.prune(1, b"{}")
        with pytest.raises(StateConflict) as caught:
            await bus.emit(fact)
        assert caught.value.code == "history_pruned"
        assert daemon.bus.ledger.head == 2


def lose_answers(daemon: Daemon, many: int) -> None:
    """Let the first so many acknowledgements get lost on their way."""
    answer, left = daemon.requests.answer, [many]

    def lossy(request: ZmqRequest, body: object) -> bool:
        if isinstance(body, EmitAnswer) and left[0]:
            left[0] -= 1
            return True
        return answer(request, body)

    daemon.requests.answer = lossy  # type: ignore[method-assign]  # a lossy way back is the point


async def test_a_lost_acknowledgement_is_met_by_asking_again_and_records_one_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus._internal.outbox._ATTEMPT_S", 0.05)
    async with running_bus() as daemon, connected(daemon) as bus:
        lose_answers(daemon, 3)
        result = await bus.emit(frame())
        assert result.replayed
        assert [encode_json(one) for one in await recorded(daemon)] == texts(result)
        assert not bus._connection._pending


async def test_an_emitter_that_asks_again_still_gets_the_payloads_of_the_first_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus._internal.outbox._ATTEMPT_S", 0.02)
    async with running_bus() as daemon, connected(daemon) as bus, connected(daemon, "notes") as worker:
        asked = daemon.requests.counters

        async def slow(_: DispatchEnvelope) -> CallbackResponse:
            before = asked.requests
            await until(lambda: asked.requests > before + 2)  # the emitter has asked again, twice
            return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload("notes"))

        async with serving(worker, slow, deadline=PATIENCE_S):
            result = await bus.emit(frame())
        assert len(result.deliveries) == 1
        assert not result.replayed
        assert len(await recorded(daemon)) == 1


async def test_emissions_wait_for_a_broker_that_is_being_restarted() -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                bus.timeout = PATIENCE_S
                await emit(bus, "s1")
            waiting = asyncio.ensure_future(emit(bus, "s1", "s1"))
            await asyncio.sleep(0)
            async with running_bus(directory=directory) as daemon:
                results = await waiting
                assert [one.receipts[0].sequence for one in results] == [2, 3]
                assert len(await recorded(daemon)) == 3


async def test_a_jump_of_the_harness_numbers_is_noticed_across_a_restart() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await bus.emit(frame(sequence=3))
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await bus.emit(frame(sequence=7))
            await bus.emit(frame(sequence=8))
            gaps = [one for one in await recorded(daemon) if one.event is LifecycleEvent.RECEIPT_GAP_DETECTED]
            assert [one.telemetry_summary for one in gaps] == [
                {"harness_sequence": 7, "missing_first": 4, "missing_last": 6}
            ]
            assert [one.sequence for one in await recorded(daemon)] == [1, 2, 3, 4]
