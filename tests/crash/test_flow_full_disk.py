"""A disk that is full while a flow runs: nothing is skipped or done twice, who answers is told, and all goes on later.

The oracle is a file that the phases write, on a disk that is not full.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

import lifebus
from integration.lifecycle.test_ledger import emit_until_refused
from lifebus_contract import LifebusError, Receipt
from lifebus_contract.flows import FlowDefinition, StepDefinition
from lifebus_contract.questions import AnswerAction
from lifebus_contract.runs import RunStatus, StepStatus
from support.broker_process import broker_process
from support.clients.proxy_box import eventually
from support.flows import flow, statuses, step
from support.integration.small_disk import fill, small_disk
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")

ROOM = 512 * 1024


def phase(name: str) -> tuple[str, ...]:
    """Say when it begins and ends, and wait in between for a line where there is a pipe of its name."""
    held = f"if [ -p hold.{name} ]; then read line < hold.{name}; fi"
    blocked = "if mkdir seen 2> /dev/null; then exit 2; fi" if name == "c" else ":"
    return ("/bin/sh", "-c", f"echo start {name} >> world; {held}; {blocked}; echo end {name} >> world")


def world(project: Path) -> list[str]:
    path = project / "world"
    return path.read_text().splitlines() if path.exists() else []


async def test_a_flow_stands_still_while_the_disk_is_full_and_an_answer_can_be_given_again() -> None:
    with short_directory() as home, small_disk(home) as disk:
        project = home / "project"
        project.mkdir()
        os.mkfifo(project / "hold.a")
        async with (
            broker_process(home, LIFEBUS_LEDGER_PATH=str(disk / "ledger.db")) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            standing = partial(bus.flows.show, "run_1")
            steps = [step(name, *before, command=phase(name)) for name, before in (("a", ""), ("b", "a"), ("c", "b"))]
            await bus.flows.submit(flow(project, *steps), run_id="run_1")
            eventually(lambda: world(project) == ["start a"])

            # The first phase ends while its end cannot be recorded.
            ballast = fill(disk, leave=ROOM)
            _, fault = await emit_until_refused(bus)
            assert fault.code == "disk_full"
            (project / "hold.a").write_text("go on\n")
            eventually(lambda: "run_not_recorded" in broker.log)
            assert world(project) == ["start a", "end a"]
            assert statuses((await standing()).run)["a"] is StepStatus.RUNNING
            with pytest.raises(LifebusError) as refused:
                await bus.flows.submit(flow(home, step("other")), run_id="run_2")
            assert refused.value.code == "disk_full"
            assert [run.run_id for run in await bus.flows.list()] == ["run_1"]
            ballast.unlink()
            found = await until_answered(standing, lambda found: found.run.status is RunStatus.WAITING)
            assert world(project) == ["start a", "end a", "start b", "end b", "start c"]

            question = found.run.steps[2].question_id
            assert question is not None
            await answer_on_a_full_disk(bus, disk, question)
            found = await until_answered(standing, lambda found: found.run.status.is_over)
            assert found.run.status is RunStatus.COMPLETED
            assert [len(one.tries) for one in found.run.steps] == [1, 1, 2]
            assert world(project) == ["start a", "end a", "start b", "end b", "start c", "start c", "end c"]
            assert [info.question.question_id for info in await bus.inbox.questions(open_only=False)] == [question]
            # What could not be written is tried again once a second, and each time is one line.
            assert len(broker.log) < 1_048_576


async def answer_on_a_full_disk(bus: lifebus.Bus, disk: Path, question: str) -> None:
    """Answer while that cannot be recorded, which is refused, and again when there is room."""
    ballast = fill(disk, leave=ROOM)
    _, fault = await emit_until_refused(bus)
    with pytest.raises(LifebusError) as refused:
        await bus.inbox.answer(question, AnswerAction.RETRY, responder="ann")
    assert (fault.code, refused.value.code) == ("disk_full", "disk_full")
    assert (await bus.inbox.show(question)).is_open
    ballast.unlink()
    await until_answered(bus.status, lambda status: status.ledger.writable)
    answered = await bus.inbox.answer(question, AnswerAction.RETRY, responder="ann")
    assert answered.answer is not None


SIZE = 300_000
"""Bytes that a loud phase writes to stdout, beside some words to stderr."""


def loud_steps() -> list[StepDefinition]:
    """Three phases: the first waits for a line, the first try of the second fails, the third asks a person."""
    ends = {
        "a": "if [ -p hold ]; then read line < hold; rm hold; fi",
        "b": "mkdir seen 2> /dev/null && exit 1; exit 0",
        "c": "exit 2",
    }
    before: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("b",)}
    loud = f"head -c {SIZE} /dev/zero; echo last words >&2"
    commands = {name: f"{loud}; echo {name} >> world; {end}" for name, end in ends.items()}
    return [step(name, *before[name], command=("/bin/sh", "-c", commands[name])) for name in ends]


async def ends_on_the_bus(bus: lifebus.Bus) -> list[Mapping[str, object]]:
    """What the receipts of the ends of tries say, as far as they are there."""
    receipts = [one async for one in bus.receipts(since="start", until_head=True) if isinstance(one, Receipt)]
    return [one.telemetry_summary for one in receipts if one.event == "frame.ended"]


async def refusal_of(bus: lifebus.Bus, definition: FlowDefinition) -> LifebusError | None:
    """Submit a flow; return why that was refused."""
    try:
        await bus.flows.submit(definition, run_id="run_1")
    except LifebusError as fault:
        return fault
    return None


async def test_a_full_disk_below_the_output_of_phases_costs_the_output_alone_and_is_said() -> None:
    with short_directory() as home, small_disk(home) as disk:
        project = home / "project"
        project.mkdir()
        os.mkfifo(project / "hold")
        async with (
            broker_process(home, LIFEBUS_STATE_DIR=str(disk), LIFEBUS_LEDGER_PATH=str(home / "ledger.db")) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            ballast = fill(disk, leave=0)
            assert await refusal_of(bus, flow(project, *loud_steps())) is None
            eventually(lambda: world(project) == ["a"])
            (project / "hold").write_text("go on\n")
            found = await until_answered(
                partial(bus.flows.show, "run_1"), lambda found: found.run.status is RunStatus.WAITING
            )
            # Every end is the one that its program had, and each ran as often as that asks for.
            assert world(project) == ["a", "b", "b", "c"]
            done = {one.step_id: one for one in found.run.steps}
            assert [one.status for one in done.values()] == [StepStatus.DONE, StepStatus.DONE, StepStatus.ASKING]
            tries = [one for each in done.values() for one in each.tries]
            assert [one.outcome.code for one in tries if one.outcome is not None] == [0, 1, 0, 2]
            ends = [one for one in await bus.flows.events("run_1") if "outcome" in one.data]
            assert [one.data.get("output_fault") for one in ends] == ["No space left on device"] * 4
            assert broker.log.count('"output_not_kept"') == 4
            # Receipts come behind the records that they tell of.
            sizes = await until_answered(partial(ends_on_the_bus, bus), lambda found: len(found) >= 4)
            assert [(one["stdout_bytes"], one["stderr_bytes"]) for one in sizes] == [(SIZE, 11)] * 4

            # What comes when there is room again is kept whole.
            ballast.unlink()
            question = done["c"].question_id
            assert question is not None
            await bus.inbox.answer(question, AnswerAction.RETRY, responder="ann")
            await until_answered(
                bus.inbox.questions, lambda asked: asked and asked[-1].question.question_id != question
            )
            (end,) = [one for one in await bus.flows.events("run_1") if "outcome" in one.data][4:]
            assert "output_fault" not in end.data
            assert (disk / "runs/run_1/c.2.out").read_bytes() == bytes(SIZE)
            assert (disk / "runs/run_1/c.2.err").read_bytes() == b"last words\n"
