"""A broker that runs one flow, answers its own question as a person would, and kills itself at a boundary.

The variables ``FLOW_ROOT`` and ``FLOW_KILL`` say where, and when: ``before:N`` is before the N-th append of records of
a run is handed to the ledger, ``after:N`` once it is durable and before anything is done about it.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from support.flows import five_steps

RUN_ID = "run_of_five"


def die_at(when: str, number: int) -> None:
    """Have this process killed at its append of this number that holds records of a run."""
    append, left = SqliteJournal.append, [number]

    def dying(
        self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        if any(one.stream.startswith("run/") for one in records):
            left[0] -= 1
            if not left[0] and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if not left[0]:
                done = die
        return append(self, records, done)

    SqliteJournal.append = dying  # type: ignore[method-assign]


def die(_: object) -> None:
    """End as a process does that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def answer_as_a_person(daemon: Daemon, info: QuestionInfo) -> None:
    """Answer every question with the same retry, as somebody who saw it once."""
    if not info.is_open:
        return
    (Path(os.environ["FLOW_ROOT"]) / "c.answered").touch()
    told = QuestionAnswer(action=AnswerAction.RETRY, responder="ann", responded_at_ms=1)
    asyncio.get_running_loop().create_task(daemon.inbox.answer(info.question.question_id, told))


async def live(root: Path, kill: str) -> str:
    """Run the flow, or go on with it, until it is over; return its status."""
    settings, _ = load()
    when, _, number = kill.partition(":")
    if number:
        die_at(when, int(number))
    async with running(settings) as daemon:
        daemon.inbox.listen(partial(answer_as_a_person, daemon))
        for info in daemon.inbox.questions():
            answer_as_a_person(daemon, info)
        run = await daemon.runs.submit(five_steps(root), run_id=RUN_ID, by="test")
        while not run.status.is_over:
            run = await daemon.runs.wait(RUN_ID, run.number, 60)
        asked = [info.question.question_id for info in daemon.inbox.questions(open_only=False)]
        return f"{run.status.value} {run.interruptions} {' '.join(asked)}"


def main() -> None:
    """Live one life."""
    print(asyncio.run(live(Path(os.environ["FLOW_ROOT"]), os.environ.get("FLOW_KILL", ""))), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main()
