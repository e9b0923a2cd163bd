"""Questions as files in a folder of ours: one to read, one for programs, and a third that answers.

``NAME.md`` and ``NAME.json`` are written by the channel.  Whoever writes ``NAME.reply`` answers; ``NAME.problem.txt``
says why a reply did not count.
"""

import hashlib
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote

import anyio.to_thread
import msgspec

from lifebus_broker.atomic_files import write_file
from lifebus_contract import LifebusError
from lifebus_contract.questions import AnswerAction
from lifebus_supervisor.runtime.inbox.answers import allowed_actions
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, answer_commands, printable
from lifebus_transports.runtime_dir import ensure_private_directory

REPLY: Final = ".reply"
"""What the name of a reply ends with."""

PROBLEM: Final = ".problem.txt"
"""What the name of the file ends with that says why a reply did not count."""

_LONGEST: Final = 120
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


class FileChannel:
    """Writes questions into a folder, and once more when they are settled."""

    takes_end = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def deliver(self, message: QuestionMessage) -> None:
        """Write the files (channel.QuestionChannel.deliver)."""
        await anyio.to_thread.run_sync(self._write, message)

    def _write(self, message: QuestionMessage) -> None:
        name = file_name(message.question.question_id)
        try:
            ensure_private_directory(self._folder)
            write_file(self._folder / f"{name}.json", _json(message, name))
            write_file(self._folder / f"{name}.md", _markdown(message, name).encode())
        except (LifebusError, OSError) as fault:
            why = fault.detail if isinstance(fault, LifebusError) else fault.strerror
            raise DeliveryFault(f"{self._folder} cannot be written to: {why}") from None


def file_name(question_id: str) -> str:
    """Return the name of a question's files, without their endings: the id, in a form that every system takes."""
    name = quote(question_id, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        name = f"{name[:80]}-{hashlib.sha256(question_id.encode()).hexdigest()[:16]}"
    return name


def _json(message: QuestionMessage, name: str) -> bytes:
    question, answer = message.question, message.state.answer
    document = {
        "type": f"question.{message.occasion.value}",
        "delivery_id": message.delivery_id,
        "reminder": message.reminder,
        "question": question,
        "answer": answer,
        "actions": [one.value for one in allowed_actions(question)],
        "reply": f"{name}{REPLY}",
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _markdown(message: QuestionMessage, name: str) -> str:
    question, answer = message.question, message.state.answer
    parts = [f"# {_plain(question.title)}"]
    if answer is not None:
        parts.append(f"**Answered: {answer.action.value}** by {_plain(answer.responder)}.")
        parts.append(_plain(answer.message))
    elif not message.state.is_open:
        parts.append("**Withdrawn:** nobody waits for an answer any more.")
    parts.append(_plain(question.reason))
    facts = [("question", question.question_id), ("kind", question.kind.value), ("asked by", question.client_id)]
    facts += [("run", question.run_id or ""), ("step", question.step_id or "")]
    parts.append("\n".join(f"- {head}: {_plain(value)}" for head, value in facts if value))
    if question.suggested_actions:
        parts.append("## Suggested\n\n" + "\n".join(f"- {_plain(one)}" for one in question.suggested_actions))
    if question.context:
        # Indented and no fence: what stands in it cannot end the block.
        context = msgspec.json.format(msgspec.json.encode(question.context), indent=2).decode()
        parts.append("## Context\n\n" + "\n".join(f"    {line}" for line in context.splitlines()))
    if message.state.is_open:
        parts.append(_how_to_answer(message, name))
    return printable("\n\n".join(part for part in parts if part)) + "\n"


def _how_to_answer(message: QuestionMessage, name: str) -> str:
    question = message.question
    actions = allowed_actions(question)
    lines = ["## Answer", ""]
    lines += [f"    {command}" for command in answer_commands(question)]
    lines += ["", f"Or write into `{name}{REPLY}`: the action on the first line, what you have to say below it."]
    if AnswerAction.MODIFY in actions:
        lines += ["To modify, write JSON:", "", '    {"action": "modify", "modifications": {"NAME": "VALUE"}}', ""]
        lines += [f"- `{one.name}`: {one.kind}{_choices(one.choices)}. {one.help or ''}" for one in question.modifiable]
    return "\n".join(lines)


def _choices(choices: tuple[object, ...]) -> str:
    return f", one of {msgspec.json.encode(choices).decode()}" if choices else ""


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)
