"""The open questions of a run, as a person who looks at it reads them."""

from typing import TYPE_CHECKING

from lifebus.cli.bus.inbox import ways_to_answer
from lifebus.cli.terminal import clean, paint, put
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.questions import QuestionInfo
    from lifebus_contract.runs import RunInfo


class QuestionPrinter:
    """Prints each question of a run once; nothing with `json`, where the run has their ids."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._known: set[str] = set()

    async def show(self, bus: "Bus", run: "RunInfo") -> None:
        """Print the questions that are open and were not printed before."""
        if self._json or set(asked_ids(run)) <= self._known:
            return
        for info in await open_questions(bus, run):
            if info.question.question_id not in self._known:
                self._known.add(info.question.question_id)
                put_question(info)


def asked_ids(run: "RunInfo") -> list[str]:
    """Return the questions that a run waits for: about the run as a whole, such as about its budget, and its phases."""
    return [one for one in (run.question_id, *(step.question_id for step in run.steps)) if one is not None]


async def open_questions(bus: "Bus", run: "RunInfo") -> "list[QuestionInfo]":
    """Return what a run waits for."""
    found: list[QuestionInfo] = []
    for name in asked_ids(run):
        try:
            info = await bus.inbox.show(name)
        except LifebusError:  # it was settled long ago, or the broker is gone: who follows the run notices himself
            continue
        found += [info] if info.is_open else []
    return found


def put_question(info: "QuestionInfo") -> None:
    """Write a question, why it is asked, what may help, and how it is answered."""
    question = info.question
    about = question.step_id or question.run_id or ""
    name = "" if about in question.title else f"{paint(clean(about), 'bold')} "
    put("")
    put(f"{name}{paint(clean(question.title), 'yellow')}")
    for line in question.reason.splitlines():
        put(f"  {clean(line)}")
    for action in question.suggested_actions:
        put(f"  - {clean(action)}")
    for line in ways_to_answer(info):
        put(f"  {line}")
    put("")
