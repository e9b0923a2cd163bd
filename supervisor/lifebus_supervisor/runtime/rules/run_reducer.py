"""The records of a run, reduced to how it stands.  Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from lifebus_contract.flows import OnFailure, OutcomeKind, StepVerdict
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import StepStatus, TryInfo
from lifebus_supervisor.runtime.limits.run_limits import context_after, context_shown
from lifebus_supervisor.runtime.rules.outcome_text import reason_of
from lifebus_supervisor.runtime.run_records import (
    AbortRequested,
    Answered,
    Asked,
    ContextUse,
    CostRecorded,
    Logged,
    PressureChanged,
    ReceiptsEmitted,
    RetryRequested,
    RunAttached,
    RunDetached,
    RunEnded,
    RunRecord,
    RunSubmitted,
    TryEnded,
    TryStarted,
)
from lifebus_supervisor.runtime.run_state import (
    REOPENED,
    Contradiction,
    RunState,
    StepState,
    Want,
    is_retriable,
    start_state,
)

MAX_INTERRUPTIONS: Final = 10
"""After so many interruptions of one series a person is asked: something about the step ends whoever runs it."""

MAX_TRIES_KEPT: Final = 32
"""Most tries of a step that its state describes, the newest ones; all of them are in the records."""

_UNSETTLED: Final = frozenset({StepStatus.RUNNING, StepStatus.BACKING_OFF, StepStatus.ASKING})


def reduce_run(run_id: str, records: Sequence[RunRecord]) -> RunState:
    """Return the state after all of these records, the first one included.

    Raises:
        Contradiction: they are not the records of a run.
    """
    return apply_all(_first(run_id, records), records[1:])


def reduce_each(run_id: str, records: Sequence[RunRecord]) -> list[RunState]:
    """Return the state after each of these records, the first one included.

    Raises:
        Contradiction: they are not the records of a run.
    """
    first = _first(run_id, records)
    return [first, *apply_each(first, records[1:])]


def _first(run_id: str, records: Sequence[RunRecord]) -> RunState:
    if not records or not isinstance(records[0], RunSubmitted):
        raise Contradiction("the first record says what is to be run")
    return start_state(run_id, records[0])


def apply_all(state: RunState, records: Iterable[RunRecord]) -> RunState:
    """Return the state after more records.

    Raises:
        Contradiction: a record cannot follow.
    """
    for record in records:
        state = apply(state, record)
    return state


def apply_each(state: RunState, records: Iterable[RunRecord]) -> list[RunState]:
    """Return the state after each of more records.

    Raises:
        Contradiction: a record cannot follow.
    """
    return [state := apply(state, record) for record in records]


def apply(state: RunState, record: RunRecord) -> RunState:
    """Return the state after one more record.

    Raises:
        Contradiction: it cannot follow those before it.
    """
    state = structs.replace(state, number=state.number + 1)
    if isinstance(record, ReceiptsEmitted):
        # no change of the run itself: how late receipts come says nothing about it
        return structs.replace(state, emitted=max(state.emitted, record.through))
    handler = _HANDLERS.get(type(record))
    if handler is None:
        raise Contradiction("a run is submitted once")
    if not isinstance(record, TryEnded):  # which says itself up to when it counts
        state = structs.replace(state, limits=state.limits.passed_to(record.at_ms))
    return structs.replace(handler(state, record), changed_at_ms=record.at_ms)


def _attached(state: RunState, record: RunAttached) -> RunState:
    again = 1 if state.is_attached else 0
    return structs.replace(state, owner=record.owner, is_attached=True, interruptions=state.interruptions + again)


def _detached(state: RunState, _: RunDetached) -> RunState:
    return structs.replace(state, is_attached=False, interruptions=state.interruptions + 1)


def _aborting(state: RunState, record: AbortRequested) -> RunState:
    return structs.replace(state, aborting=record.reason or f"aborted by {record.by}")


def _started(state: RunState, record: TryStarted) -> RunState:
    step = _step(state, record.step)
    if step.status not in {StepStatus.PENDING, StepStatus.BACKING_OFF} or record.number != step.number + 1:
        raise Contradiction(f"try {record.number} of `{step.definition.step_id}` cannot begin: it is {step.status}")
    one = TryInfo(number=record.number, series=step.series, retry=step.retry, started_at_ms=record.at_ms)
    step = structs.replace(
        step,
        status=StepStatus.RUNNING,
        number=record.number,
        retry_at_ms=None,
        tries=(*step.tries, one)[-MAX_TRIES_KEPT:],
        context=ContextUse(),
        near=(),
    )
    state = structs.replace(state, limits=state.limits.try_started(record.at_ms))
    return _with_step(state, record.step, step)


def _ended(state: RunState, record: TryEnded) -> RunState:
    step = _step(state, record.step)
    if step.status is not StepStatus.RUNNING or record.number != step.number:
        raise Contradiction(f"try {record.number} of `{record.step}` cannot end: it does not run")
    last = structs.replace(
        step.tries[-1],
        ended_at_ms=record.at_ms,
        outcome=record.outcome,
        verdict=record.verdict,
        label=record.label,
        tail=record.tail,
        artifacts=record.artifacts,
        session=record.session,
    )
    step = structs.replace(step, tries=(*step.tries[:-1], last), context=ContextUse(), near=())
    state = structs.replace(state, limits=state.limits.try_ended(record, state.changed_at_ms))
    if record.verdict is StepVerdict.PROCEED:
        return _with_step(state, record.step, structs.replace(step, status=StepStatus.DONE))
    if record.outcome.kind is OutcomeKind.ABORTED:
        return _with_step(state, record.step, structs.replace(step, status=StepStatus.ABORTED))
    if record.outcome.kind is OutcomeKind.INTERRUPTED:
        return _interrupted(state, step)
    if record.retry_at_ms is not None:
        step = structs.replace(
            step, status=StepStatus.BACKING_OFF, retry=step.retry + 1, retry_at_ms=record.retry_at_ms
        )
        return _with_step(state, record.step, step)
    kind = QuestionKind.ALERT if record.verdict is StepVerdict.ALERT else QuestionKind.ESCALATION
    return _failed(state, step, Want(kind, reason_of(record, step.retry)))


def _interrupted(state: RunState, step: StepState) -> RunState:
    """Have the step run again; it is not counted as a retry, because it says nothing about the step."""
    step = structs.replace(step, status=StepStatus.PENDING, interruptions=step.interruptions + 1)
    if step.interruptions < MAX_INTERRUPTIONS:
        return _with_step(state, step.definition.step_id, step)
    # A person is asked whatever the flow says of failures: nobody knows whether the step would fail.
    want = Want(QuestionKind.ESCALATION, f"whoever ran it ended {step.interruptions} times in the middle of it")
    return _with_step(state, step.definition.step_id, structs.replace(step, status=StepStatus.FAILED, want=want))


def _failed(state: RunState, step: StepState, want: Want) -> RunState:
    """Do with a step that failed for good what the flow says."""
    name, how = step.definition.step_id, step.definition.on_failure
    if how is OnFailure.SKIP:
        return _with_step(state, name, structs.replace(step, status=StepStatus.SKIPPED))
    if how is OnFailure.ABORT:
        failing = state.failing or f"`{name}`: {want.reason}"
        return structs.replace(
            _with_step(state, name, structs.replace(step, status=StepStatus.FAILED)), failing=failing
        )
    return _with_step(state, name, structs.replace(step, status=StepStatus.FAILED, want=want))


def _cost_recorded(state: RunState, record: CostRecorded) -> RunState:
    step = _step(state, record.cost.step_id)
    context = context_after(step.context, record.cost) if step.status is StepStatus.RUNNING else step.context
    state = structs.replace(state, limits=state.limits.counted(record.cost))
    return _with_step(state, record.cost.step_id, structs.replace(step, context=context))


def _pressed(state: RunState, record: PressureChanged) -> RunState:
    if record.step is None:
        return structs.replace(state, limits=structs.replace(state.limits, near=record.near))
    step = _step(state, record.step)
    context = step.context if record.context is None else context_shown(step.context, record.context)
    return _with_step(state, record.step, structs.replace(step, near=record.near, context=context))


def _asked(state: RunState, record: Asked) -> RunState:
    if record.step is None:
        limits = structs.replace(state.limits, asked_about=record.about)
        return structs.replace(state, question_id=record.question_id, questions=state.questions + 1, limits=limits)
    step = _step(state, record.step)
    if step.status not in {StepStatus.FAILED, StepStatus.PENDING}:
        raise Contradiction(f"nobody is asked about `{record.step}`: it is {step.status}")
    step = structs.replace(
        step,
        status=StepStatus.ASKING,
        want=None,
        question_id=record.question_id,
        question_kind=record.question_kind,
        asked=record.question_id,
    )
    return _with_step(state, record.step, step)


def _answered(state: RunState, record: Answered) -> RunState:
    if record.action is AnswerAction.ABORT and state.aborting is None:
        state = structs.replace(state, aborting=record.message or f"aborted by {record.responder}")
    if record.step is None:
        if state.question_id != record.question_id:
            raise Contradiction(f"`{record.question_id}` is not open")
        return structs.replace(state, question_id=None, limits=state.limits.answered(record))
    step = _step(state, record.step)
    if step.status is not StepStatus.ASKING or step.question_id != record.question_id:
        raise Contradiction(f"`{record.question_id}` is not open")
    return _with_step(state, record.step, _after_answer(step, record))


def _after_answer(step: StepState, record: Answered) -> StepState:
    is_approval = step.question_kind is QuestionKind.APPROVAL
    step = structs.replace(step, question_id=None, question_kind=None)
    if record.action is AnswerAction.ABORT:
        return structs.replace(step, status=StepStatus.ABORTED)
    if record.action is AnswerAction.MODIFY:
        step = structs.replace(step, modifications={**step.modifications, **record.modifications})
    if is_approval:
        return structs.replace(step, status=StepStatus.PENDING, approved=True)
    if record.action is AnswerAction.PROCEED:
        return structs.replace(step, status=StepStatus.SKIPPED)
    return _fresh_series(step)


def _fresh_series(step: StepState) -> StepState:
    """Return a step that is to be tried again with all of its retries."""
    return structs.replace(
        step,
        status=StepStatus.PENDING,
        series=step.series + 1,
        retry=0,
        interruptions=0,
        retry_at_ms=None,
        want=None,
    )


def _retried(state: RunState, record: RetryRequested) -> RunState:
    step = _step(state, record.step)
    if not is_retriable(state, step):
        raise Contradiction(f"`{record.step}` cannot be tried again: it is {step.status}")
    steps = {**state.steps, record.step: _fresh_series(step)}
    if state.ended is not None:
        # The run goes on, and with it what was stopped or failed beside the step.
        steps = {name: _fresh_series(one) if one.status in REOPENED else one for name, one in steps.items()}
    return structs.replace(state, steps=steps, aborting=None, failing=None, ended=None, ended_at_ms=None, reason="")


def _over(state: RunState, record: RunEnded) -> RunState:
    """End the run: what waits for a person or a time waits no longer."""
    steps = {
        name: structs.replace(step, status=StepStatus.ABORTED, question_id=None, question_kind=None, retry_at_ms=None)
        if step.status in _UNSETTLED
        else step
        for name, step in state.steps.items()
    }
    return structs.replace(
        state,
        steps=steps,
        is_attached=False,
        ended=record.status,
        ended_at_ms=record.at_ms,
        reason=record.reason,
        question_id=None,
    )


def _step(state: RunState, name: str) -> StepState:
    step = state.steps.get(name)
    if step is None:
        raise Contradiction(f"there is no step `{name[:64]}`")
    return step


def _with_step(state: RunState, name: str, step: StepState) -> RunState:
    return structs.replace(state, steps={**state.steps, name: step})


_HANDLERS: Final[Mapping[type, Callable[[RunState, Any], RunState]]] = {
    RunAttached: _attached,
    RunDetached: _detached,
    TryStarted: _started,
    TryEnded: _ended,
    Asked: _asked,
    Answered: _answered,
    RetryRequested: _retried,
    CostRecorded: _cost_recorded,
    PressureChanged: _pressed,
    Logged: lambda state, _: structs.replace(state, logged=state.logged + 1),
    AbortRequested: _aborting,
    RunEnded: _over,
}
