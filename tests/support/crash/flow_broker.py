"""A broker that runs one flow, answers its own question as a person would, and kills itself at a boundary."""

import asyncio
from functools import partial
from pathlib import Path

from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.daemon.composition import Daemon
from support.crash.dying_life import die_when_asked, life_root
from support.flows import five_steps
from support.parts import flows_of, running_whole

RUN_ID = "run_of_five"


def answer_as_a_person(daemon: Daemon, info: QuestionInfo) -> None:
    """Answer every question with the same retry, as somebody who saw it once."""
    if not info.is_open:
        return
    (life_root() / "c.answered").touch()
    told = QuestionAnswer(action=AnswerAction.RETRY, responder="ann", responded_at_ms=1)
    asyncio.get_running_loop().create_task(flows_of(daemon).inbox.answer(info.question.question_id, told))


async def live(root: Path) -> str:
    """Run the flow, or go on with it, until it is over; return its status."""
    settings, _ = load()
    die_when_asked("run/")
    async with running_whole(settings) as daemon:
        flows_of(daemon).inbox.listen(partial(answer_as_a_person, daemon))
        for info in flows_of(daemon).inbox.questions():
            answer_as_a_person(daemon, info)
        run = await flows_of(daemon).runs.submit(five_steps(root), run_id=RUN_ID, by="test")
        while not run.status.is_over:
            run = await flows_of(daemon).runs.wait(RUN_ID, run.number, 60)
        asked = [info.question.question_id for info in flows_of(daemon).inbox.questions(open_only=False)]
        return f"{run.status.value} {run.interruptions} {' '.join(asked)}"


def main() -> None:
    """Live one life."""
    print(asyncio.run(live(life_root())), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main()
