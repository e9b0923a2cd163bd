"""What a person is asked about a run.  Pure."""

from typing import Any, Final

from lifebus_contract.questions import AnswerAction, Modifiable, Question, QuestionKind
from lifebus_contract.runs import TryInfo
from lifebus_supervisor.runtime.limits.budget import modifiable
from lifebus_supervisor.runtime.rules.outcome_text import describe_outcome
from lifebus_supervisor.runtime.run_records import Asked
from lifebus_supervisor.runtime.run_state import RunState, StepState

_TITLE: Final = 256
_REASON: Final = 1_024
_TRIES_TOLD: Final = 8

_TITLES: Final = {
    QuestionKind.ESCALATION: "{step} of {flow} cannot go on",
    QuestionKind.ALERT: "{step} of {flow} cannot be started",
    QuestionKind.APPROVAL: "May {step} of {flow} begin?",
    QuestionKind.BUDGET: "{flow} reaches the limit of its budget",
}


def question_of(state: RunState, record: Asked) -> Question:
    """Return the question that goes with a record; `state` is the one after it."""
    definition = state.definition
    step = None if record.step is None else state.steps[record.step]
    title = _TITLES[record.question_kind].format(step=f"`{record.step}`", flow=definition.name)
    return Question(
        question_id=record.question_id,
        kind=record.question_kind,
        client_id=definition.client_id,
        run_id=state.run_id,
        step_id=record.step,
        title=title[:_TITLE],
        reason=_reason(step, record)[:_REASON],
        context=_context(state, step),
        suggested_actions=() if step is None else step.definition.suggested_actions,
        actions=_actions(step, record.question_kind),
        modifiable=_modifiable(state, step, record.question_kind),
        asked_at_ms=record.at_ms,
    )


def _reason(step: StepState | None, record: Asked) -> str:
    own = None if step is None or record.question_kind is QuestionKind.APPROVAL else step.definition.question
    return record.reason if own is None else f"{own} ({record.reason})"


def _modifiable(state: RunState, step: StepState | None, kind: QuestionKind) -> tuple[Modifiable, ...]:
    if step is None:
        return modifiable(state.limits.grant) if kind is QuestionKind.BUDGET else ()
    return step.definition.modifiable


def _actions(step: StepState | None, kind: QuestionKind) -> tuple[AnswerAction, ...]:
    """Return the answers that make sense: what has not begun cannot be tried again."""
    actions = [AnswerAction.PROCEED, AnswerAction.ABORT]
    if step is not None and kind in {QuestionKind.ESCALATION, QuestionKind.ALERT}:
        actions.insert(1, AnswerAction.RETRY)
    if kind is QuestionKind.BUDGET or (step is not None and step.definition.modifiable):
        actions.append(AnswerAction.MODIFY)
    return tuple(actions)


def _context(state: RunState, step: StepState | None) -> dict[str, Any]:
    context: dict[str, Any] = {"root": state.definition.root}
    if step is not None and step.tries:
        context["tries"] = [_try_context(one) for one in step.tries[-_TRIES_TOLD:]]
    return context


def _try_context(one: TryInfo) -> dict[str, Any]:
    said: dict[str, Any] = {"number": one.number}
    if one.outcome is not None:
        said["outcome"] = describe_outcome(one.outcome, one.label)
    if one.tail:
        said["stderr"] = one.tail
    return said
