"""The fold over reports of degradations: which capabilities are weaker than their adapter claims, and where.

A scope is one session of an adapter, or with a session of None the adapter as a whole.  Only what the reporter said
counts: clients' receipts of the same report repeat it, and may come late.
No clock, no randomness, no iteration order: the same receipts always give the same state.

Above: the table of capabilities, boot.  Below: the contract and the ports.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lifebus_broker.ports import EMITTER
from lifebus_contract import CAPABILITIES, SUPPORT_STRENGTH, Degradation, LifecycleEvent, Receipt, SupportState

__all__ = ["UNHARMED", "Claimed", "Losses", "Scope", "ends_session", "fold_degradations", "reported", "weaken"]

Scope = tuple[str, str | None]
"""An adapter id, and a session id or None for all its sessions."""

Losses = Mapping[str, SupportState]
"""The present support of each capability that is weaker than claimed."""

Claimed = Callable[[str, str], SupportState]
"""What an adapter claims for a capability: (adapter id, capability)."""

UNHARMED: Final[Losses] = {}
"""The state of a scope that lost nothing."""


def reported(receipt: Receipt) -> tuple[Degradation, ...]:
    """Return the changes that a receipt records as a fact: those of the reporter, not of a client that was told."""
    if receipt.event is not LifecycleEvent.CAPABILITY_DEGRADED or EMITTER in receipt.telemetry_summary:
        return ()
    return receipt.capability_degradations


def ends_session(receipt: Receipt) -> bool:
    """Whether nothing of what the receipt's session lost matters any more."""
    return receipt.event is LifecycleEvent.SESSION_ENDED and receipt.harness_session_id is not None


def weaken(losses: Losses, changes: Iterable[Degradation], adapter_id: str, claimed: Claimed) -> Losses:
    """Return what is lost after the changes; who is back at its claim, or above it, is lost no more."""
    after = dict(losses)
    for change in changes:
        if change.capability not in CAPABILITIES:
            continue  # nobody can ask for it
        after.pop(change.capability, None)
        now = change.current_support
        if SUPPORT_STRENGTH[now] < SUPPORT_STRENGTH[claimed(adapter_id, change.capability)]:
            after[change.capability] = now
    return after


def fold_degradations(receipts: Iterable[Receipt], claimed: Claimed) -> dict[Scope, Losses]:
    """Return the losses of every scope that has some, from receipts in position order."""
    state: dict[Scope, Losses] = {}
    for receipt in receipts:
        scope = (receipt.adapter_id, receipt.harness_session_id)
        if ends_session(receipt):
            state.pop(scope, None)
        elif changes := reported(receipt):
            losses = weaken(state.pop(scope, UNHARMED), changes, receipt.adapter_id, claimed)
            if losses:
                state[scope] = losses
    return state
