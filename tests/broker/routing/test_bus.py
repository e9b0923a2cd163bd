"""The bus as one object: refusals as values, keys, harness numbers, a full ledger, a cancelled caller."""

import asyncio
from collections.abc import Callable, Sequence

import anyio
import pytest

from lifebus_broker.ledger.refusals import BUSY
from lifebus_broker.ports import AppendResult, NewReceipt, Refusal
from lifebus_broker.routing.bus import EventBus
from lifebus_contract import CallbackResponse, DispatchEnvelope, Emission, FailureClass, LifecycleEvent
from support.bus_box import EVENT, answering, bus_box, emission, payload, receipts_of, recorded
from support.patience import PATIENCE_S


def refuse_appends(bus: EventBus, *, after: int = 0) -> Callable[[], None]:
    """Let the ledger be full once it has taken so many appends; return the call that ends this."""
    append, taken = bus.ledger.append, [0]

    def full(receipts: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None]) -> Refusal | None:
        taken[0] += 1
        return append(receipts, done) if taken[0] <= after else BUSY

    bus.ledger.append = full  # type: ignore[method-assign]  # a full ledger is the point

    def end() -> None:
        bus.ledger.append = append  # type: ignore[method-assign]

    return end


@pytest.mark.parametrize("served", [True, False], ids=["with a client", "without a client"])
async def test_one_refused_emission_does_not_keep_its_neighbours_from_being_recorded(served: bool) -> None:
    async with bus_box() as bus:
        if served:
            bus.register("client", [EVENT], answering())
        outcomes = await bus.emit(
            "emitter", [emission(), emission(adapter_version="9.9"), emission(adapter_id="nobody"), emission()]
        )
        assert [one.refusal and one.refusal.failure_class for one in outcomes] == [
            None,
            FailureClass.ADAPTER_UNAVAILABLE,
            FailureClass.ADAPTER_UNAVAILABLE,
            None,
        ]
        assert len(await recorded(bus)) == 2


async def test_a_message_of_refused_emissions_is_answered_without_the_ledger() -> None:
    async with bus_box() as bus:
        (outcome,) = await bus.emit("emitter", [emission(adapter_id="claude", integration_mode="reference_adapter")])
        assert outcome.refusal is not None
        assert outcome.refusal.failure_class is FailureClass.ADAPTER_UNAVAILABLE
        assert bus.ledger.head == 0


async def test_a_full_ledger_refuses_every_emission_of_a_message_as_busy() -> None:
    async with bus_box() as bus:
        refuse_appends(bus)
        outcomes = await bus.emit("emitter", [emission(), emission()])
        assert [one.refusal and one.refusal.code for one in outcomes] == ["busy", "busy"]


@pytest.mark.parametrize(("key", "code"), [(None, "partly_recorded"), ("k1", "busy")])
async def test_what_is_recorded_in_part_is_called_busy_only_where_asking_again_is_safe(
    key: str | None, code: str
) -> None:
    async with bus_box() as bus:
        bus.register("client", [EVENT], answering())
        end = refuse_appends(bus, after=1)
        fact = emission(payload(), idempotency_key=key)
        (outcome,) = await bus.emit("emitter", [fact])
        assert outcome.refusal is not None
        assert outcome.refusal.code == code
        end()
        (again,) = await bus.emit("emitter", [fact])
        assert sorted(receipts_of(again)) == ["client", "emitter"]
        assert len(await recorded(bus)) == (3 if key is None else 2)


async def test_a_defect_of_the_broker_costs_one_message_and_not_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bus_box() as bus:
        bus.register("client", [EVENT], answering())
        with monkeypatch.context() as patch:
            patch.setattr(bus.router, "conclude", lambda *_, **__: 1 / 0)
            (broken,) = await bus.emit("emitter", [emission()])
        (healthy,) = await bus.emit("emitter", [emission()])
        assert broken.refusal is not None
        assert broken.refusal.failure_class is FailureClass.INTERNAL_ERROR
        assert healthy.refusal is None
        assert bus.dispatches == 0


async def test_a_key_that_comes_again_returns_the_stored_bytes_and_asks_nobody() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [EVENT], answering(payload("client")))
        fact = emission(idempotency_key="k1")
        (first,) = await bus.emit("emitter", [fact])
        (again,) = await bus.emit("emitter", [fact])
        assert (again.stored, again.replayed, first.replayed) == (first.stored, True, False)
        assert client.dispatched == 1
        assert (len(first.deliveries), again.deliveries) == (1, ())


async def test_a_key_that_comes_again_with_other_content_is_a_conflict_and_asks_nobody() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [EVENT], answering())
        await bus.emit("emitter", [emission(idempotency_key="k1")])
        (other,) = await bus.emit("emitter", [emission(idempotency_key="k1")])
        assert other.refusal is not None
        assert (other.refusal.failure_class, other.refusal.code) == (
            FailureClass.STATE_CONFLICT,
            "duplicate_id_conflict",
        )
        assert (client.dispatched, len(await recorded(bus))) == (1, 1)


async def test_the_same_key_at_once_asks_the_client_once() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        client = bus.register("client", [EVENT], answering())
        fact = emission(idempotency_key="k1")
        async with asyncio.TaskGroup() as tasks:
            several = [tasks.create_task(bus.emit("emitter", [fact])) for _ in range(5)]
        stored = {task.result()[0].stored for task in several}
        assert (len(stored), client.dispatched, len(await recorded(bus))) == (1, 1, 1)


async def test_a_key_that_was_recorded_without_clients_is_not_dispatched_to_one_that_came_later() -> None:
    async with bus_box() as bus:
        fact = emission(idempotency_key="k1")
        (first,) = await bus.emit("emitter", [fact])
        client = bus.register("client", [EVENT], answering())
        (again,) = await bus.emit("emitter", [fact])
        assert (again.stored, again.replayed, client.dispatched) == (first.stored, True, 0)


@pytest.mark.parametrize("served", [True, False], ids=["with a client", "without a client"])
async def test_a_jump_of_the_harness_numbers_is_one_receipt_that_names_the_missing_range(served: bool) -> None:
    async with bus_box() as bus:
        if served:
            bus.register("client", [EVENT], answering())
        for number in (1, 2, 6, 6, 4, 7):
            await bus.emit("emitter", [emission(sequence=number)])
        gaps = [one for one in await recorded(bus) if one.event is LifecycleEvent.RECEIPT_GAP_DETECTED]
        assert [(one.telemetry_summary["missing_first"], one.telemetry_summary["missing_last"]) for one in gaps] == [
            (3, 5)
        ]


async def test_harness_numbers_of_different_sessions_are_not_compared() -> None:
    async with bus_box() as bus:
        for session, number in (("s1", 1), ("s2", 5), ("s1", 2), ("s2", 6), (None, 100)):
            await bus.emit("emitter", [emission(harness_session_id=session, sequence=number)])
        assert {one.event for one in await recorded(bus)} == {EVENT}


async def test_a_number_that_came_too_late_to_ask_anybody_is_no_gap_for_the_next_one() -> None:
    async with bus_box() as bus:
        for number, asks in ((1, True), (2, False), (3, True)):
            await bus.emit("emitter", [emission(sequence=number)], dispatch=asks)
        assert {one.event for one in await recorded(bus)} == {EVENT}


async def test_a_jump_that_comes_too_late_to_ask_anybody_is_recorded_and_asks_nobody() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [EVENT, LifecycleEvent.RECEIPT_GAP_DETECTED], answering())
        for number, asks in ((1, True), (3, False), (4, True)):
            await bus.emit("emitter", [emission(sequence=number)], dispatch=asks)
        found = [one.event for one in await recorded(bus)]
        assert (found, client.dispatched) == ([EVENT, LifecycleEvent.RECEIPT_GAP_DETECTED, EVENT, EVENT], 2)


async def test_a_jump_that_could_not_be_recorded_is_found_again_by_the_next_try() -> None:
    async with bus_box() as bus:
        await bus.emit("emitter", [emission(sequence=1)])
        end = refuse_appends(bus)
        jump = emission(sequence=5)
        assert (await bus.emit("emitter", [jump]))[0].refusal is not None
        end()
        await bus.emit("emitter", [jump])
        assert [one.event for one in await recorded(bus)] == [EVENT, LifecycleEvent.RECEIPT_GAP_DETECTED, EVENT]


async def test_what_is_known_of_harness_numbers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_broker.routing.harness_sequences._MAX_SESSIONS", 3)
    async with bus_box() as bus:
        for number in range(10):
            await bus.emit("emitter", [emission(harness_session_id=f"s{number}", sequence=1)])
        assert len(bus._harness_sequences) == 3
        await bus.emit("emitter", [emission(harness_session_id="s0", sequence=4)])  # the ledger still knows
        assert (await recorded(bus))[-2].event is LifecycleEvent.RECEIPT_GAP_DETECTED


async def test_a_caller_that_is_cancelled_while_a_client_thinks_leaves_the_fact_recorded_once() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        started, release, seen = anyio.Event(), anyio.Event(), anyio.Event()
        bus.fanout.listen(lambda stored: seen.set())

        async def think(_: DispatchEnvelope) -> CallbackResponse:
            started.set()
            await release.wait()
            return CallbackResponse.ok()

        client = bus.register("client", [EVENT], think, deadline=PATIENCE_S)
        fact = emission(idempotency_key="k1")
        caller = asyncio.ensure_future(bus.emit("emitter", [fact]))
        await started.wait()
        caller.cancel()
        await asyncio.wait([caller])
        release.set()
        await seen.wait()
        (again,) = await bus.emit("emitter", [fact])
        assert (again.replayed, client.dispatched, len(await recorded(bus))) == (True, 1, 1)


@pytest.mark.parametrize("turns", range(8))
async def test_cancelling_emit_at_any_turn_of_the_loop_leaves_the_bus_working(turns: int) -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        bus.register("client", [EVENT], answering())
        fact = emission(idempotency_key="k1")
        caller = asyncio.ensure_future(bus.emit("emitter", [fact]))
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        (again,) = await bus.emit("emitter", [fact])
        assert again.refusal is None
        assert len(await recorded(bus)) == 1
        assert not bus._dispatcher._under_way


async def test_emissions_of_one_invocation_that_no_client_wants_are_chained_too() -> None:
    async with bus_box() as bus:
        facts: list[Emission] = [emission(invocation_id="inv_x"), emission(), emission(invocation_id="inv_x")]
        outcomes = await bus.emit("emitter", facts)
        one, other, last = [receipts_of(outcome)["emitter"] for outcome in outcomes]
        assert [one.parent_receipt_id, other.parent_receipt_id, last.parent_receipt_id] == [None, None, one.receipt_id]


async def test_late_facts_are_recorded_without_asking_anybody() -> None:
    async with bus_box() as bus:
        client = bus.register("client", [EVENT], answering())
        (outcome,) = await bus.emit("emitter", [emission()], dispatch=False)
        assert (list(receipts_of(outcome)), client.dispatched) == (["emitter"], 0)
