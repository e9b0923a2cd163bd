"""Proofs of what the v1 manifests claim about placement: a client's payload through bus and adapter to the harness."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_contract import (
    FailureClass,
    LifebusError,
    ManifestPlacementClass,
    PayloadEnvelope,
    PlacementClass,
    Receipt,
    ReceiptStatus,
)
from lifebus_contract.payload_text import text_size
from support.adapters.calls import call, delivery, slots_of
from support.adapters.hook_bus import HookBus, hook_bus
from support.adapters.proofs import PROMPT, START, Proof


async def _deliver(
    bus: HookBus, adapter_id: str, hook: dict[str, Any], event: str, payload: PayloadEnvelope
) -> tuple[Receipt, list[Any]]:
    """Return the client's receipt and what the harness found in its context."""
    bus.deliver(event, payload)
    recorded, answer = await bus.hook(adapter_id, hook)
    (receipt,) = [receipt for receipt in recorded if receipt.client_id == "test-client"]
    if not answer.stdout:
        return receipt, []
    context = json.loads(answer.stdout)["hookSpecificOutput"]["additionalContext"]
    return receipt, [body["body"] for body in json.loads(context)["payloads"]]


async def context_at_session_start(adapter_id: str) -> None:
    async with hook_bus() as bus:
        receipt, bodies = await _deliver(bus, adapter_id, START, "session.starting", delivery("hello").payload)
    assert bodies == ["hello"]
    assert receipt.payload_receipts[0].status is ReceiptStatus.DELIVERED
    assert slots_of(adapter_id)["SessionStart"] is ManifestPlacementClass.PRE_SESSION


async def context_after_the_prompt(adapter_id: str) -> None:
    async with hook_bus() as bus:
        receipt, bodies = await _deliver(bus, adapter_id, PROMPT, "frame.opening", delivery("hello").payload)
    assert bodies == ["hello"]
    assert receipt.payload_receipts[0].status is ReceiptStatus.DEGRADED
    assert slots_of(adapter_id)["UserPromptSubmit"] is ManifestPlacementClass.PRE_FRAME_TRAILING


def no_hook_takes(slot: str) -> Proof:
    async def proof(adapter_id: str) -> None:
        """No hook puts anything there, and a payload for the side channel is not delivered."""
        assert ManifestPlacementClass(slot) not in slots_of(adapter_id).values()
        payload = delivery("hello", placement=PlacementClass.SIDE_CHANNEL_CONTEXT).payload
        async with hook_bus() as bus:
            receipt, bodies = await _deliver(bus, adapter_id, START, "session.starting", payload)
        assert bodies == []
        assert receipt.payload_receipts[0].status is not ReceiptStatus.DELIVERED

    return proof


def takes_at_most(slot: str, hook: dict[str, Any], event: str) -> Proof:
    async def proof(adapter_id: str) -> None:
        """The largest context arrives whole and below what the harness cuts; one byte more is refused."""
        limit = ADAPTERS[adapter_id].registered.manifest.placement[ManifestPlacementClass(slot)].max_bytes or 0
        assert 0 < limit < 10_000
        largest = "x" * (limit - text_size([delivery("").payload]))
        async with hook_bus() as bus:
            _, bodies = await _deliver(bus, adapter_id, hook, event, delivery(largest).payload)
        assert bodies == [largest]
        async with hook_bus() as bus:
            receipt, bodies = await _deliver(bus, adapter_id, hook, event, delivery(largest + "x").payload)
        assert bodies == []
        assert receipt.payload_receipts[0].status is not ReceiptStatus.DELIVERED

    return proof


async def too_much_context_is_refused(adapter_id: str) -> None:
    with pytest.raises(LifebusError) as refused:
        ADAPTERS[adapter_id].render(call(adapter_id, START), [delivery("x" * 20_000)])
    assert refused.value.failure_class is FailureClass.PAYLOAD_TOO_LARGE
