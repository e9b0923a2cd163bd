"""Capabilities that change: which way, what follows for a retry, and what a smaller manifest lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.claims import claim_of
from lifebus_broker.transitions import (
    is_recovery,
    losses_of,
    retry_after_loss,
    shrinkage,
    strictest,
    transition,
)
from lifebus_contract import (
    CAPABILITIES,
    SUPPORT_STRENGTH,
    AdapterManifest,
    Degradation,
    Emission,
    RetryClass,
    SupportState,
    validate,
)
from support.golden import golden

STATES = st.sampled_from(list(SupportState))
MANIFEST = validate(golden("manifest"), AdapterManifest)


def change(before: SupportState, now: SupportState) -> Degradation:
    return transition("context_pressure", before, now, at_epoch_s=5, evidence="seen")


def manifest(pressure: str = "native", ledger: str = "native", events: dict[str, str] | None = None) -> AdapterManifest:
    plain = golden("manifest")
    plain["context_pressure"] = {"support": pressure}
    plain["receipts"]["receipt_ledger"] = ledger
    for name, support in (events or {}).items():
        plain["lifecycle_events"][name] = {"support": support, "modes": ["native_hook"]}
    return validate(plain, AdapterManifest)


@given(STATES, STATES)
def test_a_change_is_a_recovery_exactly_when_the_support_got_stronger(before: SupportState, now: SupportState) -> None:
    found = change(before, now)
    assert is_recovery(found) == (SUPPORT_STRENGTH[now] > SUPPORT_STRENGTH[before])
    assert losses_of([found]) == (() if is_recovery(found) else (found,))
    assert found.retry_class is (RetryClass.SAFE_RETRY if is_recovery(found) else retry_after_loss(now))


def test_what_is_left_of_a_capability_says_how_to_go_on() -> None:
    assert retry_after_loss(SupportState.PARTIAL) is RetryClass.RETRY_AFTER_REREAD
    assert retry_after_loss(SupportState.MANUAL) is RetryClass.RETRY_AFTER_OPERATOR
    assert retry_after_loss(SupportState.UNAVAILABLE) is RetryClass.RETRY_AFTER_RECONFIGURE


def test_of_several_changes_the_strictest_retry_counts() -> None:
    by_hand = change(SupportState.NATIVE, SupportState.MANUAL)
    gone = change(SupportState.NATIVE, SupportState.UNAVAILABLE)
    assert strictest([gone, by_hand, gone]) is RetryClass.RETRY_AFTER_OPERATOR
    assert strictest([]) is None


def test_the_same_manifest_lost_nothing() -> None:
    assert shrinkage(MANIFEST, MANIFEST, at_epoch_s=5, evidence="reload") == ()


def test_a_smaller_manifest_names_each_claim_that_changed_and_no_other() -> None:
    old, new = manifest("native", "synthesized"), manifest("partial", "native")
    assert [
        (one.capability, one.previous_support, one.current_support, one.retry_class, one.evidence)
        for one in shrinkage(old, new, at_epoch_s=5, evidence="reload")
    ] == [
        ("context_pressure", "native", "partial", "retry_after_reread", "reload"),
        ("receipt_ledger", "synthesized", "native", "safe_retry", "reload"),
    ]


@given(st.dictionaries(st.sampled_from(["session.started", "frame.ended", "session.ending"]), STATES), STATES, STATES)
def test_shrinkage_leads_from_every_old_claim_to_the_new_one(
    events: dict[str, str], pressure: SupportState, ledger: SupportState
) -> None:
    old, new = manifest(), manifest(pressure, ledger, events)
    claims = {name: claim_of(old, name) for name in CAPABILITIES}
    found = shrinkage(old, new, at_epoch_s=5, evidence="reload")
    for one in found:
        assert one.previous_support is claims[one.capability]
        claims[one.capability] = one.current_support
    assert claims == {name: claim_of(new, name) for name in CAPABILITIES}
    assert [one.capability for one in found] == sorted({one.capability for one in found})


@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_what_a_manifest_lost_can_be_reported(capability: str) -> None:
    lost = transition(capability, SupportState.NATIVE, SupportState.PARTIAL, at_epoch_s=5, evidence="reload")
    report = Emission(request=validate(golden("emission", "report"), Emission).request, degradations=(lost,))
    assert validate(report, Emission) == report
