"""What claims of renewal count for: left out or evaluated, scoped to profiles, and the four conditions of a renewal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.claims import RENEWAL, count_claim, explain_lack
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.renewal import posture_of
from lifebus_contract import (
    CAPABILITIES,
    AdapterManifest,
    CapabilityRequest,
    ConformanceLevel,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    validate,
)
from support.golden import golden

NAMES = sorted(name for name in CAPABILITIES if name.startswith(RENEWAL))
WRAPPER = "renewal.reset.wrapper_mediated"
DELIVERY = "renewal.continuation.payload_delivery"
ABLE = {
    "renewal.reset.native": "unavailable",
    WRAPPER: "synthesized",
    "renewal.reset.manual": "manual",
    "renewal.continuation.observation": "native",
    DELIVERY: "synthesized",
}
NOTHING = dict.fromkeys(NAMES, "unavailable")


def adapter(
    claims: dict[str, str] | None, *, needs: tuple[str, ...] = (), enabled: tuple[str, ...] = ()
) -> RegisteredAdapter:
    renewal: dict[str, Any] | None = None
    if claims is not None:
        renewal = {"profiles": list(needs), "reset": {}, "continuation": {}}
        for name, support in claims.items():
            _, group, part = name.split(".")
            renewal[group][part] = support
    manifest = validate(golden("manifest", renewal=renewal), AdapterManifest)
    return RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.V1, profiles=frozenset(enabled))


def reason(registered: RegisteredAdapter, name: str = WRAPPER) -> str:
    requirement = CapabilityRequest(capability=name, level=RequirementLevel.REQUIRED)
    found = negotiate(registered, [requirement])
    assert found.outcome == "unsupported"
    return found.outcomes[0].reason


def posture(registered: RegisteredAdapter, **losses: str) -> str | None:
    """Return the reset path, or the failure class where there is none."""
    now = {name.replace("__", "."): SupportState(support) for name, support in losses.items()}
    found = posture_of(registered, now)
    return found.path if found.refusal is None else found.refusal.failure_class.value


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_that_is_left_out_differs_from_one_that_was_evaluated_and_is_unavailable(name: str) -> None:
    assert "has not evaluated renewal" in reason(adapter(None), name)
    assert "evaluated renewal and cannot do this" in reason(adapter(NOTHING), name)


def test_a_claim_that_is_scoped_to_a_profile_counts_only_where_it_is_enabled() -> None:
    closed = adapter(ABLE, needs=("special", "other"), enabled=("third",))
    opened = adapter(ABLE, needs=("special", "other"), enabled=("other",))
    assert "needs the profile `special` or `other`, which is not enabled" in reason(closed)
    assert [count_claim(closed, name).value for name in NAMES] == ["unavailable"] * 5
    assert {name: count_claim(opened, name).value for name in NAMES} == ABLE
    assert explain_lack(opened, WRAPPER) is None
    assert count_claim(closed, "event:session.starting") is SupportState.NATIVE


def test_a_claim_without_profiles_counts_anywhere() -> None:
    assert count_claim(adapter(ABLE), WRAPPER) is SupportState.SYNTHESIZED


def test_a_renewal_takes_the_best_reset_path_that_needs_no_operator() -> None:
    assert posture(adapter(ABLE)) == "wrapper_mediated"
    assert posture(adapter(ABLE | {"renewal.reset.native": "native"})) == "native"


@pytest.mark.parametrize(
    ("claims", "failure"),
    [
        (None, "capability_unsupported"),
        (NOTHING, "capability_unsupported"),
        (ABLE | {DELIVERY: "unavailable"}, "capability_unsupported"),
        (ABLE | {"renewal.continuation.observation": "unavailable"}, "capability_unsupported"),
        (ABLE | {WRAPPER: "unavailable"}, "operator_required"),
        (ABLE | {WRAPPER: "manual", "renewal.reset.manual": "unavailable"}, "operator_required"),
        (ABLE | {WRAPPER: "unavailable", "renewal.reset.manual": "unavailable"}, "capability_unsupported"),
        (ABLE | {WRAPPER: "partial"}, "capability_degraded"),
        (ABLE | {DELIVERY: "partial"}, "capability_degraded"),
        (ABLE | {DELIVERY: "manual"}, "operator_required"),
    ],
)
def test_what_was_never_promised_is_refused_by_its_condition(claims: dict[str, str] | None, failure: str) -> None:
    assert posture(adapter(claims)) == failure


def test_without_its_profile_a_reset_is_unsupported() -> None:
    assert posture(adapter(ABLE, needs=("special",))) == "capability_unsupported"


@pytest.mark.parametrize("left", ["partial", "manual", "unavailable"])
@pytest.mark.parametrize("lost", [WRAPPER, DELIVERY, "renewal.continuation.observation"])
def test_what_was_promised_and_is_weaker_now_is_degraded(lost: str, left: str) -> None:
    assert posture(adapter(ABLE), **{lost: left}) == "capability_degraded"


def test_what_is_lost_and_not_needed_changes_nothing() -> None:
    assert posture(adapter(ABLE), **{"renewal.reset.manual": "unavailable", "context_pressure": "unavailable"}) == (
        "wrapper_mediated"
    )


SUPPORT = st.sampled_from([state.value for state in SupportState])


@given(
    claims=st.fixed_dictionaries(dict.fromkeys(NAMES, SUPPORT)), losses=st.dictionaries(st.sampled_from(NAMES), SUPPORT)
)
def test_a_loss_never_opens_a_path_and_every_refusal_is_one_of_the_conditions(
    claims: dict[str, str], losses: dict[str, str]
) -> None:
    whole, after = posture(adapter(claims)), posture(adapter(claims), **losses)
    paths = {"native", "wrapper_mediated"}
    assert after in paths | {"capability_unsupported", "capability_degraded", "operator_required"}
    if after in paths:
        assert whole in paths
    if whole in paths and after not in paths:
        assert after == "capability_degraded"
