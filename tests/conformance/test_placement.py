"""Conformance: payload placement tests for success, degradation, and refusal."""

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_broker.routing.placement import PlacementResult, place
from lifebus_contract import CallbackRequest, FailureClass, PayloadEnvelope, validate
from support.golden import golden

PROMPTED = "frame.opening"


def placed(adapter_id: str, event: str, *acceptable: tuple[str, str], body: str = "text") -> PlacementResult:
    placements = [{"placement": placement, "requirement": level} for placement, level in acceptable]
    payload = golden("payload", acceptable_placements=placements, body=body, byte_size=len(body), content_digest=None)
    request = validate(golden("request", event=event), CallbackRequest)
    return place([validate(payload, PayloadEnvelope)], request, ADAPTERS[adapter_id].registered)


@pytest.mark.parametrize("adapter_id", ["codex", "claude"])
def test_payload_placement_success(adapter_id: str) -> None:
    found = placed(adapter_id, "session.starting", ("developer_equivalent_frame", "required"))
    assert (found.receipts[0].status, found.receipts[0].placement) == ("delivered", "developer_equivalent_frame")
    assert [slot for _, slot in found.deliveries] == ["pre_session"]
    assert (found.refusal, found.warnings) == (None, ())


@pytest.mark.parametrize("adapter_id", ["codex", "claude", "gemini"])
def test_payload_placement_degradation(adapter_id: str) -> None:
    found = placed(adapter_id, PROMPTED, ("pre_prompt_frame", "required"))
    assert (found.receipts[0].status, found.refusal) == ("degraded", None)
    assert [warning.code for warning in found.warnings] == ["placed_after_prompt"]


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_payload_placement_refusal(adapter_id: str) -> None:
    found = placed(adapter_id, PROMPTED, ("side_channel_context", "required"))
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PLACEMENT_UNAVAILABLE
    assert found.deliveries == ()


@pytest.mark.parametrize("adapter_id", ["codex", "claude", "gemini", "hermes"])
def test_payload_placement_refusal_of_what_is_too_large(adapter_id: str) -> None:
    found = placed(adapter_id, PROMPTED, ("pre_prompt_frame", "required"), body="x" * 40_000)
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_a_payload_that_only_prefers_a_placement_is_skipped_and_the_dispatch_goes_on(adapter_id: str) -> None:
    found = placed(adapter_id, PROMPTED, ("side_channel_context", "preferred"))
    assert (found.receipts[0].status, found.refusal) == ("skipped", None)


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_receipt_only_is_never_refused(adapter_id: str) -> None:
    for event in ("session.starting", PROMPTED, "session.ended", "context.compacted"):
        assert placed(adapter_id, event, ("receipt_only", "required")).refusal is None


def test_a_harness_with_user_role_context_does_not_pass_for_a_developer_frame() -> None:
    found = placed("gemini", "session.starting", ("developer_equivalent_frame", "required"))
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PLACEMENT_UNAVAILABLE
