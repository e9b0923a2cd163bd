"""Runs to which two people, a clock or a signal does what it should not."""

import os
import signal
from itertools import count
from pathlib import Path

import anyio
import pytest

from lifebus_contract import LifebusError, StateConflict
from lifebus_contract.flows import OutcomeKind, RetryPause
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus
from lifebus_supervisor.runtime.clocks import Clocks
from lifebus_supervisor.runtime.run_table import RunTable
from support.flows import ScriptedRunner, flow, step, until, until_over, until_waiting, use_runner
from support.integration.following import until as until_true
from support.parts import flows_of
from support.patience import PATIENCE_S, SOON_S
from support.running import running_bus

HOUR_MS = 3_600_000
SECOND = RetryPause(first_ms=1_000, longest_ms=1_000, jitter_percent=0)
TEN_HOURS = RetryPause(first_ms=10 * HOUR_MS, longest_ms=10 * HOUR_MS)


def is_backing_off(info: RunInfo) -> bool:
    return info.steps[0].status is StepStatus.BACKING_OFF


@pytest.mark.parametrize("jump_ms", [-10 * HOUR_MS, 10 * HOUR_MS])
async def test_a_clock_that_jumps_does_not_put_a_retry_off(tmp_path: Path, jump_ms: int) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner({"a": [1, 0]}))
        wall, jump = runs.engine.clocks, [0]
        runs.engine.clocks = Clocks(lambda: wall.now_ms() + jump[0], wall.draw)
        info = await runs.submit(flow(tmp_path, step("a", pause=SECOND)), by="me")
        await until(runs, info.run_id, is_backing_off)
        jump[0] = jump_ms
        with anyio.move_on_after(SOON_S):
            info = await until_over(runs, info.run_id)
    assert info.status is RunStatus.COMPLETED


async def test_a_pause_that_ends_while_the_broker_looks_is_over(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        pauses = range(1, 20)
        runs = use_runner(daemon, ScriptedRunner({"a": [1, 0] * len(pauses)}))
        looks = count(runs.engine.clocks.now_ms())
        # Each look at the clock is a millisecond after the one before: one of the pauses ends between two of them.
        runs.engine.clocks = Clocks(lambda: next(looks), lambda: 0.0)
        for first_ms in pauses:
            root = tmp_path / str(first_ms)
            root.mkdir()
            info = await runs.submit(flow(root, step("a", pause=RetryPause(first_ms=first_ms))), by="me")
            assert (await until_over(runs, info.run_id)).status is RunStatus.COMPLETED


async def test_a_pause_is_ended_by_an_abort_and_by_a_retry(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [1, 1, 0]})
        runs = use_runner(daemon, runner)
        paused = flow(tmp_path, step("a", pause=TEN_HOURS))
        first = await runs.submit(paused, by="me")
        await until(runs, first.run_id, is_backing_off)
        await runs.abort(first.run_id, "me", "enough")
        over = await until_over(runs, first.run_id)
        assert (over.status, over.reason, runner.begun) == (RunStatus.ABORTED, "enough", [("a", 1)])

        second = await runs.submit(paused, by="me")
        await until(runs, second.run_id, is_backing_off)
        await runs.retry(second.run_id, "a", "me")
        over = await until_over(runs, second.run_id)
    assert over.status is RunStatus.COMPLETED
    assert [(one.series, one.retry) for one in over.steps[0].tries] == [(1, 0), (2, 0)]


async def test_of_two_answers_at_once_one_counts_and_the_other_is_told_which(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [2, 0]})
        runs = use_runner(daemon, runner)
        info = await until_waiting(runs, (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id)
        question = info.steps[0].question_id or ""
        refused: list[LifebusError] = []

        async def say(action: AnswerAction, who: str) -> None:
            try:
                await flows_of(daemon).inbox.answer(
                    question, QuestionAnswer(action=action, responder=who, responded_at_ms=1)
                )
            except StateConflict as fault:
                refused.append(fault)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, AnswerAction.RETRY, "ann")
            tasks.start_soon(say, AnswerAction.ABORT, "bob")
        over = await until_over(runs, info.run_id)
        taken = flows_of(daemon).inbox.get(question)
    assert taken is not None
    assert taken.answer is not None
    (fault,) = refused
    assert (fault.code, taken.answer.responder in fault.detail) == ("already_answered", True)
    ends = {"ann": (RunStatus.COMPLETED, 2), "bob": (RunStatus.ABORTED, 1)}
    assert (over.status, len(runner.begun)) == ends[taken.answer.responder]


async def test_who_waits_for_a_run_that_is_over_is_answered_at_once(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner({"a": [0]}))
        info = await until_over(runs, (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id)
        with anyio.move_on_after(SOON_S) as scope:
            await runs.wait(info.run_id, info.number + 1_000, PATIENCE_S)
    assert not scope.cancelled_caught


@pytest.mark.parametrize("abort", [True, False])
async def test_a_program_whose_shim_is_stopped_is_ended_all_the_same(tmp_path: Path, abort: bool) -> None:
    """It is ended by an abort, or by its time limit."""
    async with running_bus(whole=True) as daemon:
        runs = flows_of(daemon).runs
        info = await without_its_shim(runs, tmp_path, None if abort else 300)
        with anyio.move_on_after(SOON_S) as scope:
            if abort:
                await runs.abort(info.run_id, "me")
                info = await until_over(runs, info.run_id)
            else:
                info = await until_waiting(runs, info.run_id)
        pid, shim = map(int, (tmp_path / "ready").read_text().split())
        if scope.cancelled_caught:  # or the broker of this test would wait for it as well
            os.kill(shim, signal.SIGCONT)
    assert not scope.cancelled_caught
    outcome = info.steps[0].tries[0].outcome
    assert outcome is not None
    assert outcome.kind is (OutcomeKind.ABORTED if abort else OutcomeKind.TIMED_OUT)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def without_its_shim(runs: RunTable, root: Path, limit_ms: int | None) -> RunInfo:
    """Return a run once its program has stopped its shim; where its time was over before that it gets more."""
    script = "kill -STOP $PPID; echo $$ $PPID > ready; exec sleep 600"
    stuck = step("a", command=("/bin/sh", "-c", script), time_limit_ms=limit_ms, grace_ms=100, max_retries=0)
    info = await runs.submit(flow(root, stuck), by="me")
    await until_true(lambda: has_stopped_it(root) or runs.info(info.run_id).status is RunStatus.WAITING)
    if limit_ms is None or has_stopped_it(root):
        return info
    await runs.abort(info.run_id, "me")
    await until_over(runs, info.run_id)
    return await without_its_shim(runs, root, 2 * limit_ms)


def has_stopped_it(root: Path) -> bool:
    ready = root / "ready"
    return ready.exists() and ready.read_text().endswith("\n")
