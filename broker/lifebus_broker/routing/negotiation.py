"""What an adapter's claims mean for what a client asks (docs/contract.md 4.1).  Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lifebus_broker.claims import count_claim, explain_lack
from lifebus_broker.transitions import retry_after_loss
from lifebus_contract import (
    SUPPORT_STRENGTH,
    CapabilityOutcome,
    CapabilityRequest,
    Degradation,
    FailureClass,
    Negotiation,
    NegotiationOutcome,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    Warning,  # noqa: A004  the contract's own word
    tighten,
)
from lifebus_contract.failure import DEFAULT_RETRY, RETRY_STRICTNESS

_SEVERITY: Final = {
    NegotiationOutcome.SATISFIED: 0,
    NegotiationOutcome.DEGRADED: 1,
    NegotiationOutcome.REQUIRES_OPERATOR: 2,
    NegotiationOutcome.UNSUPPORTED: 3,
}
"""Which outcome is worse; what an operator can repair is better than what nobody can."""

_FAILURE: Final = {
    NegotiationOutcome.REQUIRES_OPERATOR: FailureClass.OPERATOR_REQUIRED,
    NegotiationOutcome.UNSUPPORTED: FailureClass.CAPABILITY_UNSUPPORTED,
}
"""The outcomes that refuse before dispatch, and their failure classes where nothing was lost."""

_NOTHING: Final[Mapping[str, SupportState]] = {}


def failure_of(now: NegotiationOutcome, before: NegotiationOutcome) -> FailureClass | None:
    """Return the failure class of a requirement with this outcome, None where it refuses nothing.

    `before` is the outcome by what was promised.  What would have gone on and cannot now is a loss, whatever is left;
    what could never be had fails by its own outcome (docs/contract.md 4.6).
    """
    failure = _FAILURE.get(now)
    if failure is None or before in _FAILURE:
        return failure
    return FailureClass.CAPABILITY_DEGRADED


def negotiate(
    registered: RegisteredAdapter,
    requests: Sequence[CapabilityRequest],
    overrides: Mapping[str, SupportState] | None = None,
    *,
    previous: Mapping[str, SupportState] | None = None,
) -> Negotiation:
    """Return what the adapter's claims mean for all requests of one client; the worst outcome wins.

    See docs/contract.md 4.1.

    `overrides` holds the present support of capabilities that degraded in mid-session; an override can only
    weaken what the manifest claims.  `previous` holds what a report says was there before, where a new manifest may
    claim it no longer: it counts as promised.
    """
    adapter_id = registered.manifest.adapter_id
    if not requests:
        return Negotiation(
            adapter_id=adapter_id,
            outcome=NegotiationOutcome.SATISFIED,
            outcomes=(),
            failure_class=None,
            retry_class=None,
        )
    outcomes = tuple(_evaluate(registered, request, overrides or _NOTHING) for request in requests)
    failure = _strictest(
        failure_of(found.outcome, _promised(request, found, previous or _NOTHING))
        for request, found in zip(requests, outcomes, strict=True)
    )
    return Negotiation(
        adapter_id=adapter_id,
        outcome=max((found.outcome for found in outcomes), key=_SEVERITY.__getitem__),
        outcomes=outcomes,
        failure_class=failure,
        retry_class=None if failure is None else tighten(failure),
    )


def degradations_of(negotiation: Negotiation, at_epoch_s: int) -> tuple[Degradation, ...]:
    """Return every degraded or lost capability, as receipts carry it: what was claimed, and what is left.

    The two are the same where an adapter never had what was wanted.
    """
    return tuple(
        Degradation(
            capability=found.capability,
            current_support=found.current,
            event="capability.degraded",
            evidence=found.reason,
            observed_at_epoch_s=at_epoch_s,
            previous_support=found.claimed,
            retry_class=retry_after_loss(found.current),
        )
        for found in negotiation.outcomes
        if found.outcome is NegotiationOutcome.DEGRADED
        or (found.outcome is not NegotiationOutcome.SATISFIED and _is_lost(found))
    )


def warnings_of(negotiation: Negotiation) -> tuple[Warning, ...]:
    """Return one warning for each degraded capability; for an optional one only if it was claimed and then lost."""
    return tuple(
        Warning(code="capability_degraded", message=found.reason, capability=found.capability)
        for found in negotiation.outcomes
        if found.outcome is NegotiationOutcome.DEGRADED
        and (found.level is not RequirementLevel.OPTIONAL or _is_lost(found))
    )


def _evaluate(
    registered: RegisteredAdapter, request: CapabilityRequest, overrides: Mapping[str, SupportState]
) -> CapabilityOutcome:
    claimed = count_claim(registered, request.capability)
    # The weaker of the two: no report can give an adapter more than its manifest claims.
    current = min(claimed, overrides.get(request.capability, claimed), key=SUPPORT_STRENGTH.__getitem__)
    outcome = _judge(request, current, lost=current is not claimed)
    lack = explain_lack(registered, request.capability)
    reason = _reason(request, claimed, current, outcome)
    return CapabilityOutcome(
        capability=request.capability,
        level=request.level,
        wanted=request.support,
        claimed=claimed,
        current=current,
        outcome=outcome,
        reason=reason if lack is None else f"{reason}: {lack}",
    )


def _judge(request: CapabilityRequest, current: SupportState, *, lost: bool) -> NegotiationOutcome:
    """Return the outcome of one request; docs/contract.md 4.2 has this as a table."""
    if _suffices(request, current):
        return NegotiationOutcome.SATISFIED
    if request.level is RequirementLevel.REQUIRED:
        if current is SupportState.MANUAL:
            return NegotiationOutcome.REQUIRES_OPERATOR
        if current is SupportState.UNAVAILABLE or request.support is SupportState.NATIVE:
            return NegotiationOutcome.UNSUPPORTED
    # Nothing was promised and nothing required: leaving it out is what an optional request asks for.
    elif request.level is RequirementLevel.OPTIONAL and current is SupportState.UNAVAILABLE and not lost:
        return NegotiationOutcome.SATISFIED
    return NegotiationOutcome.DEGRADED


def _promised(
    request: CapabilityRequest, found: CapabilityOutcome, previous: Mapping[str, SupportState]
) -> NegotiationOutcome:
    """Return the outcome that a request had before anything was lost."""
    support = max(found.claimed, previous.get(request.capability, found.claimed), key=SUPPORT_STRENGTH.__getitem__)
    return _judge(request, support, lost=False)


def _strictest(failures: Iterable[FailureClass | None]) -> FailureClass | None:
    """Return the failure that asks most of the caller: with what never was there, reading again helps nobody."""
    found = [one for one in failures if one is not None]
    return max(found, key=lambda one: RETRY_STRICTNESS[DEFAULT_RETRY[one]], default=None)


def _suffices(request: CapabilityRequest, current: SupportState) -> bool:
    """Whether the support is what was asked for; partial and manual support satisfy only requests for them."""
    accepts_partial = request.accept_partial or request.support is SupportState.PARTIAL
    if current is SupportState.PARTIAL:
        return accepts_partial
    if current in {SupportState.MANUAL, SupportState.UNAVAILABLE}:
        return current is request.support
    return accepts_partial or SUPPORT_STRENGTH[current] >= SUPPORT_STRENGTH[request.support]


def _is_lost(found: CapabilityOutcome) -> bool:
    return found.current is not found.claimed


def _reason(
    request: CapabilityRequest, claimed: SupportState, current: SupportState, outcome: NegotiationOutcome
) -> str:
    """Return in one line what was asked for, what there is, and what follows."""
    if outcome is NegotiationOutcome.SATISFIED and current is SupportState.UNAVAILABLE:
        return f"{request.capability}: optional and unavailable: left out"
    asked = f"{request.capability}: {request.level} as {request.support}"
    have = f"is {current}" if current is claimed else f"is {current}, was {claimed}"
    unaccepted = current is SupportState.PARTIAL and outcome is not NegotiationOutcome.SATISFIED
    return f"{asked}, {have}{', which was not accepted' if unaccepted else ''}"
