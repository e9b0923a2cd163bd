"""What clients ask of an adapter and what negotiation answers."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta

from lifebus_contract.failure import FailureClass, RetryClass
from lifebus_contract.fields import Count, Detail, Document, Identifier
from lifebus_contract.vocabulary import (
    EVENT_NAMES,
    ManifestPlacementClass,
    NegotiationOutcome,
    RequirementLevel,
    SupportState,
)

CAPABILITIES: Final = frozenset(
    {
        *(f"event:{name}" for name in EVENT_NAMES),
        *(f"placement:{name.value}" for name in ManifestPlacementClass),
        "context_pressure",
        "native_receipts",
        "lifeloop_synthesized_receipts",
        "receipt_ledger",
        "harness_session_id",
        "harness_run_id",
        "harness_task_id",
        "session_rename",
        "approval_surface",
        "renewal.reset.native",
        "renewal.reset.wrapper_mediated",
        "renewal.reset.manual",
        "renewal.continuation.observation",
        "renewal.continuation.payload_delivery",
    }
)
"""Every capability a client can ask for, one per claim of a manifest (docs/contract.md 3.1)."""


class TrustMode(StrEnum):
    """What is done about capabilities that are not declared."""

    DISABLED = "disabled"
    WARN = "warn"
    ENFORCED = "enforced"
    """Also, only contents are loaded whose hash `lifebus extensions trust` recorded."""


class CapabilityRequest(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One capability a client wants, how much, and how strong (docs/contract.md 4.1).

    `support` is the weakest support that satisfies; `accept_partial` says that partial support will do
    (docs/contract.md 4.2).
    """

    capability: Identifier  # such as `event:frame.opening` or `context_pressure`
    level: RequirementLevel  # whether it is refused without it
    support: SupportState = SupportState.SYNTHESIZED
    accept_partial: bool = False

    # Not `Literal` types: the message names the capability, which a decoder's own would not.
    def __post_init__(self) -> None:
        if self.capability not in CAPABILITIES:
            raise ValueError(f"capability: `{self.capability[:64]}` is not a capability of the contract")
        if self.support is SupportState.UNAVAILABLE:
            raise ValueError("support: `unavailable` cannot be asked for")


class Degradation(Document, frozen=True, kw_only=True):
    """A capability that is weaker than it was (docs/contract.md 4.5)."""

    capability: Identifier
    current_support: SupportState
    event: Literal["capability.degraded"]
    evidence: Detail  # how it was noticed
    observed_at_epoch_s: Count
    previous_support: SupportState
    retry_class: RetryClass


class CapabilityOutcome(Document, frozen=True, kw_only=True):
    """What negotiation found for one request: what the manifest claims, what holds now, and what follows.

    `current` is weaker than `claimed` where the capability degraded in mid-session.
    """

    capability: Identifier
    level: RequirementLevel
    wanted: SupportState  # the weakest support that the request accepts
    claimed: SupportState  # by the manifest, within the enabled profiles
    current: SupportState  # never stronger than claimed
    outcome: NegotiationOutcome
    reason: Detail


class Negotiation(Document, frozen=True, kw_only=True):
    """The result for all requests of one client: the worst outcome, and every single one (docs/contract.md 4.1)."""

    adapter_id: Identifier
    outcome: NegotiationOutcome
    outcomes: Annotated[tuple[CapabilityOutcome, ...], Meta(max_length=64)]
    failure_class: FailureClass | None  # None unless a required capability cannot be had
    retry_class: RetryClass | None
