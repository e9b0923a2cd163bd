"""Conformance: negotiation (docs/contract.md 14)."""

import pytest

from lifebus_broker.routing.negotiation import degradations_of, negotiate, warnings_of
from lifebus_contract import (
    CAPABILITIES,
    AdapterManifest,
    CapabilityRequest,
    ConformanceLevel,
    FailureClass,
    RegisteredAdapter,
    RequirementLevel,
    RetryClass,
    SupportState,
    validate,
)
from support.golden import golden

ADAPTER = RegisteredAdapter(manifest=validate(golden("manifest"), AdapterManifest), conformance=ConformanceLevel.V1)
NATIVE, PARTIAL, ABSENT, MANUAL = "event:session.starting", "placement:tool_result", "harness_task_id", "session_rename"


def requirement(capability: str, level: str, *, accept_partial: bool = False) -> CapabilityRequest:
    return CapabilityRequest(capability=capability, level=RequirementLevel(level), accept_partial=accept_partial)


@pytest.mark.parametrize("level", ["required", "preferred", "optional"])
def test_what_the_adapter_has_satisfies_every_level(level: str) -> None:
    assert negotiate(ADAPTER, [requirement(NATIVE, level)]).outcome == "satisfied"


def test_negotiation_for_required_refuses_what_cannot_be_had() -> None:
    found = negotiate(ADAPTER, [requirement(ABSENT, "required")])
    assert (found.outcome, found.failure_class) == ("unsupported", FailureClass.CAPABILITY_UNSUPPORTED)
    by_hand = negotiate(ADAPTER, [requirement(MANUAL, "required")])
    assert (by_hand.outcome, by_hand.failure_class) == ("requires_operator", FailureClass.OPERATOR_REQUIRED)


def test_negotiation_for_preferred_goes_on_degraded_with_a_warning() -> None:
    found = negotiate(ADAPTER, [requirement(ABSENT, "preferred")])
    assert (found.outcome, found.failure_class) == ("degraded", None)
    assert [warning.capability for warning in warnings_of(found)] == [ABSENT]


def test_negotiation_for_optional_leaves_out_without_a_warning() -> None:
    found = negotiate(ADAPTER, [requirement(ABSENT, "optional")])
    assert (found.outcome, warnings_of(found)) == ("satisfied", ())


@pytest.mark.parametrize("level", ["required", "preferred", "optional"])
def test_partial_support_degrades_unless_the_client_marks_it_acceptable(level: str) -> None:
    assert negotiate(ADAPTER, [requirement(PARTIAL, level)]).outcome == "degraded"
    assert negotiate(ADAPTER, [requirement(PARTIAL, level, accept_partial=True)]).outcome == "satisfied"


def test_an_optional_capability_that_was_promised_and_then_degraded_is_warned_about() -> None:
    found = negotiate(ADAPTER, [requirement(NATIVE, "optional")], {NATIVE: SupportState.UNAVAILABLE})
    assert [warning.capability for warning in warnings_of(found)] == [NATIVE]


def test_mid_session_capability_loss_refuses_the_next_dispatch_that_requires_it() -> None:
    assert negotiate(ADAPTER, [requirement(NATIVE, "required")]).failure_class is None
    found = negotiate(ADAPTER, [requirement(NATIVE, "required")], {NATIVE: SupportState.UNAVAILABLE})
    assert (found.failure_class, found.retry_class) == ("capability_degraded", "retry_after_reread")
    (lost,) = degradations_of(found, 100)
    assert (lost.capability, lost.previous_support, lost.current_support) == (NATIVE, "native", "unavailable")
    assert lost.retry_class is RetryClass.RETRY_AFTER_RECONFIGURE


@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_negotiation_keeps_nothing_between_invocations(capability: str) -> None:
    before = negotiate(ADAPTER, [requirement(capability, "preferred")])
    negotiate(ADAPTER, [requirement(capability, "required")], {capability: SupportState.UNAVAILABLE})
    assert negotiate(ADAPTER, [requirement(capability, "preferred")]) == before
