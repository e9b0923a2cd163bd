"""The types of the Loa runtime contract 1.0.0, field by field.  Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

CONTRACT: Final = "1.0.0"
"""The version of the contract that is spoken."""

Number = Annotated[int, Meta(ge=0)]
"""A whole number, never negative."""


class Decision(Struct, frozen=True, kw_only=True):
    """Something that was decided, and why; `timestamp` is ISO 8601 with a zone."""

    description: str
    reasoning: str
    timestamp: str

    def __post_init__(self) -> None:
        check_timestamp("timestamp", self.timestamp)


class ArtifactRef(Struct, frozen=True, kw_only=True):
    """A file that a phase left; `checksum` is ``algorithm:hex``, or the hex digits of SHA-256."""

    path: str
    size_bytes: Number
    checksum: str
    description: str


class PhaseError(Struct, frozen=True, kw_only=True):
    """Something that went wrong in a phase."""

    message: str
    phase: str
    recoverable: bool


class EscalationContext(Struct, frozen=True, kw_only=True):
    """What a person needs to know to answer."""

    last_decisions: tuple[Decision, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    errors: tuple[PhaseError, ...] = ()


class EscalationRequest(Struct, frozen=True, kw_only=True):
    """What Loa asks a person."""

    reason: str
    phase: str
    context: EscalationContext
    suggested_actions: tuple[str, ...]


class ResponseAction(StrEnum):
    """What a person has decided."""

    PROCEED = "proceed"
    RETRY = "retry"
    ABORT = "abort"
    MODIFY = "modify"


class EscalationResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person answered; `modifications` only where the action is `modify`."""

    responded_at: str
    responder: str
    action: ResponseAction
    message: str
    modifications: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_timestamp("responded_at", self.responded_at)
        if self.modifications is not msgspec.UNSET and self.action is not ResponseAction.MODIFY:
            raise ValueError(f"modifications: only the action `modify` has some, not `{self.action.value}`")


class LoaSignals(Struct, frozen=True, kw_only=True):
    """What is left for a phase; `time_remaining_ms` is null where it has no time limit."""

    context_tokens_available: Number
    context_tokens_used: Number
    time_remaining_ms: Number | None
    retry_count: Number
    max_retries: Number
    is_approaching_limit: bool


class CompactionOptions(Struct, frozen=True, kw_only=True, rename={"preserve_phases": "preservePhases"}):
    """How a context is to be compacted."""

    aggressive: bool
    preserve_phases: tuple[str, ...]


class StandardEvent(StrEnum):
    """The names that every structured log may be expected to have."""

    PHASE_START = "phase_start"
    PHASE_COMPLETE = "phase_complete"
    CHECKPOINT_CREATED = "checkpoint_created"
    ESCALATION_TRIGGERED = "escalation_triggered"
    CONTEXT_COMPACTION = "context_compaction"


class LoaEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of the structured log."""

    event: str
    timestamp: str
    phase: str | msgspec.UnsetType = msgspec.UNSET
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_timestamp("timestamp", self.timestamp)


class Cost(Struct, frozen=True, kw_only=True):
    """What one phase has cost; `estimated_usd` is in US dollars."""

    phase: str
    tokens_input: Number
    tokens_output: Number
    api_calls: Number
    estimated_usd: Annotated[float, Meta(ge=0)]


class LoaCosts(Struct, frozen=True, kw_only=True):
    """What a run has cost in all; calls without a known price are in `unpriced_calls` and in no sum of money."""

    tokens_input: Number
    tokens_output: Number
    api_calls: Number
    estimated_usd: float
    unpriced_calls: Number = 0


def check_timestamp(name: str, text: str) -> None:
    """Refuse what is no time, or one without a zone.

    Raises:
        ValueError: the text is no ISO 8601 time with a zone; the message begins with the name.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    # `fromisoformat` takes any character between date and time, and a space before the zone.
    if time is None or "T" not in text or " " in text:
        raise ValueError(f"{name}: `{text[:64]}` is no ISO 8601 time")
    if time.tzinfo is None:
        raise ValueError(f"{name}: `{text[:64]}` has no zone; write `Z` or an offset")
