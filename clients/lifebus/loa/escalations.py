"""Loa's escalations as questions of the bus, and the answers as Loa's responses.  Pure."""

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from lifebus.loa.times import iso_of, ms_of
from lifebus.loa.types import EscalationContext, EscalationRequest, EscalationResponse, PhaseError, ResponseAction
from lifebus_contract.fields import Metadata
from lifebus_contract.questions import AnswerAction, Modifiable, Question, QuestionAnswer

CLIENT_ID: Final = "loa"
"""Under which name Loa's questions are in the inbox."""

MODIFICATIONS: Final = "modifications"
"""Under which name the answer to an escalation of Loa's own has its modifications.

The contract lets a person modify anything, and a question names what an answer may change: so it names one thing.
"""

_TITLE: Final = 256
_DETAIL: Final = 1_024
_ACTIONS: Final = 16


def question_of(
    request: EscalationRequest, *, question_id: str, asked_at_ms: int, run_id: str | None = None
) -> Question:
    """Return an escalation as a question; the whole request is its context."""
    title = f"Loa asks about {request.phase}"
    return Question(
        question_id=question_id,
        client_id=CLIENT_ID,
        run_id=run_id,
        step_id=None if run_id is None else request.phase,
        title=_printable(title)[:_TITLE],
        reason=_cut(request.reason),
        context=msgspec.to_builtins(request),
        suggested_actions=tuple(_cut(action) for action in request.suggested_actions[:_ACTIONS]),
        modifiable=(Modifiable(name=MODIFICATIONS, kind="any", help="a map of what is to be changed"),),
        asked_at_ms=asked_at_ms,
    )


def request_of(question: Question) -> EscalationRequest:
    """Return a question as an escalation: Loa's own as it was, one of a run with what the run says of its tries."""
    try:
        return msgspec.convert(question.context, EscalationRequest, strict=True)
    except msgspec.ValidationError:
        phase = question.step_id or question.run_id or question.title
        return EscalationRequest(
            reason=question.reason,
            phase=phase,
            context=EscalationContext(errors=tuple(_errors(question.context, phase))),
            suggested_actions=question.suggested_actions,
        )


def _errors(context: Metadata, phase: str) -> Iterator[PhaseError]:
    """Yield the tries of a phase that a run's question tells of."""
    for told in context.get("tries") or ():
        if isinstance(told, dict):
            one = cast("dict[str, Any]", told)
            parts = (f"try {one.get('number')}", one.get("outcome"), one.get("stderr"))
            yield PhaseError(message=": ".join(str(part) for part in parts if part), phase=phase, recoverable=True)


def response_of(answer: QuestionAnswer) -> EscalationResponse:
    """Return an answer as the response that Loa gets."""
    given = answer.modifications
    # What was wrapped for the inbox is taken out again; a run's question names each value by itself.
    changes: object = given.get(MODIFICATIONS) if set(given) == {MODIFICATIONS} else given
    modifies = answer.action is AnswerAction.MODIFY
    return EscalationResponse(
        responded_at=iso_of(answer.responded_at_ms),
        responder=answer.responder,
        action=ResponseAction(answer.action.value),
        message=answer.message,
        modifications=cast("Metadata", changes) if modifies and isinstance(changes, dict) else msgspec.UNSET,
    )


def answer_of(response: EscalationResponse, question: Question) -> QuestionAnswer:
    """Return a response as the answer to a question."""
    given = {} if response.modifications is msgspec.UNSET else response.modifications
    wraps = [one.name for one in question.modifiable] == [MODIFICATIONS]
    return QuestionAnswer(
        action=AnswerAction(response.action.value),
        responder=response.responder,
        message=response.message,
        modifications={MODIFICATIONS: given} if given and wraps else given,
        responded_at_ms=ms_of(response.responded_at),
        channel=CLIENT_ID,
    )


def text_of(request: EscalationRequest) -> str:
    """Return an escalation as a person reads it."""
    lines = [f"Phase {request.phase} needs you: {request.reason}"]
    lines += [f"- suggested: {action}" for action in request.suggested_actions]
    lines += [f"- decided: {one.description} ({one.reasoning})" for one in request.context.last_decisions]
    lines += [f"- file: {one.path}, {one.size_bytes} bytes: {one.description}" for one in request.context.artifacts]
    lines += [f"- error in {one.phase}: {one.message}" for one in request.context.errors]
    return "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= _DETAIL else f"{text[: _DETAIL - 1]}…"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
