"""Whether a question can be asked, and whether an answer is one that it allows.  Pure."""

from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.fields import MAX_INTEGER
from lifebus_contract.questions import AnswerAction, Modifiable, Question, QuestionAnswer
from lifebus_supervisor.runtime.inbox.records import QuestionState

T = TypeVar("T")

MAX_QUESTION_BYTES: Final = 131_072
"""Largest question as JSON: with its answer and what was done to deliver it, it has to fit into one message."""

MAX_ANSWER_BYTES: Final = 65_536
"""Largest answer as JSON."""


def allowed_actions(question: Question) -> tuple[AnswerAction, ...]:
    """Return what may be answered; to modify something needs something that may be modified."""
    return tuple(one for one in question.actions if one is not AnswerAction.MODIFY or question.modifiable)


def checked_question(question: Question) -> Question:
    """Return a question as the journal gives it back: itself, where that is the same.

    Raises:
        InvalidRequest: it is too large, or breaks the contract: it could not be read again.
    """
    encoded = _encoded(question)
    if len(encoded) > MAX_QUESTION_BYTES:
        raise InvalidRequest(
            f"the question has {len(encoded)} bytes, {MAX_QUESTION_BYTES} are allowed; leave out some of its `context`",
            code="too_large",
            field="$.context",
        )
    kept = _decoded(encoded, Question)
    # The texts of the one that is given are those of the run that asks: none of them is in memory twice.
    return question if kept == question else kept


def checked_form(answer: QuestionAnswer) -> QuestionAnswer:
    """Return an answer as the journal gives it back.

    Raises:
        InvalidRequest: it is too large, or breaks the contract.
    """
    encoded = _encoded(answer)
    if len(encoded) > MAX_ANSWER_BYTES:
        raise InvalidRequest(f"the answer has {len(encoded)} bytes, {MAX_ANSWER_BYTES} are allowed", code="too_large")
    return _decoded(encoded, QuestionAnswer)


def check_same(state: QuestionState, question: Question) -> None:
    """Refuse another question under an id that is taken; one that is asked again may bear another time.

    Raises:
        StateConflict: it is another question.
    """
    if msgspec.structs.replace(question, asked_at_ms=state.question.asked_at_ms) != state.question:
        raise StateConflict(
            f"another question has the id `{question.question_id[:64]}`; use a new one", code="other_question"
        )


def check_open(state: QuestionState) -> None:
    """Refuse to settle a question that is settled; the text has the facts of the first answer.

    Raises:
        StateConflict: it was answered or withdrawn.
    """
    name, answer = state.question.question_id[:64], state.answer
    if answer is not None:
        words = f": {answer.message[:200]}" if answer.message else ""
        raise StateConflict(
            f"`{name}` was answered already: `{answer.action.value}` by {answer.responder} through {answer.channel}"
            f" at {_time(answer.responded_at_ms)}{words}",
            code="already_answered",
        )
    if state.withdrawn_at_ms is not None:
        raise StateConflict(
            f"`{name}` was withdrawn at {_time(state.withdrawn_at_ms)}: nobody waits for an answer any more",
            code="question_withdrawn",
        )


def check_answer(question: Question, answer: QuestionAnswer) -> None:
    """Refuse an answer that the question does not allow.

    Raises:
        InvalidRequest: its action, or one of its modifications; `field` says which.
    """
    allowed = allowed_actions(question)
    if answer.action not in allowed:
        names = ", ".join(f"`{one.value}`" for one in allowed) or "nothing"
        raise InvalidRequest(
            f"`{answer.action.value}` is no answer to `{question.question_id[:64]}`; allowed are {names}",
            code="action_not_allowed",
            field="$.action",
        )
    if answer.action is AnswerAction.MODIFY and not answer.modifications:
        raise _unmodifiable("", "`modify` needs at least one modification")
    declared = {one.name: one for one in question.modifiable}
    for name, value in answer.modifications.items():
        if name not in declared:
            known = ", ".join(f"`{one}`" for one in declared)
            raise _unmodifiable(name, f"`{name[:64]}` may not be modified; {known} may")
        _check_value(declared[name], value)


def _check_value(declared: Modifiable, value: Any) -> None:
    """Refuse a value of another kind than declared, or none of the choices."""
    if not _is_of_kind(declared.kind, value):
        raise _unmodifiable(declared.name, f"`{declared.name[:64]}` takes {_KINDS[declared.kind]}")
    # By type as well: to Python, true is 1.
    if declared.choices and not any(type(value) is type(one) and value == one for one in declared.choices):
        choices = ", ".join(msgspec.json.encode(one).decode() for one in declared.choices)
        raise _unmodifiable(declared.name, f"`{declared.name[:64]}` is one of {choices[:500]}")


def _is_of_kind(kind: str, value: Any) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER
        case "truth":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list | tuple)
        case _:
            return True


_KINDS: Final = {
    "text": "a text",
    "integer": "an integer of at most 2^53-1",
    "truth": "true or false",
    "list": "a list",
    "any": "any value",
}


def _unmodifiable(name: str, detail: str) -> InvalidRequest:
    field = f"$.modifications.{name[:64]}" if name else "$.modifications"
    return InvalidRequest(detail, code="not_modifiable", field=field)


def _encoded(document: Question | QuestionAnswer) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise InvalidRequest(f"it is no JSON: {fault}", code="against_contract") from None


def _decoded(encoded: bytes, kind: type[T]) -> T:
    # Who builds a document in this process is checked by nobody, and what breaks its rules could not be read again.
    try:
        return msgspec.json.decode(encoded, type=kind)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise InvalidRequest(f"it breaks the contract: {fault}", code="against_contract") from None


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{at_ms} ms"
