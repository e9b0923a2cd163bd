"""What a person is sent about a question: texts, and the document that a webhook gets.  Pure.

Whatever leaves the machine is first rid of what looks like a secret; the question itself stays as it was asked.
"""

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from string import Template
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, structs

from lifebus_contract.questions import AnswerAction, Question
from lifebus_supervisor.runtime.inbox.answers import allowed_actions
from lifebus_supervisor.runtime.inbox.records import Occasion, QuestionState
from lifebus_supervisor.runtime.inbox.templates import TITLE
from lifebus_transports.processes.redaction import hide_secrets, names_secret

_HEADS: Final = {
    Occasion.ASKED: "Question",
    Occasion.REMINDED: "Still open",
    Occasion.ANSWERED: "Answered",
    Occasion.WITHDRAWN: "Withdrawn",
}
_HIDDEN: Final = "[redacted]"


class QuestionMessage(Struct, frozen=True, kw_only=True):
    """One notification.  `delivery_id` is the same for every try to deliver it by one channel, and for no other.

    `link` leads to where it can be answered, where there is such a place.
    """

    delivery_id: str
    occasion: Occasion
    reminder: int
    state: QuestionState
    link: str | None = None

    @property
    def question(self) -> Question:
        """The question that it is about."""
        return self.state.question


def delivery_id(question: Question, channel: str, occasion: int) -> str:
    """Return the id by which a receiver knows a repetition: letters, digits and an underscore."""
    # One JSON list and no joined text, so that no two of these can look alike.
    parts = msgspec.json.encode((question.question_id, question.asked_at_ms, channel, occasion))
    return f"msg_{hashlib.sha256(parts).hexdigest()[:32]}"


def message_for(state: QuestionState, channel: str, occasion: int, link: str | None = None) -> QuestionMessage:
    """Return the notification of an occasion; one that is not the present one is that of the question itself."""
    kind = state.kind if occasion == state.occasion else Occasion.ASKED
    return QuestionMessage(
        delivery_id=delivery_id(state.question, channel, occasion),
        occasion=kind,
        reminder=occasion if kind is Occasion.REMINDED else 0,
        state=state,
        link=link if state.is_open else None,
    )


def title_of(message: QuestionMessage, template: str = TITLE, secrets: Iterable[str] = ()) -> str:
    """Return the title of a message: one line without control characters."""
    return printable(_filled(message, template, secrets).replace("\n", " "))[:256]


def body_of(message: QuestionMessage, template: str | None = None, secrets: Iterable[str] = ()) -> str:
    """Return the text of a message: lines without control characters."""
    return printable(_filled(message, template or _usual_body(message), secrets))


def printable(text: str) -> str:
    """Return a text that steers no terminal: line ends stay, other control characters become blanks."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def document_of(message: QuestionMessage, *, sent_at_ms: int, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a webhook gets, as plain data."""
    state = message.state
    document = {
        "type": f"question.{message.occasion.value}",
        "delivery_id": message.delivery_id,
        "sent_at_ms": sent_at_ms,
        "reminder": message.reminder,
        "question": _whole(state.question) | {"modifiable": [_whole(one) for one in state.question.modifiable]},
        "answer": None if state.answer is None else _whole(state.answer),
        "actions": [one.value for one in allowed_actions(state.question)],
    }
    shown = cast("dict[str, Any]", without_secrets(document, tuple(secrets)))
    # After the rest: a signed link is a secret by its look, and is meant for the reader.
    return shown | {"link": message.link}


def _whole(document: Struct) -> dict[str, Any]:
    """Return a document with every field: who gets it elsewhere knows no usual values."""
    return cast("dict[str, Any]", msgspec.to_builtins(structs.asdict(document)))


def without_secrets(value: Any, secrets: Iterable[str]) -> Any:
    """Return plain data in which texts show no secret, and what is named like one shows no value."""
    if isinstance(value, str):
        return hide_secrets(value, secrets)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {name: _HIDDEN if _is_secret(name, one) else without_secrets(one, secrets) for name, one in pairs}
    if isinstance(value, list | tuple):
        return [without_secrets(one, secrets) for one in cast("list[Any]", value)]
    return value


def _is_secret(name: str, value: Any) -> bool:
    return isinstance(value, str) and names_secret(name)


def answer_commands(question: Question) -> list[str]:
    """Return the commands that answer a question, one for each action."""
    name = shlex.quote(question.question_id)
    return [f"lifebus inbox answer {name} {_words(one)}" for one in allowed_actions(question)]


def _words(action: AnswerAction) -> str:
    return f"{action.value} --set NAME=VALUE" if action is AnswerAction.MODIFY else action.value


def _filled(message: QuestionMessage, template: str, secrets: Iterable[str]) -> str:
    known = tuple(secrets)
    fields = {name: hide_secrets(text, known) for name, text in _fields(message).items()}
    return Template(template).safe_substitute(fields | {"link": message.link or ""})


def _fields(message: QuestionMessage) -> dict[str, str]:
    question, answer = message.question, message.state.answer
    said = "" if answer is None else f"{answer.action.value} by {answer.responder}"
    return {
        "actions": ", ".join(one.value for one in allowed_actions(question)),
        "answer": f"{said}: {answer.message}" if answer is not None and answer.message else said,
        "client": question.client_id,
        "command": f"lifebus inbox show {shlex.quote(question.question_id)}",
        "delivery": message.delivery_id,
        "kind": question.kind.value,
        "occasion": _HEADS[message.occasion],
        "question": question.question_id,
        "reason": question.reason,
        "run": question.run_id or "",
        "step": question.step_id or "",
        "suggestions": "\n".join(f"- {one}" for one in question.suggested_actions),
        "title": question.title,
    }


def _usual_body(message: QuestionMessage) -> str:
    """Return the template of the text that fits the message: only lines that say something."""
    question = message.question
    if message.state.answer is not None:
        return "$answer\n\nNotification $delivery"
    if not message.state.is_open:
        return "Nobody waits for an answer any more.\n\nNotification $delivery"
    lines = ["$reason"] if question.reason else []
    if question.run_id is not None:
        lines.append("Run $run, phase $step" if question.step_id is not None else "Run $run")
    if question.suggested_actions:
        lines.append("Suggested:\n$suggestions")
    lines.append("Answer with: $actions\n$command")
    if message.link is not None:
        lines.append("$link")
    lines.append("Notification $delivery")
    return "\n\n".join(lines)
