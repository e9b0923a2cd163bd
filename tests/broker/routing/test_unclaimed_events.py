"""What a manifest calls unavailable, or claims by other modes, is recorded when it happens, with a remark."""

import pytest
from msgspec import structs

from lifebus_broker.routing.bus import EventBus
from lifebus_contract import (
    EventClaim,
    IntegrationMode,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
    SupportState,
    Warning,  # noqa: A004  the contract's own word
)
from lifebus_contract.codec import decode_receipt
from support.bus_box import answering, bus_box, emission, payload

EVENT = LifecycleEvent.CONTEXT_COMPACTED
HOOK = IntegrationMode.NATIVE_HOOK


def claim(bus: EventBus, found: EventClaim | None) -> None:
    """Have Codex's manifest claim the event so, or leave it out."""
    registered = bus.registry.require("codex")
    claims = {event: one for event, one in registered.manifest.lifecycle_events.items() if event is not EVENT}
    claims |= {} if found is None else {EVENT: found}
    bus.registry.replace(
        [structs.replace(registered, manifest=structs.replace(registered.manifest, lifecycle_events=claims))]
    )


async def recorded(bus: EventBus, **fields: str) -> list[Receipt]:
    (outcome,) = await bus.emit("emitter", [emission(event=EVENT, **fields)])
    assert outcome.refusal is None
    return [decode_receipt(one.receipt) for one in outcome.stored]


def remarks(receipt: Receipt) -> list[Warning]:
    return [one for one in receipt.warnings if one.code == "event_not_claimed"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "claims that `context.compacted` is unavailable"),
        (EventClaim(support=SupportState.UNAVAILABLE), "claims that `context.compacted` is unavailable"),
        (
            EventClaim(support=SupportState.NATIVE, modes=(IntegrationMode.TELEMETRY_ONLY,)),
            "claims `context.compacted` by telemetry_only, not by native_hook",
        ),
    ],
    ids=["left out", "unavailable", "other mode"],
)
async def test_an_event_that_is_not_claimed_is_recorded_with_a_warning(found: EventClaim | None, said: str) -> None:
    async with bus_box() as bus:
        claim(bus, found)
        (receipt,) = await recorded(bus, integration_mode=HOOK)
        assert receipt.status is ReceiptStatus.OBSERVED
        (remark,) = remarks(receipt)
        assert (remark.capability, remark.message) == ("event:context.compacted", f"the manifest of `codex` {said}")


async def test_an_event_that_is_claimed_has_no_such_warning() -> None:
    async with bus_box() as bus:
        claim(bus, EventClaim(support=SupportState.PARTIAL, modes=(HOOK,)))
        (receipt,) = await recorded(bus, integration_mode=HOOK)
        assert remarks(receipt) == []


async def test_clients_receipts_and_deliveries_carry_the_warning_as_well() -> None:
    async with bus_box() as bus:
        claim(bus, None)
        bus.register("client", [EVENT], answering())
        (answered,) = await recorded(bus)
        assert (answered.client_id, len(remarks(answered))) == ("client", 1)
        recorded_only = [{"placement": "receipt_only", "requirement": "required"}]
        fact = emission(payload(acceptable_placements=recorded_only), event=EVENT)
        (outcome,) = await bus.emit("emitter", [fact], dispatch=False)
        assert len(remarks(decode_receipt(outcome.stored[0].receipt))) == 1


async def test_a_key_that_comes_again_is_a_replay_though_the_claim_changed() -> None:
    async with bus_box() as bus:
        claim(bus, EventClaim(support=SupportState.NATIVE, modes=(HOOK,)))
        fact = emission(event=EVENT, idempotency_key="k")
        (first,) = await bus.emit("emitter", [fact])
        claim(bus, None)
        (again,) = await bus.emit("emitter", [fact])
        assert (again.replayed, again.stored) == (True, first.stored)
