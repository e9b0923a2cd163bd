"""The receipts of a report of degradations: of the report itself, and of clients that require what was lost.  Pure."""

from typing import Final, Unpack

from msgspec import structs

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.receipts import MAX_WARNINGS, ReceiptHeader, failed, observed
from lifebus_broker.transitions import losses_of, strictest
from lifebus_contract import (
    Degradation,
    Emission,
    FailureClass,
    Negotiation,
    NegotiationOutcome,
    Receipt,
    ReceiptStatus,
    Warning,  # noqa: A004  the contract's own word
    tighten,
)

_FAILING: Final = frozenset({NegotiationOutcome.UNSUPPORTED, NegotiationOutcome.REQUIRES_OPERATOR})


def fact_of(*, emission: Emission, **header: Unpack[ReceiptHeader]) -> Receipt:
    """Return the receipt of reported changes: `degraded` where something got weaker, else `observed`."""
    draft = observed(emission=emission, **header)
    # A report may hold recoveries only; then nothing failed and there is nothing to retry.
    losses = losses_of(emission.degradations)
    if not losses:
        return structs.replace(draft, capability_degradations=emission.degradations)
    return structs.replace(
        draft,
        capability_degradations=emission.degradations,
        failure_class=FailureClass.CAPABILITY_DEGRADED,
        retry_class=tighten(FailureClass.CAPABILITY_DEGRADED, strictest(losses)),
        status=ReceiptStatus.DEGRADED,
    )


def loss_of(
    *, emission: Emission, negotiation: Negotiation, remarks: tuple[Warning, ...] = (), **header: Unpack[ReceiptHeader]
) -> Receipt:
    """Return the receipt of a client that lost what it requires; its degradations are those of the report.

    `negotiation` is the one over its requirements that the report is about; `remarks` join the warnings.
    """
    failing = [found for found in negotiation.outcomes if found.outcome in _FAILING]
    # Only the losses that made this client fail; the report may hold others that it can do without.  What each asks of
    # the caller stands with it: the receipt itself says to read again, as every later refusal does.
    lost = _named(emission, {found.capability for found in failing})
    refusal = Refusal(
        failure_class=FailureClass.CAPABILITY_DEGRADED,
        detail="; ".join(found.reason for found in failing)[:1024],
        code="required_capability_lost",
    )
    draft = failed(emission=emission, refusal=refusal, **header)
    return structs.replace(draft, capability_degradations=lost, warnings=(*draft.warnings, *remarks)[:MAX_WARNINGS])


def _named(emission: Emission, capabilities: set[str]) -> tuple[Degradation, ...]:
    return tuple(change for change in losses_of(emission.degradations) if change.capability in capabilities)
