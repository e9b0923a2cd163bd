"""Answers that are given while the broker is killed: decided once, and recorded or not; nobody is asked twice.

The oracle is the file of the ledger, read by SQL, and what the one who answered was told.
"""

import asyncio
import random
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import lifebus
from lifebus_contract import LifebusError
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_contract.runs import RunStatus, StepStatus
from support.broker_process import BrokerProcess, broker_process
from support.clients.proxy_box import eventually
from support.effort import effort
from support.flows import flow, step
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

PROGRAM = SUPPORT / "inbox/dying_answers.py"
KINDS = ("client before", "client after", "file before", "file after", "client whenever", "file whenever")
ROUNDS = effort(5, 167)
"""Of each kind: 30 in all, and a thousand in the long runs."""

LATEST_S = 0.02
"""A broker that is killed at any time is killed so long after an answer at most."""

FILE_S = 0.6
"""About so long a reply has to stay as it is before it is read."""


class Answering:
    """One state directory in which each life of a broker is asked one question, and is killed while it is answered."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "state" / "inbox"
        self.random = random.Random(14)
        (home / "config.toml").write_text('[[inbox.channels]]\nname = "paper"\nkind = "file"\n')

    def variables(self, kind: str, name: str) -> dict[str, str]:
        when = kind.split()[1]
        return {
            "LIFEBUS_CONFIG": str(self.home / "config.toml"),
            "DIE": when,
            "DIE_OF": name if when != "whenever" else "",
        }

    async def answer(self, broker: BrokerProcess, bus: lifebus.Bus, kind: str, name: str) -> bool:
        """Answer while the broker is killed; return whether it was said to be recorded."""
        by, when = kind.split()
        taken: list[bool] = []

        async def give() -> None:
            try:
                await bus.inbox.give(name, said(7))
            except LifebusError:  # refused, or nobody knows
                return
            taken.append(True)

        async with anyio.create_task_group() as tasks:
            if by == "client":
                tasks.start_soon(give)
            else:
                (self.home / "reply").write_text("proceed\nwe do without\n")
                (self.home / "reply").rename(self.folder / f"{name}.reply")  # whole, however slow we are
            if when == "whenever":
                moment = self.random.random() * LATEST_S + (FILE_S if by == "file" else 0)
                asyncio.get_running_loop().call_later(moment, broker.signal, signal.SIGKILL)
            assert await broker.ended() == -9
            tasks.cancel_scope.cancel()
        return bool(taken)

    def records(self, name: str) -> list[bytes]:
        """The records of a question, as they stand in the file while no broker runs."""
        with closing(sqlite3.connect(self.home / "state" / "ledger.db")) as database:
            of_question = "SELECT body FROM notes JOIN note_streams USING (id) WHERE stream = ? ORDER BY number"
            found = database.execute(of_question, (f"question/{name}",))
            return [bytes(body) for (body,) in found]


def said(at_ms: int) -> QuestionAnswer:
    return QuestionAnswer(
        action=AnswerAction.PROCEED, responder="ann", responded_at_ms=at_ms, message="we do without", channel="inbox"
    )


def count(records: list[bytes], what: str) -> int:
    return sum(f'"record":"{what}"'.encode() in one for one in records)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_given_while_the_broker_is_killed_counts_once_or_can_be_given_again(kind: str) -> None:
    with short_directory() as home:
        box = Answering(home)
        outcomes: list[bool] = []
        for number in range(ROUNDS):
            project = home / f"project{number}"
            project.mkdir()
            run_id, name = f"run_{number}", f"q_run_{number}_a_1"
            async with (
                broker_process(home, program=PROGRAM, **box.variables(kind, name)) as broker,
                lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
            ):
                if number:
                    await gone_on(box, bus, kind, number - 1, is_recorded=outcomes[-1])
                await bus.flows.submit(flow(project, step("a", command=("/bin/sh", "-c", "exit 2"))), run_id=run_id)
                await until_answered(partial(bus.flows.show, run_id), lambda found: found.run.steps[0].question_id)
                await until_answered(partial(bus.inbox.show, name), lambda info: info.notifications)
                was_taken = await box.answer(broker, bus, kind, name)
            outcomes.append(bool(count(box.records(name), "answered")))
            assert outcomes[-1] or not was_taken, "it was said to be recorded"
        async with (
            broker_process(home, **box.variables(kind, "")) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            await gone_on(box, bus, kind, ROUNDS - 1, is_recorded=outcomes[-1])
        for number in range(ROUNDS):
            records = box.records(f"q_run_{number}_a_1")
            assert (count(records, "asked"), count(records, "answered")) == (1, 1)
        expected = {"before": {False}, "after": {True}}.get(kind.split()[1])
        assert expected is None or set(outcomes) == expected


async def gone_on(box: Answering, bus: lifebus.Bus, kind: str, number: int, *, is_recorded: bool) -> None:
    """See that an answer counts once the broker is back, or is waited for and can be given again."""
    run_id, name = f"run_{number}", f"q_run_{number}_a_1"
    if kind.startswith("client"):
        assert (await bus.inbox.show(name)).is_open is not is_recorded
        # Exactly the same answer may come again, whether or not it was recorded.
        assert (await bus.inbox.give(name, said(7))).answer == said(7)
    await until_answered(lambda: bus.flows.show(run_id), lambda found: found.run.status.is_over)
    run = (await bus.flows.show(run_id)).run
    if kind.startswith("file"):
        await anyio.to_thread.run_sync(eventually, lambda: not (box.folder / f"{name}.reply").exists())
        assert not await anyio.Path(box.folder / f"{name}.problem.txt").exists()
    assert not (await bus.inbox.show(name)).is_open
    assert await bus.inbox.questions() == []
    assert (run.status, run.steps[0].status) == (RunStatus.COMPLETED, StepStatus.SKIPPED)
    assert len(run.steps[0].tries) == 1
