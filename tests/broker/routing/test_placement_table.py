"""The table of placements is what placement does, and negotiation claims no slot in full that refuses a placement."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.placement import place
from lifebus_broker.routing.placement_table import PlacementRow, placement_table
from lifebus_broker.routing.slots import SLOTS, Slot
from lifebus_contract import (
    AdapterManifest,
    CallbackRequest,
    CapabilityRequest,
    ConformanceLevel,
    LifecycleEvent,
    Negotiation,
    PayloadEnvelope,
    PlacementClass,
    ReceiptStatus,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    validate,
)
from support.golden import golden

NARROWED = ("gemini", "opencode", "hermes", "openclaw")


def claim(support: SupportState, limit: int | None) -> dict[str, Any]:
    return {"support": support, "max_bytes": limit}


CLAIM = st.builds(claim, st.sampled_from(list(SupportState)), st.sampled_from([None, 8192]))
CLAIMS = st.dictionaries(st.sampled_from(list(Slot)), CLAIM)
REFUSED = st.frozensets(st.sampled_from([one for one in PlacementClass if one is not PlacementClass.RECEIPT_ONLY]))


def registered(claims: dict[Slot, dict[str, Any]], refused: frozenset[PlacementClass]) -> RegisteredAdapter:
    manifest = validate(golden("manifest", placement=claims), AdapterManifest)
    return RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.V1, refused_placements=refused)


def asking(placement: PlacementClass) -> PayloadEnvelope:
    plain = golden("payload", body="text", byte_size=4, content_digest=None)
    plain["acceptable_placements"] = [{"placement": placement, "requirement": "preferred"}]
    return validate(plain, PayloadEnvelope)


def request(event: LifecycleEvent) -> CallbackRequest:
    return validate(golden("request", event=event), CallbackRequest)


def required(adapter: RegisteredAdapter, capability: str, **wish: Any) -> Negotiation:
    return negotiate(adapter, [CapabilityRequest(capability=capability, level=RequirementLevel.REQUIRED, **wish)])


def check_row(row: PlacementRow, adapter: RegisteredAdapter) -> None:
    result = place([asking(row.placement)], request(row.event), adapter)
    (receipt,) = result.receipts
    assert receipt.status == (row.status or ReceiptStatus.SKIPPED)
    assert [slot for _, slot in result.deliveries] == [one.slot for one in row.slots[:1]]
    if row.status is None:
        assert [one for _, one in result.rejections] == list(row.rejections)


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_the_table_of_a_built_in_adapter_is_what_placement_does(adapter_id: str) -> None:
    adapter = ADAPTERS[adapter_id].registered
    table = placement_table(adapter)
    assert len(table) == 13 * 4
    for row in table:
        check_row(row, adapter)


@given(CLAIMS, REFUSED, st.data())
def test_the_table_of_any_adapter_is_what_placement_does(
    claims: dict[Slot, dict[str, Any]], refused: frozenset[PlacementClass], data: st.DataObject
) -> None:
    adapter = registered(claims, refused)
    check_row(data.draw(st.sampled_from(placement_table(adapter))), adapter)


@given(CLAIMS, REFUSED, st.sampled_from(list(Slot)))
def test_a_slot_that_satisfies_takes_every_placement_that_may_use_it(
    claims: dict[Slot, dict[str, Any]], refused: frozenset[PlacementClass], slot: Slot
) -> None:
    adapter = registered(claims, refused)
    if required(adapter, f"placement:{slot}").outcome != "satisfied":
        return
    for placement, slots in SLOTS.items():
        for _, events in [one for one in slots if one[0] is slot]:
            for event in events - {LifecycleEvent.RECEIPT_EMITTED}:
                result = place([asking(placement)], request(event), adapter)
                assert result.receipts[0].status in {ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED}


@pytest.mark.parametrize("adapter_id", NARROWED)
def test_a_harness_without_a_developer_equivalent_frame_claims_no_slot_in_full(adapter_id: str) -> None:
    adapter = ADAPTERS[adapter_id].registered
    offered = [slot for slot, claim in adapter.manifest.placement.items() if claim.support != "unavailable"]
    assert offered
    for slot in offered:
        found = required(adapter, f"placement:{slot}")
        assert (found.outcome, found.outcomes[0].claimed) == ("degraded", "partial")
        assert "refuses `developer_equivalent_frame`" in found.outcomes[0].reason
        assert required(adapter, f"placement:{slot}", support=SupportState.NATIVE).outcome == "unsupported"
        assert required(adapter, f"placement:{slot}", accept_partial=True).outcome == "satisfied"


@pytest.mark.parametrize("adapter_id", ["codex", "claude"])
def test_a_harness_that_refuses_no_placement_keeps_its_claims(adapter_id: str) -> None:
    adapter = ADAPTERS[adapter_id].registered
    assert required(adapter, "placement:pre_session", support=SupportState.NATIVE).outcome == "satisfied"


def test_a_slot_that_refuses_everything_is_unavailable() -> None:
    both = frozenset({PlacementClass.DEVELOPER_EQUIVALENT_FRAME, PlacementClass.PRE_PROMPT_FRAME})
    adapter = registered({Slot.PRE_SESSION: {"support": "native"}}, both)
    (found,) = required(adapter, "placement:pre_session", accept_partial=True).outcomes
    assert (found.outcome, found.claimed) == ("unsupported", "unavailable")
    assert "it takes nothing" in found.reason
