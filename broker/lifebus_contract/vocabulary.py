"""Every closed vocabulary of the lifecycle contract, spelled as it is on the wire."""

from enum import StrEnum
from typing import Final

CONTRACT_VERSION: Final = "lifeloop.v0.2"
"""The contract this package speaks (docs/contract.md 1.1)."""

FLOW_ADAPTER: Final = "flow"
"""The adapter under which runs of flows are sessions and tries are frames (docs/flows.md)."""


class LifecycleEvent(StrEnum):
    """The 14 lifecycle events (docs/contract.md 2.1)."""

    SESSION_STARTING = "session.starting"
    SESSION_STARTED = "session.started"
    FRAME_OPENING = "frame.opening"
    FRAME_OPENED = "frame.opened"
    CONTEXT_PRESSURE_OBSERVED = "context.pressure_observed"
    CONTEXT_COMPACTED = "context.compacted"
    FRAME_ENDING = "frame.ending"
    FRAME_ENDED = "frame.ended"
    SESSION_ENDING = "session.ending"
    SESSION_ENDED = "session.ended"
    SUPERVISOR_TICK = "supervisor.tick"
    CAPABILITY_DEGRADED = "capability.degraded"
    RECEIPT_EMITTED = "receipt.emitted"
    RECEIPT_GAP_DETECTED = "receipt.gap_detected"


class IntegrationMode(StrEnum):
    """How an adapter is wired to its harness (docs/contract.md 2.3)."""

    MANUAL_SKILL = "manual_skill"
    LAUNCHER_WRAPPER = "launcher_wrapper"
    NATIVE_HOOK = "native_hook"
    REFERENCE_ADAPTER = "reference_adapter"
    TELEMETRY_ONLY = "telemetry_only"


class AdapterRole(StrEnum):
    """The single role a manifest claims (docs/contract.md 3.2)."""

    PRIMARY_WORKER = "primary_worker"
    WORKER = "worker"
    SUPERVISOR = "supervisor"
    OBSERVER = "observer"


class SupportState(StrEnum):
    """How strongly an adapter satisfies a claim (docs/contract.md 3.3)."""

    NATIVE = "native"
    SYNTHESIZED = "synthesized"
    PARTIAL = "partial"
    MANUAL = "manual"
    UNAVAILABLE = "unavailable"


class PlacementClass(StrEnum):
    """Where a payload asks to land (docs/contract.md 5.4)."""

    DEVELOPER_EQUIVALENT_FRAME = "developer_equivalent_frame"
    PRE_PROMPT_FRAME = "pre_prompt_frame"
    SIDE_CHANNEL_CONTEXT = "side_channel_context"
    RECEIPT_ONLY = "receipt_only"


class ManifestPlacementClass(StrEnum):
    """Where an adapter accepts payloads (docs/contract.md 3.4)."""

    PRE_SESSION = "pre_session"
    PRE_FRAME_LEADING = "pre_frame_leading"
    PRE_FRAME_TRAILING = "pre_frame_trailing"
    TOOL_RESULT = "tool_result"
    MANUAL_OPERATOR = "manual_operator"


class RequirementLevel(StrEnum):
    """How much a client needs a capability (docs/contract.md 4.1)."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    OPTIONAL = "optional"


class NegotiationOutcome(StrEnum):
    """What negotiation found (docs/contract.md 4.1)."""

    SATISFIED = "satisfied"
    DEGRADED = "degraded"
    UNSUPPORTED = "unsupported"
    REQUIRES_OPERATOR = "requires_operator"


class ReceiptStatus(StrEnum):
    """What became of an operation or a payload (docs/contract.md 6.2)."""

    OBSERVED = "observed"
    """It happened, and nothing had to be done."""
    DELIVERED = "delivered"
    """It was placed as was asked."""
    SKIPPED = "skipped"
    """It was left out, and that is no failure."""
    DEGRADED = "degraded"
    """It was done in a weaker way, or the capability is weaker now."""
    FAILED = "failed"
    """It could not be done; `failure_class` says why."""


class FrameClass(StrEnum):
    """Whether a frame stands alone or inside another (docs/contract.md 2.2)."""

    TOP_LEVEL = "top_level"
    SUBCALL = "subcall"


class ConformanceLevel(StrEnum):
    """Whether every claim of a manifest is proven by a test (docs/contract.md 3.6)."""

    V1 = "v1"
    PRE_CONFORMANCE = "pre_conformance"


class PressureLevel(StrEnum):
    """The observed fill of a context window (docs/contract.md 2.5)."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"
    CRITICAL = "critical"


# Derived, so that a new event needs one line above and nothing here.
EVENT_NAMES: Final = tuple(event.value for event in LifecycleEvent)
"""The 14 event names in the order of docs/contract.md 2.1."""

SERVABLE_EVENTS: Final = tuple(event for event in LifecycleEvent if event is not LifecycleEvent.RECEIPT_EMITTED)
"""The events that callback clients are asked about: all but the one that announces receipts (docs/contract.md 2.1)."""

UNSERVABLE: Final = (
    "events: nobody is asked about `receipt.emitted`; follow the receipts instead, with `lifebus tail`,"
    " `bus.receipts()` or the verb `subscribe` of `lifebus dev stdio`"
)
"""What a registration for the other one is refused with."""

FRAME_EVENTS: Final = frozenset(event for event in LifecycleEvent if event.value.startswith("frame."))
"""Events that need a frame context (docs/contract.md 2.2)."""

SESSION_EVENTS: Final = frozenset(event for event in LifecycleEvent if event.value.startswith("session."))
"""Events that describe a top-level harness lifecycle."""

# Manual is weaker than partial: it needs a person each time.
SUPPORT_STRENGTH: Final = {
    SupportState.UNAVAILABLE: 0,
    SupportState.MANUAL: 1,
    SupportState.PARTIAL: 2,
    SupportState.SYNTHESIZED: 3,
    SupportState.NATIVE: 4,
}
"""Order of strength, native strongest (docs/contract.md 3.3)."""
