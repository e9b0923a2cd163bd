"""Dispatch to callback clients: in parallel, each with its own deadline, isolation and receipt."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    FailureClass,
    LifebusError,
    LifecycleEvent,
    ReceiptStatus,
    RequirementLevel,
    RetryClass,
    SupportState,
    tighten,
)
from support.bus_box import (
    EVENT,
    NOW,
    answering,
    bus_box,
    emission,
    hang,
    payload,
    raising,
    receipts_of,
    recorded,
    returning,
)
from support.patience import PATIENCE_S

OTHER_DIGEST = "sha256:" + hashlib.sha256(b"something else").hexdigest()


def wants(capability: str, level: RequirementLevel, **fields: Any) -> CapabilityRequest:
    return CapabilityRequest(capability=capability, level=level, **fields)


async def test_an_event_that_no_client_wants_gets_one_observed_receipt_of_the_emitter() -> None:
    async with bus_box() as bus:
        bus.register("other-event", [LifecycleEvent.SESSION_ENDED], answering())
        bus.register("other-adapter", [EVENT], answering(), adapters=["claude"])
        (outcome,) = await bus.emit("emitter", [emission()])
        assert {name: receipt.status for name, receipt in receipts_of(outcome).items()} == {"emitter": "observed"}


async def test_clients_of_an_event_are_asked_in_parallel() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        everybody = anyio.Event()
        waiting = {"a", "b", "c"}

        def meeting(name: str) -> Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]:
            async def answer(_: DispatchEnvelope) -> CallbackResponse:
                waiting.discard(name)
                if not waiting:
                    everybody.set()
                await everybody.wait()  # nobody leaves before everybody has come
                return CallbackResponse.ok()

            return answer

        for name in sorted(waiting):
            bus.register(name, [EVENT], meeting(name), deadline=PATIENCE_S)
        (outcome,) = await bus.emit("emitter", [emission()])
        assert {name: receipt.status for name, receipt in receipts_of(outcome).items()} == dict.fromkeys(
            ("a", "b", "c"), ReceiptStatus.OBSERVED
        )


async def test_a_quick_client_is_recorded_while_a_slow_one_still_thinks() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        quick_recorded = anyio.Event()
        bus.fanout.listen(lambda stored: quick_recorded.set())

        async def slow(_: DispatchEnvelope) -> CallbackResponse:
            await quick_recorded.wait()
            return CallbackResponse.ok()

        bus.register("slow", [EVENT], slow, deadline=PATIENCE_S)
        bus.register("quick", [EVENT], answering(), deadline=PATIENCE_S)
        (outcome,) = await bus.emit("emitter", [emission()])
        assert list(receipts_of(outcome)) == ["quick", "slow"]


async def test_a_client_that_hangs_costs_its_own_deadline_and_gets_a_timeout_receipt() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        bus.register("stuck", [EVENT], hang, deadline=0.05)
        bus.register("well", [EVENT], answering())
        (outcome,) = await bus.emit("emitter", [emission()])
        found = receipts_of(outcome)
        assert (found["stuck"].failure_class, found["stuck"].retry_class) == (
            FailureClass.TIMEOUT,
            RetryClass.SAFE_RETRY,
        )
        assert found["well"].failure_class is None


async def test_a_budget_bounds_every_deadline() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        bus.register("stuck", [EVENT], hang, deadline=1_000)
        outcomes = await bus.emit("emitter", [emission(), emission()], budget=0.05)
        assert [receipts_of(one)["stuck"].failure_class for one in outcomes] == [FailureClass.TIMEOUT] * 2


@pytest.mark.parametrize(
    ("client", "failure", "code"),
    [
        (raising(RuntimeError("boom")), FailureClass.TRANSPORT_ERROR, "crashed"),
        (raising(ConnectionResetError()), FailureClass.TRANSPORT_ERROR, "unreachable"),
        (raising(asyncio.CancelledError()), FailureClass.TRANSPORT_ERROR, "crashed"),
        (
            raising(LifebusError("no", failure_class=FailureClass.OPERATOR_REQUIRED)),
            FailureClass.OPERATOR_REQUIRED,
            None,
        ),
        (returning(None), FailureClass.INVALID_REQUEST, "bad_answer"),
        (returning({"status": "observed"}), FailureClass.INVALID_REQUEST, "bad_answer"),
        (
            returning(structs.replace(CallbackResponse.ok(), schema_version="lifeloop.v9")),
            FailureClass.INVALID_REQUEST,
            None,
        ),
        (answering(payload("somebody else")), FailureClass.INVALID_REQUEST, "bad_answer"),
        (answering(payload("bad", byte_size=4)), FailureClass.INVALID_REQUEST, "byte_size_mismatch"),
        (answering(payload("bad", content_digest=OTHER_DIGEST)), FailureClass.INVALID_REQUEST, "digest_mismatch"),
        (answering(payload("bad", expires_at_epoch_s=NOW - 1)), FailureClass.INVALID_REQUEST, "payload_expired"),
        (answering(payload("bad", body="x" * 9_000)), FailureClass.PAYLOAD_TOO_LARGE, None),
        (
            answering(
                payload("bad", acceptable_placements=[{"placement": "side_channel_context", "requirement": "required"}])
            ),
            FailureClass.PLACEMENT_UNAVAILABLE,
            None,
        ),
    ],
    ids=[
        "crash",
        "connection lost",
        "cancels itself",
        "own failure",
        "no answer",
        "plain data",
        "other version",
        "payload of another client",
        "wrong size",
        "wrong digest",
        "expired",
        "too large",
        "nowhere to go",
    ],
)
async def test_every_way_a_client_can_go_wrong_is_its_own_receipt_and_nobody_elses(
    client: Callable[[DispatchEnvelope], Awaitable[CallbackResponse]], failure: FailureClass, code: str | None
) -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        bus.register("bad", [EVENT], client)
        bus.register("good", [EVENT], answering(payload("good")))
        (outcome,) = await bus.emit("emitter", [emission()])
        found = receipts_of(outcome)
        assert (found["bad"].status, found["bad"].failure_class) == (ReceiptStatus.FAILED, failure)
        assert code is None or found["bad"].warnings[0].code == code
        assert found["good"].status == ReceiptStatus.DELIVERED
        assert [delivered.client_id for delivered, _ in outcome.deliveries] == ["good"]


async def test_a_refused_capability_means_that_the_client_is_not_asked() -> None:
    async with bus_box() as bus:
        asked: list[str] = []

        async def answer(_: DispatchEnvelope) -> CallbackResponse:
            asked.append("client")
            return CallbackResponse.ok()

        needs = [wants("session_rename", RequirementLevel.REQUIRED)]
        bus.register("picky", [EVENT], answer, requirements=needs)
        (outcome,) = await bus.emit("emitter", [emission()])
        receipt = receipts_of(outcome)["picky"]
        assert (receipt.status, receipt.failure_class) == (ReceiptStatus.FAILED, FailureClass.CAPABILITY_UNSUPPORTED)
        assert asked == []


async def test_an_emission_whose_own_requirement_cannot_be_had_asks_no_client() -> None:
    async with bus_box() as bus:
        bus.register("client", [EVENT], answering())
        needs = [wants("session_rename", RequirementLevel.REQUIRED)]
        (outcome,) = await bus.emit("emitter", [emission(requirements=needs)])
        assert {name: one.failure_class for name, one in receipts_of(outcome).items()} == {
            "emitter": FailureClass.CAPABILITY_UNSUPPORTED
        }
        assert bus.clients.all()[0].dispatched == 0


async def test_a_preferred_capability_that_is_missing_degrades_the_receipt_and_says_so() -> None:
    async with bus_box() as bus:
        needs = [wants("session_rename", RequirementLevel.PREFERRED)]
        bus.register("modest", [EVENT], answering(), requirements=needs)
        (outcome,) = await bus.emit("emitter", [emission()])
        receipt = receipts_of(outcome)["modest"]
        assert receipt.status == ReceiptStatus.DEGRADED
        assert [(one.capability, one.current_support) for one in receipt.capability_degradations] == [
            ("session_rename", SupportState.UNAVAILABLE)
        ]
        assert [(one.code, one.capability) for one in receipt.warnings] == [("capability_degraded", "session_rename")]


@given(failure=st.sampled_from(FailureClass), wished=st.none() | st.sampled_from(RetryClass))
@settings(max_examples=40, deadline=None)
async def test_a_failed_client_may_tighten_its_retry_class_but_never_loosen_it(
    failure: FailureClass, wished: RetryClass | None
) -> None:
    async with bus_box() as bus:
        bus.register("failing", [EVENT], returning(CallbackResponse.failed(failure, wished)))
        (outcome,) = await bus.emit("emitter", [emission()])
        receipt = receipts_of(outcome)["failing"]
        assert (receipt.failure_class, receipt.retry_class) == (failure, tighten(failure, wished))


async def test_several_clients_do_not_take_the_same_room_twice() -> None:
    async with bus_box() as bus:
        for name in ("a", "b", "c"):
            bus.register(name, [EVENT], answering(payload(name, body=name * 3_500)))
        (outcome,) = await bus.emit("emitter", [emission()])
        statuses = sorted(receipt.failure_class or "delivered" for receipt in receipts_of(outcome).values())
        assert statuses == ["delivered", "delivered", FailureClass.PAYLOAD_TOO_LARGE]
        assert len(outcome.deliveries) == 2


async def test_events_of_one_invocation_share_its_id_and_are_chained_by_parents() -> None:
    async with bus_box() as bus:
        bus.register("client", [LifecycleEvent.SESSION_STARTING, EVENT], answering())
        events = ("session.starting", "session.started", "session.ended")
        outcomes = await bus.emit("emitter", [emission(event=event, invocation_id="inv_shared") for event in events])
        found = [next(iter(receipts_of(one).values())) for one in outcomes]
        assert {receipt.invocation_id for receipt in found} == {"inv_shared"}
        assert [receipt.parent_receipt_id for receipt in found] == [None, found[0].receipt_id, found[1].receipt_id]


async def test_clients_of_an_emission_with_payloads_hang_under_the_emitters_receipt() -> None:
    async with bus_box() as bus:
        bus.register("a", [EVENT], answering())
        bus.register("b", [EVENT], answering())
        (outcome,) = await bus.emit("emitter", [emission(payload())])
        found = receipts_of(outcome)
        assert found["emitter"].parent_receipt_id is None
        assert {found[name].parent_receipt_id for name in "ab"} == {found["emitter"].receipt_id}
        assert len({receipt.invocation_id for receipt in found.values()}) == 1


async def test_a_neighbour_in_the_same_message_does_not_wait_for_anothers_client() -> None:
    async with bus_box() as bus, asyncio.timeout(PATIENCE_S):
        both = anyio.Event()
        seen: set[str | None] = set()

        async def meet(envelope: DispatchEnvelope) -> CallbackResponse:
            seen.add(envelope.request.harness_session_id)
            if len(seen) == 2:
                both.set()
            await both.wait()  # would wait forever if sessions were asked one after the other
            return CallbackResponse.ok()

        bus.register("client", [EVENT], meet, deadline=PATIENCE_S)
        outcomes = await bus.emit("emitter", [emission(harness_session_id="s1"), emission(harness_session_id="s2")])
        assert [receipts_of(one)["client"].harness_session_id for one in outcomes] == ["s1", "s2"]


async def test_facts_of_one_session_are_dispatched_in_order() -> None:
    async with bus_box() as bus:
        order: list[str] = []

        async def note(envelope: DispatchEnvelope) -> CallbackResponse:
            order.append(f"{envelope.request.event_id} begins")
            await anyio.lowlevel.checkpoint()
            order.append(f"{envelope.request.event_id} ends")
            return CallbackResponse.ok()

        bus.register("client", [EVENT], note)
        await bus.emit("emitter", [emission(event_id=f"e{number}") for number in range(3)])
        assert order == [f"e{number} {what}" for number in range(3) for what in ("begins", "ends")]


async def test_more_dispatches_than_allowed_are_refused_as_busy_and_record_nothing() -> None:
    async with bus_box(max_dispatches=1) as bus, asyncio.timeout(PATIENCE_S):
        release, started = anyio.Event(), anyio.Event()

        async def wait(_: DispatchEnvelope) -> CallbackResponse:
            started.set()
            await release.wait()
            return CallbackResponse.ok()

        bus.register("client", [EVENT], wait, deadline=PATIENCE_S)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(bus.emit("emitter", [emission()]))
            await started.wait()
            (refused,) = await bus.emit("emitter", [emission()])
            release.set()
        assert refused.refusal is not None
        assert refused.refusal.code == "busy"
        assert receipts_of(first.result()[0])["client"].status == ReceiptStatus.OBSERVED
        assert len(await recorded(bus)) == 1
        assert bus.dispatches == 0
