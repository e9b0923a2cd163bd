"""`lifebus inbox`: the questions that wait for a person."""

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.choices import Several
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError, ambiguous
from lifebus.cli.terminal import clean, paint, put, put_table, put_whole_json, say, time_text
from lifebus_contract import InvalidRequest
from lifebus_contract.questions import AnswerAction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus.client import Bus
    from lifebus_contract.questions import Modifiable, Notification, QuestionInfo

app = App(name="inbox")

_Id = Annotated[str, Parameter(help="The id of the question, or the beginning of one.")]


@app.default
@app.command(name="list")
def list_questions(*, all: bool = False, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:  # noqa: A002  the flag's name
    """List the questions that wait for an answer.

    Args:
        all: List those that are settled as well.
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.inbox.questions(open_only=not all))
    if connection.json:
        put_whole_json(found)
    elif found:
        put_table(("question", "asked", "kind", "by", "run", "title", "state"), [_row(info) for info in found])
    else:
        say("no question waits for an answer" if not all else "no question was asked")
    return ExitCode.OK


@app.command
def show(question_id: _Id, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show a question, how it can be answered, and which channels delivered it.

    Args:
        question_id: The id of the question, or the beginning of one.
        connection: Where the broker is, and the form of the answer.
    """
    info = on_bus(connection, lambda bus: find_question(bus, question_id))
    if connection.json:
        put_whole_json(info)
    else:
        for line in _description(info):
            put(line)
    return ExitCode.OK


@app.command
def answer(
    question_id: _Id,
    action: AnswerAction,
    /,
    *,
    message: str = "",
    set: Several = (),  # noqa: A002  the flag's name
    responder: Annotated[str | None, Parameter(name="--as")] = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Answer a question, once and for all.

    Args:
        question_id: The id of the question, or the beginning of one.
        action: `proceed`, `retry`, `abort` or `modify`.
        message: A message for whoever asked.
        set: With `modify`: NAME=VALUE; several after one flag, or the flag again for each.
        responder: Who answers; by default the name of the user.
        connection: Where the broker is, and the form of the answer.
    """

    async def give(bus: "Bus") -> "QuestionInfo":
        question = (await find_question(bus, question_id)).question
        # The question says of which kind a value is.
        values = _modifications(set, question.modifiable)
        return await bus.inbox.answer(
            question.question_id, action, message=message, modifications=values, responder=responder, channel="cli"
        )

    info = on_bus(connection, give)
    if connection.json:
        put_whole_json(info)
    else:
        put(f"`{clean(info.question.question_id)}` is answered: {paint(action.value, 'green')}")
    return ExitCode.OK


async def find_question(bus: "Bus", word: str) -> "QuestionInfo":
    """Return the question that is meant: by its id, or by the beginning of the id of one; open ones come first.

    Raises:
        InvalidRequest: there is none (`no_question`).
        UsageError: the beginning is that of several.
    """
    try:
        return await bus.inbox.show(word)
    except InvalidRequest as fault:
        if fault.code != "no_question":
            raise
        missing = fault
    found = [one for one in await bus.inbox.questions(open_only=False) if one.question.question_id.startswith(word)]
    # Of a phase that was asked about before, the question that waits is meant.
    near = [one for one in found if one.is_open] or found
    if not near:
        raise missing
    if len(near) > 1:
        raise ambiguous(word, "questions", [one.question.question_id for one in near])
    return near[0]


def _modifications(given: "Sequence[str]", modifiable: "Sequence[Modifiable]") -> dict[str, Any]:
    """Return the values of `--set`, each read as the question declares it.

    Raises:
        UsageError: one is no NAME=VALUE, or its value cannot be read.
    """
    kinds = {one.name: one.kind for one in modifiable}
    values: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise UsageError(f"--set: `{one[:64]}` is not NAME=VALUE")
        # What is not declared goes as it is: the broker says what may be modified.
        if kinds.get(name, "text") == "text":
            values[name] = text
            continue
        try:
            values[name] = json_module.loads(text)
        except ValueError:
            raise UsageError(f"--set: the value of `{name[:64]}` is JSON of the kind {kinds[name]}") from None
    return values


def _row(info: "QuestionInfo") -> tuple[str, ...]:
    question = info.question
    return (
        question.question_id,
        time_text(question.asked_at_ms),
        question.kind.value,
        question.client_id,
        question.run_id or "-",
        question.title,
        _state(info),
    )


def _state(info: "QuestionInfo") -> str:
    if info.answer is not None:
        return f"{info.answer.action.value} by {info.answer.responder}"
    return "open" if info.withdrawn_at_ms is None else "withdrawn"


def _description(info: "QuestionInfo") -> list[str]:
    """Return the lines that show a question; all that others wrote is cleaned of control characters."""
    question, given = info.question, info.answer
    lines = [paint(clean(question.title), "bold"), ""]
    lines += [clean(line) for line in question.reason.splitlines()] + [""]
    facts = {
        "question": question.question_id,
        "kind": question.kind.value,
        "asked": f"{time_text(question.asked_at_ms)} by {question.client_id}",
        "run": question.run_id or "",
        "phase": question.step_id or "",
        "state": _state(info),
        "reminders": str(info.reminders or ""),
    }
    lines += [f"{name:10} {clean(value)}" for name, value in facts.items() if value]
    if given is not None:
        lines += [f"{'answered':10} {time_text(given.responded_at_ms)} through {clean(given.channel)}"]
        lines += [f"{'message':10} {clean(line)}" for line in given.message.splitlines()]
        lines += [f"{'set':10} {clean(f'{name}={_json(value)}')}" for name, value in given.modifications.items()]
    lines += _section("Suggested", [f"- {clean(one)}" for one in question.suggested_actions])
    context = json_module.dumps(question.context, indent=2, ensure_ascii=False).splitlines() if question.context else []
    lines += _section("Context", [clean(line) for line in context])
    lines += _section("Brought by", [_notification(one) for one in info.notifications])
    if info.is_open:
        lines += _section("Answer", ways_to_answer(info))
    return lines


def ways_to_answer(info: "QuestionInfo") -> list[str]:
    """Return the commands that answer, and what may be modified."""
    from shlex import quote  # noqa: PLC0415

    question = info.question
    lines: list[str] = []
    for action in question.actions:
        if action is not AnswerAction.MODIFY:
            lines.append(f"lifebus inbox answer {quote(question.question_id)} {action.value}")
        elif question.modifiable:
            lines.append(f"lifebus inbox answer {quote(question.question_id)} modify --set NAME=VALUE")
            for one in question.modifiable:
                choices = f", one of {_json(one.choices)}" if one.choices else ""
                lines.append(clean(f"    {one.name}: {one.kind}{choices}{f' ({one.help})' if one.help else ''}"))
    return [clean(line) for line in lines]


def _notification(one: "Notification") -> str:
    what = f"delivered {time_text(one.delivered_at_ms)}" if one.delivered_at_ms is not None else "not delivered yet"
    fault = f"; the last try failed: {one.fault}" if one.fault else ""
    return clean(f"{one.channel}: {what}, {one.tries} {'try' if one.tries == 1 else 'tries'}{fault}")


def _section(head: str, lines: "Sequence[str]") -> list[str]:
    return ["", paint(head, "bold"), *[f"  {line}" for line in lines]] if lines else []


def _json(value: Any) -> str:
    return json_module.dumps(value, ensure_ascii=False)
