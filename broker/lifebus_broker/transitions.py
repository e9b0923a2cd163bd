"""Changes of capabilities: their direction, what a caller may do next, and what a new manifest changed.  Pure.

A `Degradation` reports a change in either direction: support that comes back is reported in the same form
(docs/contract.md 4.5).
"""

from collections.abc import Iterable
from typing import Final

from lifebus_broker.claims import claim_of
from lifebus_contract import (
    CAPABILITIES,
    SUPPORT_STRENGTH,
    AdapterManifest,
    Degradation,
    FailureClass,
    RetryClass,
    SupportState,
    tighten,
)
from lifebus_contract.failure import RETRY_STRICTNESS

_RETRY: Final = {
    SupportState.MANUAL: RetryClass.RETRY_AFTER_OPERATOR,
    SupportState.UNAVAILABLE: RetryClass.RETRY_AFTER_RECONFIGURE,
}
"""Where a loss asks for more than the default `retry_after_reread`, by the support that is left."""


def is_recovery(change: Degradation) -> bool:
    """Whether the capability became stronger."""
    return SUPPORT_STRENGTH[change.current_support] > SUPPORT_STRENGTH[change.previous_support]


def losses_of(changes: Iterable[Degradation]) -> tuple[Degradation, ...]:
    """Return the changes for the worse, in order."""
    return tuple(change for change in changes if not is_recovery(change))


def retry_after_loss(left: SupportState) -> RetryClass:
    """Return the retry class of a caller that needs a capability of which only this support is left."""
    return tighten(FailureClass.CAPABILITY_DEGRADED, _RETRY.get(left))


def strictest(changes: Iterable[Degradation]) -> RetryClass | None:
    """Return the retry class among the changes that asks most of the caller; None where there are none."""
    return max((change.retry_class for change in changes), key=RETRY_STRICTNESS.__getitem__, default=None)


def transition(
    capability: str, previous: SupportState, current: SupportState, *, at_epoch_s: int, evidence: str
) -> Degradation:
    """Return the report of one change; a recovery may be retried at once, a loss depending on what is left."""
    recovered = SUPPORT_STRENGTH[current] > SUPPORT_STRENGTH[previous]
    return Degradation(
        capability=capability,
        current_support=current,
        event="capability.degraded",  # the contract has no other event, not for a recovery either
        evidence=evidence,
        observed_at_epoch_s=at_epoch_s,
        previous_support=previous,
        retry_class=RetryClass.SAFE_RETRY if recovered else retry_after_loss(current),
    )


def shrinkage(old: AdapterManifest, new: AdapterManifest, *, at_epoch_s: int, evidence: str) -> tuple[Degradation, ...]:
    """Return every capability that the new manifest claims otherwise than the old one, losses and recoveries.

    In alphabetical order; empty when nothing that a client can ask for changed.
    """
    # Sorted, so that the same two manifests always give the same report.
    claims = [(name, claim_of(old, name), claim_of(new, name)) for name in sorted(CAPABILITIES)]
    return tuple(
        transition(name, before, now, at_epoch_s=at_epoch_s, evidence=evidence)
        for name, before, now in claims
        if before is not now
    )
