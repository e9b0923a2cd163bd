"""What comes in for a run from outside, as records.  Pure."""

from collections.abc import Sequence

from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import RunStatus, StepStatus
from lifebus_supervisor.runtime.rules.decisions import attach, detach
from lifebus_supervisor.runtime.rules.run_reducer import apply_all
from lifebus_supervisor.runtime.run_records import (
    BROKER,
    AbortRequested,
    Answered,
    Asked,
    RetryRequested,
    RunAttached,
    RunEnded,
    RunRecord,
)
from lifebus_supervisor.runtime.run_state import Contradiction, RunState, is_retriable, open_questions


def attached(owner: str, by: str, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the records of an owner that takes a run over; nothing where it runs it already."""
    if state.is_attached and state.owner == owner:
        return ()
    return attach(state, owner, by, now_ms)


def recovered(state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the records of a broker that goes on with its run after a restart."""
    return attach(state, BROKER, "recovery", now_ms)


def aborted(by: str, reason: str, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the records of a request to end a run; nothing where it ends already."""
    if state.ended is not None or state.aborting is not None:
        return ()
    asked = AbortRequested(at_ms=now_ms, by=by, reason=reason)
    if state.is_attached:
        return (asked,)
    # Nobody runs it who could stop it.
    return (asked, RunEnded(at_ms=now_ms, status=RunStatus.ABORTED, reason=reason or f"aborted by {by}"))


def retried(step_id: str, by: str, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the records of a fresh series of a step; a run that had failed goes on by it.

    Raises:
        StateConflict: ``not_retriable``.
    """
    step = state.steps[step_id]
    if not is_retriable(state, step):
        raise not_retriable(step_id, step.status)
    asked = RetryRequested(at_ms=now_ms, step=step_id, by=by)
    return (asked,) if state.ended is None else (asked, RunAttached(at_ms=now_ms, owner=BROKER, by=by))


def not_retriable(step_id: str, status: StepStatus) -> StateConflict:
    """Return why a step is not tried again."""
    return StateConflict(
        f"`{step_id[:64]}` is {status.value.replace('_', ' ')}: it cannot be tried again", code="not_retriable"
    )


def answered(info: QuestionInfo, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the record by which a run takes an answer; nothing where it took it already, or waits no more."""
    question, answer = info.question, info.answer
    if answer is None or state.ended is not None or question.question_id not in open_questions(state):
        return ()
    return (
        Answered(
            at_ms=now_ms,
            step=question.step_id,
            question_id=question.question_id,
            question_kind=question.kind,
            action=answer.action,
            responder=answer.responder,
            message=answer.message,
            modifications=dict(answer.modifications),
        ),
    )


def owner_gone(owner: str, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    """Return the records of a run whose owner is gone; nothing where another one runs it."""
    if not state.is_attached or state.owner != owner:
        return ()
    return detach(state, f"`{owner}` is gone", now_ms)


def checked(state: RunState, records: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Return records of another owner as they are.

    Raises:
        InvalidRequest: ``unrecordable``: they cannot follow, or something stands behind a question.
    """
    if any(isinstance(one, Asked) for one in records[:-1]):
        raise InvalidRequest("a question ends an append", code="unrecordable")
    try:
        apply_all(state, records)
    except Contradiction as fault:
        raise InvalidRequest(str(fault), code="unrecordable") from fault
    return records
