"""Negotiation as a table: what is asked, what the manifest claims, what follows (docs/contract.md 4.1)."""

import re
from itertools import product
from typing import Any

import pytest

from lifebus_broker.claims import claim_of
from lifebus_broker.routing.negotiation import degradations_of, negotiate, warnings_of
from lifebus_contract import (
    CAPABILITIES,
    SUPPORT_STRENGTH,
    AdapterManifest,
    CapabilityRequest,
    ConformanceLevel,
    FailureClass,
    InvalidRequest,
    Negotiation,
    NegotiationOutcome,
    RegisteredAdapter,
    RequirementLevel,
    RetryClass,
    SupportState,
    validate,
)
from support.golden import golden
from support.paths import DOCS

CAPABILITY = "context_pressure"
STATES = ("native", "synthesized", "partial", "manual", "unavailable")
S, D, U, O = "satisfied", "degraded", "unsupported", "requires_operator"  # noqa: E741  columns of a table

# what is claimed:              native  synth.  partial manual  unavailable
TABLE = {
    ("required", "native"):      (S,      U,      U,      O,      U),
    ("required", "synthesized"): (S,      S,      D,      O,      U),
    ("required", "partial"):     (S,      S,      S,      O,      U),
    ("required", "manual"):      (S,      S,      D,      S,      U),
    ("preferred", "native"):     (S,      D,      D,      D,      D),
    ("preferred", "synthesized"):(S,      S,      D,      D,      D),
    ("preferred", "partial"):    (S,      S,      S,      D,      D),
    ("preferred", "manual"):     (S,      S,      D,      S,      D),
    ("optional", "native"):      (S,      D,      D,      D,      S),
    ("optional", "synthesized"): (S,      S,      D,      D,      S),
    ("optional", "partial"):     (S,      S,      S,      D,      S),
    ("optional", "manual"):      (S,      S,      D,      S,      S),
}  # fmt: skip
CASES = [
    (level, wanted, claimed, outcome)
    for (level, wanted), row in TABLE.items()
    for claimed, outcome in zip(STATES, row, strict=True)
]


def adapter(support: str = "native", **changes: Any) -> RegisteredAdapter:
    manifest = golden("manifest", context_pressure={"support": support}, **changes)
    return RegisteredAdapter(manifest=validate(manifest, AdapterManifest), conformance=ConformanceLevel.V1)


def asking(
    level: str, support: str = "synthesized", *, accept: bool = False, of: str = CAPABILITY
) -> CapabilityRequest:
    return CapabilityRequest(
        capability=of, level=RequirementLevel(level), support=SupportState(support), accept_partial=accept
    )


def negotiated(level: str, wanted: str, claimed: str, *, accept: bool = False) -> Negotiation:
    return negotiate(adapter(claimed), [asking(level, wanted, accept=accept)])


def test_what_is_asked_and_what_is_claimed_decide_the_outcome(subtests: pytest.Subtests) -> None:
    for level, wanted, claimed, outcome in CASES:
        with subtests.test(level=level, wanted=wanted, claimed=claimed, outcome=outcome):
            found = negotiated(level, wanted, claimed)
            assert found.outcome == outcome
            assert [(one.level, one.wanted, one.claimed, one.current, one.outcome) for one in found.outcomes] == [
                (level, wanted, claimed, claimed, outcome)
            ]


def test_who_accepts_partial_support_is_satisfied_with_partial_and_better(subtests: pytest.Subtests) -> None:
    for level, wanted in TABLE:
        with subtests.test(level=level, wanted=wanted):
            for claimed in ("native", "synthesized", "partial"):
                assert negotiated(level, wanted, claimed, accept=True).outcome == "satisfied"
            for claimed in ("manual", "unavailable"):
                assert negotiated(level, wanted, claimed, accept=True) == negotiated(level, wanted, claimed)


def test_only_refusing_outcomes_have_a_failure_class(subtests: pytest.Subtests) -> None:
    for level, wanted, claimed, outcome in CASES:
        with subtests.test(level=level, wanted=wanted, claimed=claimed, outcome=outcome):
            failures = {
                "unsupported": (FailureClass.CAPABILITY_UNSUPPORTED, RetryClass.DO_NOT_RETRY),
                "requires_operator": (FailureClass.OPERATOR_REQUIRED, RetryClass.RETRY_AFTER_OPERATOR),
            }
            found = negotiated(level, wanted, claimed)
            assert (found.failure_class, found.retry_class) == failures.get(outcome, (None, None))


@pytest.mark.parametrize("level", ["preferred", "optional"])
def test_only_a_required_capability_refuses(level: str) -> None:
    for wanted, claimed in product(STATES[:-1], STATES):
        assert negotiated(level, wanted, claimed).failure_class is None


def test_for_one_wish_stronger_automatic_support_is_never_worse() -> None:
    severity = [S, D, O, U]
    for (_, wanted), row in TABLE.items():
        if wanted != "manual":  # who asks for an operator's way has not accepted a lossy automatic one
            ranks = [severity.index(outcome) for outcome in row[:3]]
            assert ranks == sorted(ranks)


def test_nothing_asked_is_satisfied() -> None:
    found = negotiate(adapter(), [])
    assert (found.outcome, found.outcomes, found.failure_class) == ("satisfied", (), None)
    assert found.adapter_id == "example-harness"


@pytest.mark.parametrize(
    ("names", "worst"),
    [
        (["satisfied"], "satisfied"),
        (["satisfied", "degraded"], "degraded"),
        (["requires_operator", "satisfied", "degraded"], "requires_operator"),
        (["degraded", "unsupported", "requires_operator", "satisfied"], "unsupported"),
    ],
)
def test_the_worst_outcome_wins_and_every_outcome_is_reported(names: list[str], worst: str) -> None:
    asked = {
        "satisfied": asking("required", of="event:session.starting"),
        "degraded": asking("preferred", of="harness_task_id"),
        "requires_operator": asking("required", of="session_rename"),
        "unsupported": asking("required", of="placement:pre_frame_leading"),
    }
    found = negotiate(adapter(), [asked[name] for name in names])
    assert found.outcome == worst
    assert [one.outcome for one in found.outcomes] == names
    assert [one.capability for one in found.outcomes] == [asked[name].capability for name in names]


@pytest.mark.parametrize(
    ("capability", "support"),
    [
        ("event:session.starting", "native"),
        ("event:frame.ended", "partial"),
        ("event:context.compacted", "unavailable"),
        ("event:supervisor.tick", "unavailable"),
        ("placement:pre_session", "native"),
        ("placement:tool_result", "partial"),
        ("placement:manual_operator", "manual"),
        ("context_pressure", "native"),
        ("native_receipts", "unavailable"),
        ("lifeloop_synthesized_receipts", "native"),
        ("receipt_ledger", "synthesized"),
        ("harness_session_id", "native"),
        ("harness_run_id", "synthesized"),
        ("harness_task_id", "unavailable"),
        ("session_rename", "manual"),
        ("approval_surface", "native"),
        ("renewal.reset.native", "unavailable"),
        ("renewal.reset.wrapper_mediated", "partial"),
        ("renewal.reset.manual", "manual"),
        ("renewal.continuation.observation", "partial"),
        ("renewal.continuation.payload_delivery", "unavailable"),
    ],
)
def test_each_capability_is_read_from_its_claim(capability: str, support: str) -> None:
    assert claim_of(adapter().manifest, capability) == support


def test_what_a_manifest_leaves_out_is_unavailable(subtests: pytest.Subtests) -> None:
    for capability in sorted(CAPABILITIES):
        with subtests.test(capability=capability):
            bare = validate(golden("manifest", "minimal"), AdapterManifest)
            claimed = {"context_pressure": "partial", "lifeloop_synthesized_receipts": "native"}
            assert claim_of(bare, capability) == claimed.get(capability, "unavailable")


def test_a_capability_the_contract_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="`teleport` is not a capability"):
        claim_of(adapter().manifest, "teleport")


def test_a_capability_that_degraded_in_mid_session_counts_as_it_is_now() -> None:
    lost = {CAPABILITY: SupportState.UNAVAILABLE}
    found = negotiate(adapter("native"), [asking("required")], lost)
    assert found.outcome is NegotiationOutcome.UNSUPPORTED
    assert (found.outcomes[0].claimed, found.outcomes[0].current) == ("native", "unavailable")
    assert "is unavailable, was native" in found.outcomes[0].reason


def test_an_override_never_makes_more_of_a_claim_than_the_manifest() -> None:
    better = {CAPABILITY: SupportState.NATIVE}
    assert negotiate(adapter("unavailable"), [asking("required")], better).outcome is NegotiationOutcome.UNSUPPORTED


def test_an_optional_capability_is_left_out_silently_unless_it_was_promised_and_lost() -> None:
    never_had = negotiate(adapter("unavailable"), [asking("optional")])
    assert (never_had.outcome, warnings_of(never_had), degradations_of(never_had, 1)) == ("satisfied", (), ())
    lost = negotiate(adapter("native"), [asking("optional")], {CAPABILITY: SupportState.UNAVAILABLE})
    assert lost.outcome is NegotiationOutcome.DEGRADED
    assert [warning.capability for warning in warnings_of(lost)] == [CAPABILITY]


def test_a_warning_goes_with_every_degradation_but_the_optional_ones(subtests: pytest.Subtests) -> None:
    for level, wanted, claimed, outcome in CASES:
        with subtests.test(level=level, wanted=wanted, claimed=claimed, outcome=outcome):
            warnings = warnings_of(negotiated(level, wanted, claimed))
            assert len(warnings) == (1 if outcome == D and level != "optional" else 0)
            assert all(warning.code == "capability_degraded" for warning in warnings)


@pytest.mark.parametrize(
    ("current", "retry"),
    [
        ("partial", RetryClass.RETRY_AFTER_REREAD),
        ("manual", RetryClass.RETRY_AFTER_OPERATOR),
        ("unavailable", RetryClass.RETRY_AFTER_RECONFIGURE),
    ],
)
@pytest.mark.parametrize("claimed", ["native", "synthesized", None], ids=["was native", "was synthesized", "as ever"])
def test_a_degradation_names_what_was_and_what_is_left_and_what_to_do_next(
    current: str, retry: RetryClass, claimed: str | None
) -> None:
    was = claimed or current
    found = negotiate(adapter(was), [asking("preferred", "synthesized")], {CAPABILITY: SupportState(current)})
    (weaker,) = degradations_of(found, 77)
    assert (weaker.capability, weaker.event, weaker.observed_at_epoch_s) == (CAPABILITY, "capability.degraded", 77)
    assert (weaker.previous_support, weaker.current_support, weaker.retry_class) == (was, current, retry)
    assert weaker.evidence


@pytest.mark.parametrize("left", STATES)
def test_a_degradation_never_says_that_something_was_which_never_was(left: str, subtests: pytest.Subtests) -> None:
    for level, wanted, claimed, _ in CASES:
        with subtests.test(level=level, wanted=wanted, claimed=claimed):
            found = negotiate(adapter(claimed), [asking(level, wanted)], {CAPABILITY: SupportState(left)})
            assert {one.previous_support for one in degradations_of(found, 5)} <= {claimed}


def test_a_lost_capability_is_named_with_what_was_promised_even_when_the_dispatch_is_refused() -> None:
    found = negotiate(adapter("native"), [asking("required")], {CAPABILITY: SupportState.MANUAL})
    (lost,) = degradations_of(found, 5)
    assert (found.failure_class, found.retry_class) == ("capability_degraded", "retry_after_reread")
    assert (lost.previous_support, lost.current_support) == ("native", "manual")


@pytest.mark.parametrize("left", STATES)
def test_what_would_have_gone_on_and_cannot_now_is_a_loss_whatever_is_left(
    left: str, subtests: pytest.Subtests
) -> None:
    for level, wanted, claimed, _ in CASES:
        asked = asking(level, wanted)
        with subtests.test(level=level, wanted=wanted, claimed=claimed):
            before = negotiate(adapter(claimed), [asked])
            after = negotiate(adapter(claimed), [asked], {CAPABILITY: SupportState(left)})
            if before.failure_class is None:
                assert after.failure_class in {None, FailureClass.CAPABILITY_DEGRADED}
                assert (after.failure_class is None) is (after.outcome in {S, D})
            else:  # it never could: the support that is left decides, as in the table
                assert after.failure_class in {FailureClass.CAPABILITY_UNSUPPORTED, FailureClass.OPERATOR_REQUIRED}


def test_with_something_that_never_was_there_a_loss_is_no_reason_to_read_again() -> None:
    never = asking("required", of="placement:pre_frame_leading")
    found = negotiate(adapter("native"), [asking("required"), never], {CAPABILITY: SupportState.UNAVAILABLE})
    assert (found.failure_class, found.retry_class) == ("capability_unsupported", "do_not_retry")


def test_the_order_of_strength_is_the_designs() -> None:
    assert sorted(SUPPORT_STRENGTH, key=SUPPORT_STRENGTH.__getitem__, reverse=True) == list(STATES)


def test_the_table_in_the_documentation_is_this_one() -> None:
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (required|preferred|optional) (\w+) \|(.*)\|$", text, re.MULTILINE)
    assert {(level, wanted): tuple(cells.replace(" ", "").split("|")) for level, wanted, cells in rows} == TABLE
