"""Conformance: the rules that need a running bus (docs/contract.md 14)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import lifebus
from lifebus_adapters import ADAPTERS
from lifebus_admin.inspection import negotiate_here
from lifebus_contract import (
    CallbackRequest,
    CapabilityRequest,
    Emission,
    FailureClass,
    InvalidRequest,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
    RequirementLevel,
    RetryClass,
    StateConflict,
    SupportState,
    encode_json,
    load_json,
)
from lifebus_supervisor.hook_intake.calls import HookCalls
from support.adapters.calls import call
from support.bus_box import answering, payload
from support.integration.following import frame, recorded
from support.integration.serving import EVENT, content, serving
from support.patience import PATIENCE_S
from support.running import connected, running_bus

BACKENDS = pytest.mark.parametrize("backend", ["sqlite", "memory"])


def sequences(receipts: Sequence[Receipt]) -> list[int | None]:
    return [receipt.sequence for receipt in receipts]


async def emit_one(bus: lifebus.Bus, request: CallbackRequest) -> Receipt:
    (receipt,) = (await bus.emit(request)).receipts
    return receipt


# Receipt ordering and idempotency


async def test_ordering_is_per_session_without_holes_and_never_across_sessions() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit([frame(name) for name in ("s1", "s2", "s1", "s1", "s2")])
        await bus.emit(frame("s1", adapter="claude"))
        assert sequences(await recorded(daemon, ("codex", "s1"))) == [1, 2, 3]
        assert sequences(await recorded(daemon, ("codex", "s2"))) == [1, 2]
        assert sequences(await recorded(daemon, ("claude", "s1"))) == [1]


async def test_a_receipt_without_a_session_has_no_sequence_even_on_a_ledger() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        assert sequences([await emit_one(bus, frame(None)), await emit_one(bus, frame(None))]) == [None, None]


async def test_a_harness_number_is_evidence_and_not_the_receipts_sequence() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        receipt = await emit_one(bus, frame(sequence=41))
        assert (receipt.sequence, receipt.telemetry_summary["harness_sequence"]) == (1, 41)


async def test_repeated_delivery_with_identical_content_is_an_idempotent_replay() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        request = frame()
        first, again = await bus.emit(request), await bus.emit(request)
        assert [encode_json(one) for one in again.receipts] == [encode_json(one) for one in first.receipts]
        assert again.replayed


async def test_an_idempotency_key_with_different_content_is_a_duplicate_id_conflict() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(frame(idempotency_key="k1"))
        with pytest.raises(StateConflict) as caught:
            await bus.emit(frame(idempotency_key="k1", session="another"))
        assert caught.value.code == "duplicate_id_conflict"
        assert caught.value.failure_class is FailureClass.STATE_CONFLICT
        assert caught.value.retry_class is RetryClass.RETRY_AFTER_REREAD


async def test_without_an_idempotency_key_the_receipt_id_is_the_replay_boundary() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        request = frame(idempotency_key=None)
        first, again = await emit_one(bus, request), await emit_one(bus, request)
        assert first.receipt_id != again.receipt_id
        assert (first.event_id, first.idempotency_key) == (again.event_id, None)


async def test_an_idempotency_key_is_echoed_and_no_identifier_stands_for_another() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        request = frame(idempotency_key="k1", event_id="evt_1", invocation_id="inv_1")
        receipt = await emit_one(bus, request)
        assert (receipt.idempotency_key, receipt.event_id, receipt.invocation_id) == ("k1", "evt_1", "inv_1")
        assert receipt.receipt_id.startswith("lfr_")


@BACKENDS
async def test_stored_receipts_have_every_nullable_field(backend: str) -> None:
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        receipt = await emit_one(bus, frame(None, idempotency_key=None))
        assert load_json(encode_json(receipt)).keys() == set(Receipt.__struct_fields__)


async def test_a_gap_is_detected_only_where_stable_harness_numbers_make_it_observable() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        for number in (None, 5, None, 6, 9):
            await bus.emit(frame(sequence=number))
        gaps = [one for one in await recorded(daemon) if one.event is LifecycleEvent.RECEIPT_GAP_DETECTED]
        assert [(one.telemetry_summary["missing_first"], one.telemetry_summary["missing_last"]) for one in gaps] == [
            (7, 8)
        ]


async def test_lost_receipts_are_not_reconstructed() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit([frame(), frame(), frame()])
        await daemon.bus.ledger.prune(2, b"{}")
        items = [item async for item in bus.receipts(since="start", until_head=True, gaps="yield")]
        assert [type(item).__name__ for item in items] == ["Gap", "Receipt"]


# Invocations


@BACKENDS
async def test_a_multi_event_invocation_shares_its_id_and_is_chained_by_parent_receipts(backend: str) -> None:
    async with running_bus(backend=backend) as daemon:
        payload_of_hook = {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": "/w"}
        await HookCalls(daemon.bus, ADAPTERS, budget=PATIENCE_S).handle(call("claude", payload_of_hook))
        receipts = await recorded(daemon)
        assert [one.event for one in receipts] == [LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED]
        assert len({one.invocation_id for one in receipts}) == 1
        assert [one.parent_receipt_id for one in receipts] == [None, receipts[0].receipt_id]


async def test_all_clients_of_a_dispatch_share_the_invocation_and_each_has_its_own_receipt() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        for name in ("one", "other"):
            daemon.bus.register(name, [EVENT], answering())
        result = await bus.emit(frame(invocation_id="inv_1"))
        assert {one.client_id for one in result.receipts} == {"one", "other"}
        assert {one.invocation_id for one in result.receipts} == {"inv_1"}
        assert len({one.receipt_id for one in result.receipts}) == 2


# Synchronous dispatch


async def test_a_command_response_caller_gets_the_clients_answer_in_the_same_call() -> None:
    async with running_bus() as daemon, connected(daemon, "notes") as worker, connected(daemon) as bus:
        note = payload("notes")
        async with serving(worker, answering(note)):
            result = await bus.emit(frame())
        assert [one.payload for one in result.deliveries] == [note]
        assert [one.payload_id for one in result.receipts[0].payload_receipts] == [note.payload_id]


async def test_a_hook_gets_the_clients_payload_on_its_standard_output() -> None:
    async with running_bus() as daemon:
        daemon.bus.register("notes", [LifecycleEvent.FRAME_OPENING], answering(payload("notes", body="remember")))
        hook = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "hi", "cwd": "/w"}
        answer = await HookCalls(daemon.bus, ADAPTERS, budget=PATIENCE_S).handle(call("claude", hook))
        assert answer.exit_code == 0
        assert "remember" in json.loads(answer.stdout)["hookSpecificOutput"]["additionalContext"]


async def test_delivered_is_only_said_of_what_was_placed() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        bare = payload("notes", acceptable_placements=[{"placement": "receipt_only", "requirement": "required"}])
        daemon.bus.register("notes", [EVENT], answering(bare))
        result = await bus.emit(frame())
        assert [one.payload for one in result.deliveries] == []
        assert bare.body is not None
        assert bare.body not in encode_json(result.receipts[0]).decode()


# Stateless operation


async def test_without_a_ledger_no_sequence_is_claimed() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        assert sequences([await emit_one(bus, frame()), await emit_one(bus, frame())]) == [None, None]


async def test_without_a_ledger_nothing_is_claimed_across_broker_lives() -> None:
    request = frame()
    replayed: list[bool] = []
    epochs: list[str] = []
    for _ in range(2):
        async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
            replayed.append((await bus.emit(request)).replayed)
            status = await bus.status()
            epochs.append(status.ledger.epoch)
            assert status.ledger.durability == "none"
    assert replayed == [False, False]
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize(("backend", "outcome"), [("sqlite", "satisfied"), ("memory", "unsupported")])
async def test_a_receipt_ledger_is_claimed_only_where_receipts_outlive_the_broker(backend: str, outcome: str) -> None:
    wanted = CapabilityRequest(
        capability="receipt_ledger", level=RequirementLevel.REQUIRED, support=SupportState.SYNTHESIZED
    )
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        found = await bus.negotiate("codex", [wanted])
        assert found.outcome == outcome
        assert ("ledger of this broker" in found.outcomes[0].reason) is (outcome == "unsupported")
        status = await bus.status()
        assert (status.ledger.lacks == ()) is (outcome == "satisfied")
        without = negotiate_here(daemon.settings, "codex", [wanted])
        assert without == found, "the command says the same without a broker"


async def test_without_a_ledger_idempotency_keys_are_validated_and_echoed() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        assert (await emit_one(bus, frame(idempotency_key="k1"))).idempotency_key == "k1"
        with pytest.raises(InvalidRequest):
            frame(idempotency_key="")


# Degradation and refusal


@BACKENDS
async def test_a_degraded_capability_is_surfaced_in_the_receipt(backend: str) -> None:
    requirement = CapabilityRequest(
        capability="context_pressure", level=RequirementLevel.PREFERRED, support=SupportState.NATIVE
    )
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        (receipt,) = (await bus.emit(Emission(request=frame(), requirements=(requirement,)))).receipts
        assert receipt.status is ReceiptStatus.DEGRADED
        assert [one.capability for one in receipt.capability_degradations] == ["context_pressure"]
        assert receipt.capability_degradations[0].event == "capability.degraded"
        assert [one.capability for one in receipt.warnings] == ["context_pressure"]


async def test_a_required_capability_that_is_missing_is_refused_before_any_client_runs() -> None:
    requirement = CapabilityRequest(capability="session_rename", level=RequirementLevel.REQUIRED)
    async with running_bus() as daemon, connected(daemon, "worker") as worker, connected(daemon) as bus:
        async with serving(worker, content):
            (receipt,) = (await bus.emit(Emission(request=frame(), requirements=(requirement,)))).receipts
            (client,) = await bus.clients()
        assert (receipt.status, receipt.failure_class, receipt.retry_class) == (
            ReceiptStatus.FAILED,
            FailureClass.CAPABILITY_UNSUPPORTED,
            RetryClass.DO_NOT_RETRY,
        )
        assert client.dispatched == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"adapter": "nobody"},
        {"adapter_version": "9.9"},
        {"adapter": "claude", "integration_mode": "reference_adapter"},
    ],
)
async def test_an_adapter_that_cannot_serve_the_request_is_adapter_unavailable(changes: dict[str, Any]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        (result,) = await bus.emit([frame(**changes)])
        assert result.refusal is not None
        assert result.refusal.failure_class is FailureClass.ADAPTER_UNAVAILABLE
        assert result.refusal.retry_class is RetryClass.RETRY_AFTER_RECONFIGURE
        assert daemon.bus.ledger.head == 0


async def test_a_driven_tick_always_gets_a_stored_receipt() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        result = await bus.tick("codex", session="s1")
        assert [one.event for one in await recorded(daemon)] == [LifecycleEvent.SUPERVISOR_TICK]
        assert sequences(result.receipts) == [1]
