"""What is recorded of a run: everything that happens to it, before it is acted on or told.  Pure.

The records of a run are one stream of the journal, in the order in which they were made; `run_state` reduces them.
Each is one MessagePack map with its kind under ``kind``; a kind or field that this program does not know is an error,
because a run that is understood in part would skip steps.
"""

from typing import Final

import msgspec
from msgspec import Struct

from lifebus_contract.flows import FlowDefinition, Outcome, StepVerdict
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import Artifact, ContextSignals, CostRecord, LogEvent, RunStatus

BROKER: Final = "broker"
"""The owner of a run that the broker runs."""

STREAM: Final = "run/"
"""What the names of the streams begin with; the run's id follows."""


class _Record(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every record has: when it was made, in milliseconds since the epoch."""

    at_ms: int


class RunSubmitted(_Record, frozen=True, kw_only=True, tag="submitted"):
    """The first record: what is to be run.  `by` says who asked for it."""

    definition: FlowDefinition
    by: str


class RunAttached(_Record, frozen=True, kw_only=True, tag="attached"):
    """An owner runs it from here on: for the first time, or again after whoever ran it was gone."""

    owner: str
    by: str = ""


class RunDetached(_Record, frozen=True, kw_only=True, tag="detached"):
    """Whoever ran it is gone; tries that have no end are interrupted."""

    reason: str = ""


class ContextUse(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How full a step's context is, in tokens, each with where the number comes from; None where it is unknown.

    `call` is what the newest call held that was counted behind telemetry, 0 for none; it is never written.
    """

    used: int | None = None
    used_source: str = ""
    window: int | None = None
    window_source: str = ""
    call: int = 0


class TryStarted(_Record, frozen=True, kw_only=True, tag="try_started"):
    """A try is about to begin; durable before its process starts.  `number` counts all tries of the step from 1.

    `signals` is what the step is told of what is left for it.
    """

    step: str
    number: int
    signals: ContextSignals | None = None


class TryEnded(_Record, frozen=True, kw_only=True, tag="try_ended"):
    """A try has ended, and what follows by the rules of the flow.

    `verdict` is None where the outcome says nothing about the step.  `retry_at_ms` is when the next try of the series
    is due, None where there is none.  `unknown_code` marks a code that no rule names.  `tail` is the end of what it
    wrote, redacted; the byte counts are those of its whole output, `output_fault` says why not all of it could be kept.
    """

    step: str
    number: int
    outcome: Outcome
    verdict: StepVerdict | None = None
    label: str | None = None
    unknown_code: bool = False
    retry_at_ms: int | None = None
    duration_ms: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    left_processes: int = 0
    tail: str = ""
    output_fault: str = ""
    artifacts: tuple[Artifact, ...] = ()
    session: tuple[str, str] | None = None


class CostRecorded(_Record, frozen=True, kw_only=True, tag="cost"):
    """Calls to a model are counted; of several records with one key the last one counts."""

    cost: CostRecord


class PressureChanged(_Record, frozen=True, kw_only=True, tag="pressure"):
    """A step, or without one the budget of the run, has come near its limits; or, with none of them, has left them.

    `context` is what telemetry has shown of the step's context, where that is the reason.
    """

    step: str | None = None
    near: tuple[str, ...] = ()
    context: ContextUse | None = None


class Logged(_Record, frozen=True, kw_only=True, tag="logged"):
    """A client has something kept in the log of the run."""

    event: LogEvent


class Asked(_Record, frozen=True, kw_only=True, tag="asked"):
    """A person is asked; written in one append with the question.  `step` is None where the run as a whole waits.

    `about` are the parts of the budget that a question about the run is about.
    """

    step: str | None
    question_id: str
    question_kind: QuestionKind
    reason: str = ""
    about: tuple[str, ...] = ()


class Answered(_Record, frozen=True, kw_only=True, tag="answered"):
    """The run takes an answer that the inbox has; nothing was acted on before."""

    step: str | None
    question_id: str
    question_kind: QuestionKind = QuestionKind.ESCALATION
    action: AnswerAction
    responder: str
    message: str = ""
    modifications: dict[str, object] = {}


class RetryRequested(_Record, frozen=True, kw_only=True, tag="retry_requested"):
    """A person wants a step tried again without having been asked: a fresh series."""

    step: str
    by: str


class AbortRequested(_Record, frozen=True, kw_only=True, tag="abort_requested"):
    """The run is to end: what runs is stopped first."""

    by: str
    reason: str = ""


class RunEnded(_Record, frozen=True, kw_only=True, tag="ended"):
    """Nothing runs any more, and nothing follows."""

    status: RunStatus
    reason: str = ""


class ReceiptsEmitted(_Record, frozen=True, kw_only=True, tag="receipts_emitted"):
    """The receipts of all records up to a number are durable; later ones may be, and are emitted again."""

    through: int


RunRecord = (
    RunSubmitted
    | RunAttached
    | RunDetached
    | TryStarted
    | TryEnded
    | CostRecorded
    | PressureChanged
    | Logged
    | Asked
    | Answered
    | RetryRequested
    | AbortRequested
    | RunEnded
    | ReceiptsEmitted
)
"""A record of a run."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[RunRecord]] = msgspec.msgpack.Decoder(RunRecord)


def encode_record(record: RunRecord) -> bytes:
    """Return the body of a record."""
    return _ENCODER.encode(record)


def decode_record(body: bytes) -> RunRecord:
    """Return the record that a body holds.

    Raises:
        msgspec.DecodeError: it is no record that this program knows.
    """
    return _DECODER.decode(body)


def run_stream(run_id: str) -> str:
    """Return the stream of the journal that holds a run's records."""
    return STREAM + run_id
