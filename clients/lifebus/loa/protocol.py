"""What stands on the lines between a runtime and who asks it (docs/runtime-conformance.md, "The protocol").  Pure.

Where the contract has a name for something, the protocol has the same.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from lifebus.loa.types import (
    CompactionOptions,
    Cost,
    EscalationRequest,
    EscalationResponse,
    LoaEvent,
    ResponseAction,
)

MAX_LINE: Final = 1_048_576
"""Longest line of either side, in bytes."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Wait = Annotated[int, Meta(ge=0, le=30_000)]


class Capability(StrEnum):
    """What a runtime may leave out, by the contract's own headings."""

    EXTENDED_EXIT_CODES = "extended_exit_codes"
    CONTEXT_COMPACTION = "context_compaction"
    STRUCTURED_LOGGING = "structured_logging"
    COST_TRACKING = "cost_tracking"


class LoaRunState(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    WAITING = "waiting"
    """Nothing runs until a person answers."""
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def is_over(self) -> bool:
        """Whether nothing follows any more."""
        return self in (LoaRunState.COMPLETED, LoaRunState.FAILED, LoaRunState.ABORTED)


class Fault(StrEnum):
    """Why a request was not done."""

    UNSUPPORTED = "unsupported"
    """The runtime has no such method."""
    INVALID = "invalid"
    """The request, or what it holds, is against the contract."""
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    """It is not allowed: a path that leaves the project root, a second answer."""
    FAILED = "failed"


class RuntimeFault(Exception):
    """A request that was not done: why, and in words."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Phase(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One phase of a run: a program, and how often and how long it may be tried."""

    phase: Name
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    max_retries: Annotated[int, Meta(ge=0, le=1_000)] = 3
    time_limit_ms: Annotated[int, Meta(ge=1)] | None = None
    modifiable: tuple[Name, ...] = ()
    """What an answer may modify; the values are variables of the environment of the next try."""


class Initialize(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first request: `root` is the project, `state` a folder that outlives the runtime."""

    contract: str
    root: str
    state: str


class Initialized(Struct, frozen=True, kw_only=True):
    """Who the runtime is, and which optional capabilities it has."""

    name: str
    version: str
    contract: str
    capabilities: tuple[Capability, ...] = ()


class StartRun(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Run phases one after the other.

    `retry_pause_ms`, `context_tokens` and `near_limit_percent` are wishes that a runtime may leave aside.
    With `from_checkpoint` the run goes on after the phase of that checkpoint.
    """

    run_id: Name
    phases: Annotated[tuple[Phase, ...], Meta(min_length=1, max_length=256)]
    retry_pause_ms: int | None = None
    context_tokens: int | None = None
    near_limit_percent: Annotated[int, Meta(ge=1, le=100)] | None = None
    from_checkpoint: str | None = None


class RunRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request about a run."""

    run_id: Name


class WaitRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer when the run waits for a person or is over, or when the time is up."""

    run_id: Name
    wait_ms: Wait


class RunReport(Struct, frozen=True, kw_only=True):
    """How a run stands."""

    status: LoaRunState


class PhaseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request about a phase of a run."""

    run_id: Name
    phase: Name


class Persist(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep a checkpoint."""

    checkpoint: dict[str, Any]


class Persisted(Struct, frozen=True, kw_only=True):
    """The name under which a checkpoint is kept."""

    checkpoint_id: str


class Restore(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ask for a checkpoint by its id, or for the newest of a phase."""

    checkpoint_id: str | None = None
    phase: str | None = None

    def __post_init__(self) -> None:
        if (self.checkpoint_id is None) is (self.phase is None):
            raise ValueError("restore: give either `checkpoint_id` or `phase`")


class Restored(Struct, frozen=True, kw_only=True):
    """The checkpoint; null where there is none."""

    checkpoint: dict[str, Any] | None


class Escalated(Struct, frozen=True, kw_only=True):
    """The name under which an escalation is answered."""

    escalation_id: str


class AwaitResponse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer when a person has answered, or when the time is up."""

    escalation_id: Name
    wait_ms: Wait


class Responded(Struct, frozen=True, kw_only=True):
    """What a person answered; null while nobody has."""

    response: EscalationResponse | None


class Respond(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person answers."""

    escalation_id: Name
    response: EscalationResponse


class EscalationEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An escalation as it is brought to the person at the other end; `text` is what is shown."""

    escalation_id: Name
    request: EscalationRequest
    text: str
    run_id: str | None = None
    actions: tuple[ResponseAction, ...] = tuple(ResponseAction)


class PathRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request about a path below the project root."""

    path: str


class FileWrite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write a file below the project root."""

    path: str
    content: str


class ListFolder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List a folder below the project root."""

    directory: str


class FileContent(Struct, frozen=True, kw_only=True):
    """What a file holds."""

    content: str


class Existence(Struct, frozen=True, kw_only=True):
    """Whether something is there."""

    exists: bool


class Listing(Struct, frozen=True, kw_only=True):
    """The names in a folder."""

    entries: tuple[str, ...]


class TokenEstimate(Struct, frozen=True, kw_only=True):
    """How many tokens a phase's context has about now."""

    tokens: Annotated[int, Meta(ge=0)]


class RunLog(Struct, frozen=True, kw_only=True):
    """The events of a run's log, the oldest first."""

    events: tuple[LoaEvent, ...]


class Compact(CompactionOptions, frozen=True, kw_only=True):
    """Compact the context of a run's phase; the runtime says for which phases it did."""

    run_id: Name


class CompactedPhases(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The phases whose contexts were compacted; with none of them, why."""

    phases: tuple[str, ...]
    reason: str = ""


class LogRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep an event of a run's log."""

    run_id: Name
    event: LoaEvent


class RecordCost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Count what a phase has cost."""

    run_id: Name
    cost: Cost


class RuntimeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line that a runtime reads."""

    id: int | str
    method: str
    params: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))


class FaultInfo(Struct, frozen=True, kw_only=True):
    """Why a request was not done."""

    code: Fault
    message: str


class RuntimeLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that a runtime writes: an answer has an `id`, an event has its name."""

    id: int | str | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    error: FaultInfo | UnsetType = UNSET
    event: str | UnsetType = UNSET
    params: msgspec.Raw | UnsetType = UNSET


ESCALATION: Final = "escalation"
"""The name of the event by which an escalation reaches the person at the other end."""

METHODS: Final[dict[str, type[Struct]]] = {
    "initialize": Initialize,
    "run": StartRun,
    "wait": WaitRun,
    "resume": RunRequest,
    "abort": RunRequest,
    "signals": PhaseRequest,
    "persist": Persist,
    "restore": Restore,
    "escalate": EscalationRequest,
    "response": AwaitResponse,
    "respond": Respond,
    "read": PathRequest,
    "write": FileWrite,
    "exists": PathRequest,
    "list": ListFolder,
    "delete": PathRequest,
    "estimateTokens": PhaseRequest,
    "compact": Compact,
    "log": LogRequest,
    "logs": RunRequest,
    "recordCost": RecordCost,
    "getTotalCost": RunRequest,
}
"""Every method, and what its `params` are."""


def decode_params(method: str, params: msgspec.Raw) -> Struct:
    """Return what a request holds.

    Raises:
        RuntimeFault: there is no such method, or its params are against the contract.
    """
    kind = METHODS.get(method)
    if kind is None:
        raise RuntimeFault(Fault.UNSUPPORTED, f"no method `{method[:64]}`")
    try:
        return msgspec.json.decode(params, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as fault:
        raise RuntimeFault(Fault.INVALID, f"{method}: {fault}") from fault


def encode_line(line: Struct) -> bytes:
    """Return a message as one line of JSON with its newline."""
    return msgspec.json.encode(line) + b"\n"


def encode_result(request_id: int | str, result: object) -> bytes:
    """Return the line of an answer."""
    return encode_line(RuntimeLine(id=request_id, result=msgspec.Raw(msgspec.json.encode(result))))


def encode_fault(request_id: int | str, fault: RuntimeFault) -> bytes:
    """Return the line of a request that was not done."""
    return encode_line(RuntimeLine(id=request_id, error=FaultInfo(code=fault.fault, message=str(fault)[:1_024])))


def encode_event(name: str, params: Struct) -> bytes:
    """Return the line of an event."""
    return encode_line(RuntimeLine(event=name, params=msgspec.Raw(msgspec.json.encode(params))))
