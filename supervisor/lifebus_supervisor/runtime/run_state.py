"""How a run stands, as its records say.  Pure.

Nothing else decides how a run stands: the owner of a run, the broker after a restart, and a command that takes a run
over reduce the same records to the same state (`rules.run_reducer`; docs/flows.md, "States").  States are immutable,
so that a decision can be tried on records that are not durable yet.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, structs

from lifebus_contract.flows import CodeMap, FlowDefinition, StepDefinition
from lifebus_contract.questions import QuestionKind
from lifebus_contract.runs import RunStatus, StepStatus, TryInfo
from lifebus_supervisor.runtime.limits.budget import Grant
from lifebus_supervisor.runtime.limits.run_limits import RunLimits
from lifebus_supervisor.runtime.run_names import no_step
from lifebus_supervisor.runtime.run_records import ContextUse, RunSubmitted

REOPENED: Final = frozenset({StepStatus.FAILED, StepStatus.ABORTED})
"""Steps that go on with a run that is tried again after its end."""

_FLOWS_SHARED: Final = 64
"""Of so many flows the newest run shares its steps with those before it."""

_ENCODER: Final = msgspec.msgpack.Encoder()

_PENDING: Final = StepStatus.PENDING
_DONE: Final = StepStatus.DONE
_SKIPPED: Final = StepStatus.SKIPPED


class Contradiction(ValueError):
    """A record that cannot follow those before it: a defect of whoever wrote it."""


class Want(Struct, frozen=True):
    """A person has to be asked, and is not yet."""

    kind: QuestionKind
    reason: str


class StepState(Struct, frozen=True, kw_only=True):
    """How a step stands.

    `number` counts its tries, `series` the series of them, `retry` the retries of this series before the next try.
    `interruptions` are those of this series.  A failed step with a `want` waits for a person to be asked.  `asked` is
    the newest question about it, open or not.  `context` says how full the context of the
    try is that runs, `near` which of its limits are near.
    """

    definition: StepDefinition
    status: StepStatus = StepStatus.PENDING
    number: int = 0
    series: int = 1
    retry: int = 0
    interruptions: int = 0
    approved: bool = False
    want: Want | None = None
    question_id: str | None = None
    question_kind: QuestionKind | None = None
    asked: str | None = None
    retry_at_ms: int | None = None
    modifications: dict[str, object] = {}
    tries: tuple[TryInfo, ...] = ()
    context: ContextUse = ContextUse()
    near: tuple[str, ...] = ()

    @property
    def is_begun(self) -> bool:
        """Whether it takes one of the places for steps that are under way, until it is over."""
        status = self.status
        if status is _PENDING:
            return self.number > 0 or self.approved
        return status is not _DONE and status is not _SKIPPED


class RunState(Struct, frozen=True, kw_only=True):
    """How a run stands after its first `number` records.

    `steps` is in the order of the flow.  `aborting` and `failing` say why the run is to end.  `question_id` is an open
    question about the run as a whole: nothing starts meanwhile.  `emitted` is the number up to which every record has
    its receipts.  `logged` counts what clients have had kept in its log.
    """

    run_id: str
    definition: FlowDefinition
    by: str
    number: int
    started_at_ms: int
    changed_at_ms: int
    steps: dict[str, StepState]
    owner: str = ""
    is_attached: bool = False
    interruptions: int = 0
    aborting: str | None = None
    failing: str | None = None
    question_id: str | None = None
    questions: int = 0
    ended: RunStatus | None = None
    ended_at_ms: int | None = None
    reason: str = ""
    emitted: int = 0
    limits: RunLimits = RunLimits()
    logged: int = 0


def start_state(run_id: str, record: RunSubmitted) -> RunState:
    """Return the state after the first record."""
    definition = _shared(record.definition)
    steps = {one.step_id: StepState(definition=one) for one in definition.steps}
    return RunState(
        run_id=run_id,
        definition=definition,
        by=record.by,
        number=1,
        started_at_ms=record.at_ms,
        changed_at_ms=record.at_ms,
        steps=steps,
        limits=RunLimits(grant=Grant(limits=definition.budget)),
    )


def _shared(definition: FlowDefinition) -> FlowDefinition:
    """Return an equal definition whose parts are those of other runs of the same flow: only the roots differ."""
    encoded = _ENCODER.encode((definition.steps, definition.codes))
    parts = _first_parts(_Parts(encoded, definition.steps, definition.codes))
    return structs.replace(definition, steps=parts.steps, codes=parts.codes)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The steps and codes of a flow; those with one encoding are the same."""

    encoded: bytes
    steps: tuple[StepDefinition, ...] = field(compare=False)
    codes: CodeMap = field(compare=False)


@lru_cache(maxsize=_FLOWS_SHARED)
def _first_parts(parts: _Parts) -> _Parts:
    """Return the first ones that were the same as these."""
    return parts


def is_retriable(state: RunState, step: StepState) -> bool:
    """Whether a person may have a step tried again that nobody is asked about."""
    if state.ended is not None:
        return state.ended is not RunStatus.COMPLETED and step.status in REOPENED
    if state.aborting is not None or state.failing is not None:  # what runs is being stopped
        return False
    return step.status in {StepStatus.FAILED, StepStatus.BACKING_OFF}


def open_questions(state: RunState) -> set[str]:
    """Return the questions that are open by a run's own records."""
    found = {step.question_id for step in state.steps.values() if step.question_id is not None}
    return found | ({state.question_id} if state.question_id is not None else set())


def require_step(state: RunState, step_id: str) -> StepState:
    """Return a step that somebody names.

    Raises:
        InvalidRequest: ``no_step``.
    """
    step = state.steps.get(step_id)
    if step is None:
        raise no_step(step_id, state.steps)
    return step
