"""Background clients: nobody waits for them, none is asked twice, and none is forgotten."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from lifebus_broker.ports import Evidence, StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    FailureClass,
    FrameClass,
    FrameContext,
    InvalidRequest,
    LifecycleEvent,
    PlacementClass,
    Receipt,
    ReceiptStatus,
)
from lifebus_contract.codec import decode_receipt
from support.bus_box import EVENT, answering, bus_box, emission, hang, payload, receipts_of, recorded
from support.integration.following import until
from support.patience import PATIENCE_S

TWO_PLACEMENTS = [
    {"placement": "pre_prompt_frame", "requirement": "required"},
    {"placement": "receipt_only", "requirement": "optional"},
]


class Gate:
    """A client that answers when it is let."""

    def __init__(self, *payloads: object) -> None:
        self.asked = 0
        self.open = anyio.Event()
        self._answer = answering(*payloads)  # type: ignore[arg-type]  # payload envelopes

    async def __call__(self, envelope: DispatchEnvelope) -> CallbackResponse:
        self.asked += 1
        await self.open.wait()
        return await self._answer(envelope)


async def settled(bus: EventBus) -> dict[str, Receipt]:
    """Return all receipts by client once nothing is under way."""
    await until(lambda: not bus.dispatches)
    return {receipt.client_id: receipt for receipt in await recorded(bus)}


async def test_nobody_waits_for_a_background_client_and_the_fact_is_durable_before() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        gate = Gate()
        bus.register("late", [EVENT], gate, background=True)
        (outcome,) = await bus.emit("emitter", [emission()], budget=0.01)
        assert {name: one.status for name, one in receipts_of(outcome).items()} == {"emitter": ReceiptStatus.OBSERVED}
        assert bus.dispatches == 1
        gate.open.set()
        found = await settled(bus)
        assert found["late"].status is ReceiptStatus.OBSERVED
        assert found["late"].parent_receipt_id == found["emitter"].receipt_id
        assert found["late"].invocation_id == found["emitter"].invocation_id


async def test_a_background_client_has_its_own_deadline_and_not_the_hooks() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        bus.register("late", [EVENT], hang, deadline=0.05, background=True)
        await bus.emit("emitter", [emission()], budget=0.0)
        found = await settled(bus)
        assert found["late"].failure_class is FailureClass.TIMEOUT
        assert "0.05 s" in found["late"].warnings[0].message


async def test_a_waited_for_client_and_a_background_client_each_get_their_receipt() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        gate = Gate()
        bus.register("late", [EVENT], gate, background=True)
        bus.register("prompt", [EVENT], answering())
        (outcome,) = await bus.emit("emitter", [emission()])
        assert set(receipts_of(outcome)) == {"prompt"}
        gate.open.set()
        assert set(await settled(bus)) == {"prompt", "late"}


@pytest.mark.parametrize(
    ("placements", "status", "placement"),
    [
        (TWO_PLACEMENTS[:1], ReceiptStatus.SKIPPED, None),
        (TWO_PLACEMENTS, ReceiptStatus.OBSERVED, PlacementClass.RECEIPT_ONLY),
    ],
)
async def test_payloads_of_a_background_client_go_into_the_receipt_or_nowhere(
    placements: list[object], status: ReceiptStatus, placement: PlacementClass | None
) -> None:
    async with bus_box() as bus:
        bus.register("late", [EVENT], answering(payload("late", acceptable_placements=placements)), background=True)
        (outcome,) = await bus.emit("emitter", [emission()])
        receipt = (await settled(bus))["late"]
        assert outcome.deliveries == ()
        assert [(one.status, one.placement) for one in receipt.payload_receipts] == [(status, placement)]
        skipped = any(one.code == "background_payload" for one in receipt.warnings)
        assert skipped is (placement is None)


async def test_a_key_that_comes_again_asks_no_background_client_again() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        gate = Gate()
        bus.register("late", [EVENT], gate, background=True)
        keyed = emission(idempotency_key="k")
        (first,) = await bus.emit("emitter", [keyed])
        (during,) = await bus.emit("emitter", [keyed])
        gate.open.set()
        await settled(bus)
        (after,) = await bus.emit("emitter", [keyed])
        await settled(bus)
        assert gate.asked == 1
        assert first.stored == during.stored
        assert [one.position for one in after.stored] == [1, 2]
        assert during.replayed
        assert after.replayed


async def test_one_that_was_not_asked_before_the_end_is_asked_when_the_key_comes_again() -> None:
    async with bus_box() as bus:
        keyed = emission(idempotency_key="k")
        (first,) = await bus.emit("emitter", [keyed])  # the broker ended here, as far as the ledger can tell
        bus.register("late", [EVENT], answering(), background=True)
        await bus.emit("emitter", [keyed])
        found = await settled(bus)
        assert found["late"].parent_receipt_id == receipts_of(first)["emitter"].receipt_id


async def test_too_many_are_refused_as_busy_and_that_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_broker.routing.background.MOST", 1)
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        gate = Gate()
        bus.register("late", [EVENT], gate, background=True)
        await bus.emit("emitter", [emission(harness_session_id="s1")])
        await bus.emit("emitter", [emission(harness_session_id="s2")])
        (refused,) = [receipt for receipt in await recorded(bus) if receipt.client_id == "late"]
        assert (refused.failure_class, refused.warnings[0].code) == (FailureClass.TRANSPORT_ERROR, "busy")
        gate.open.set()
        await settled(bus)


async def test_one_that_the_end_of_the_broker_cuts_off_has_a_receipt_that_says_so() -> None:
    stored: list[StoredReceipt] = []
    async with bus_box() as bus:
        bus.fanout.listen(stored.extend)
        bus.register("late", [EVENT], hang, deadline=60, background=True)
        await bus.emit("emitter", [emission()])
        bus._tasks.cancel_scope.cancel()
    found = {receipt.client_id: receipt for receipt in (decode_receipt(one.receipt) for one in stored)}
    assert (found["late"].failure_class, found["late"].warnings[0].code) == (FailureClass.TRANSPORT_ERROR, "stopped")


async def test_what_was_seen_of_a_client_stands_in_its_receipt_whatever_came_of_it() -> None:
    class Seen:
        def __init__(self, then: Callable[[], Awaitable[CallbackResponse]]) -> None:
            self._then = then

        async def invoke(self, envelope: DispatchEnvelope, evidence: Evidence) -> CallbackResponse:
            evidence["exit_code"] = 3
            evidence["emitter"] = "somebody else"
            return await self._then()

    async def answer() -> CallbackResponse:
        return CallbackResponse.ok()

    async def refuse() -> CallbackResponse:
        raise InvalidRequest("no")

    async def hang() -> CallbackResponse:
        await anyio.sleep_forever()
        raise AssertionError("nobody wakes it")

    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        for name, then in {"answers": answer, "refuses": refuse, "hangs": hang}.items():
            events = frozenset({EVENT})
            bus.clients.add(CallbackClient(client_id=name, events=events, invoker=Seen(then), deadline=0.05))
        (outcome,) = await bus.emit("emitter", [emission()])
        for receipt in receipts_of(outcome).values():
            assert receipt.telemetry_summary["client_exit_code"] == 3
            assert receipt.telemetry_summary["emitter"] == "emitter"


async def test_a_client_that_answers_after_the_end_opens_no_frame_and_begins_no_session_again() -> None:
    frame = FrameContext(frame_id="f1", frame_class=FrameClass.TOP_LEVEL)
    opened, ended, over = LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED, LifecycleEvent.SESSION_ENDED
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        gate = Gate()
        bus.register("late", [opened], gate, background=True)
        for event in (opened, ended):
            await bus.emit("hook", [emission(event=event, frame_context=frame)])
        await bus.emit("hook", [emission(event=over)])
        gate.open.set()
        found = await settled(bus)
        assert (found["late"].event, found["late"].telemetry_summary["client_background"]) == (opened, True)
        (head,) = await bus.ledger.sessions()
        assert (head.last_event, head.ended, head.open_frames) == (opened, True, ())
        assert await bus.ledger.verify() == []
