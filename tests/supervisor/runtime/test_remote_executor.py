"""A run that is executed outside of its broker, over a connection that loses questions and answers."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from lifebus_contract import DeadlineExceeded, StateConflict, TransportError
from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo
from lifebus_contract.runs import RunInfo, RunStatus
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.runtime.clocks import wall_clocks
from lifebus_supervisor.runtime.ports import Progress
from lifebus_supervisor.runtime.remote.executor import RemoteExecutor
from lifebus_supervisor.runtime.root_lock import RootLock
from lifebus_supervisor.runtime.run_records import RunRecord, TryEnded, TryStarted
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.run_table import RunTable
from support.effort import effort
from support.flows import ScriptedRunner, flow, step, until
from support.parts import flows_of
from support.patience import PATIENCE_S
from support.running import running_bus

OWNER = "here-1"


class LossyPort:
    """The table of a broker; one of `odds` questions is lost, and as many answers of what was done."""

    def __init__(self, runs: RunTable, draw: random.Random, odds: int) -> None:
        self._runs, self._draw, self._odds = runs, draw, odds
        self.lost = 0

    async def claim(self, run_id: str, owner: str) -> Progress:
        return await self._runs.claim(run_id, owner)

    async def record(self, run_id: str, owner: str, after_number: int, records: Sequence[RunRecord]) -> Progress:
        self._lose(TransportError("lost on the way there", code="no_broker"))
        found = await self._runs.record(run_id, owner, after_number, records)
        self._lose(DeadlineExceeded("lost on the way back"))
        return found

    async def wait(self, run_id: str, after_number: int, wait_s: float) -> RunInfo:
        self._lose(TransportError("lost on the way there", code="no_broker"))
        return await self._runs.wait(run_id, after_number, wait_s)

    def _lose(self, fault: Exception) -> None:
        if self._odds and not self._draw.randrange(self._odds):
            self.lost += 1
            raise fault


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.runtime.remote.executor._AGAIN_S", 0)
    monkeypatch.setattr("lifebus_supervisor.runtime.remote.executor._SETTLE_S", 0)


@asynccontextmanager
async def locked(daemon: Daemon, root: Path) -> AsyncIterator[None]:
    lock = RootLock.take(daemon.settings.state_dir, str(root), "a test")
    try:
        yield
    finally:
        lock.close()


async def answer_all(daemon: Daemon) -> None:
    """Have every question answered with `retry`, as soon as it is asked."""
    sending, asked = anyio.create_memory_object_stream[QuestionInfo](64)
    flows_of(daemon).inbox.listen(sending.send_nowait)
    said = QuestionAnswer(action=AnswerAction.RETRY, responder="ann", responded_at_ms=5)
    with sending, asked:
        async for info in asked:
            if info.is_open:
                await flows_of(daemon).inbox.answer(info.question.question_id, said)


async def end_of(executor: RemoteExecutor, run_id: str) -> RunState | tuple[Exception, ...]:
    """Return how a run stands at its end, or why the executor gave it up."""
    try:
        with anyio.fail_after(PATIENCE_S):
            return await executor.run(run_id, anyio.Event())
    except ExceptionGroup as given_up:
        return given_up.exceptions


async def test_whatever_is_lost_each_try_runs_once_and_the_run_completes(tmp_path: Path) -> None:
    lost = 0
    async with running_bus(whole=True) as daemon, anyio.create_task_group() as tasks:
        tasks.start_soon(answer_all, daemon)
        for seed in range(effort(12, 500)):
            runner = ScriptedRunner({"a": [0], "b": [1, 0], "c": [2, 1, 0], "d": [0]})
            steps = (step("a"), step("b"), step("c", "a"), step("d", "b", "c"))
            port = LossyPort(flows_of(daemon).runs, random.Random(seed), seed % 4 + 2)
            states: list[RunState] = []
            async with locked(daemon, tmp_path):
                run_id = f"run-{seed}"
                await flows_of(daemon).runs.submit(
                    flow(tmp_path, *steps, max_parallel=2), run_id=run_id, owner=OWNER, by="me"
                )
                executor = RemoteExecutor(port, runner, wall_clocks(), OWNER, states.append)
                state = await end_of(executor, run_id)
            records = await flows_of(daemon).runs.engine.journal.read(run_id)
            lost += port.lost
            assert isinstance(state, RunState), (seed, state)
            assert state.ended is RunStatus.COMPLETED, seed
            expected = [("a", 1), ("b", 1), ("b", 2), ("c", 1), ("c", 2), ("c", 3), ("d", 1)]
            assert sorted(runner.begun) == expected, seed
            assert sorted((one.step, one.number) for one in records if isinstance(one, TryStarted)) == expected
            assert sorted((one.step, one.number) for one in records if isinstance(one, TryEnded)) == expected
            assert [one.number for one in states] == sorted(one.number for one in states)
        tasks.cancel_scope.cancel()
    assert lost > 12


async def test_a_try_begins_only_once_its_beginning_is_durable(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon, anyio.create_task_group() as tasks:
        runner, port = ScriptedRunner(), LossyPort(flows_of(daemon).runs, random.Random(0), 0)
        port._odds = 1  # nothing gets through
        async with locked(daemon, tmp_path):
            await flows_of(daemon).runs.submit(flow(tmp_path, step("a")), run_id="r", owner=OWNER, by="me")
            executor = RemoteExecutor(port, runner, wall_clocks(), OWNER)
            tasks.start_soon(executor.run, "r", anyio.Event())
            while port.lost < 5:
                await anyio.lowlevel.checkpoint()
            assert runner.begun == []
            port._odds = 0
            await runner.wait_for("a")
            tasks.cancel_scope.cancel()


async def test_an_abort_by_others_ends_what_runs_and_the_run(tmp_path: Path) -> None:
    ended: list[RunState] = []
    async with running_bus(whole=True) as daemon, anyio.create_task_group() as tasks:
        runner, port = ScriptedRunner(), LossyPort(flows_of(daemon).runs, random.Random(0), 0)
        async with locked(daemon, tmp_path):
            await flows_of(daemon).runs.submit(flow(tmp_path, step("a"), step("b")), run_id="r", owner=OWNER, by="me")

            async def execute() -> None:
                ended.append(await RemoteExecutor(port, runner, wall_clocks(), OWNER).run("r", anyio.Event()))

            tasks.start_soon(execute)
            await runner.wait_for("a")
            await flows_of(daemon).runs.abort("r", "ann", "enough")
            await until(flows_of(daemon).runs, "r", lambda info: info.status is RunStatus.ABORTED)
    assert [state.ended for state in ended] == [RunStatus.ABORTED]
    assert runner.begun == [("a", 1)]


async def test_a_run_that_another_one_took_over_is_left_alone(tmp_path: Path) -> None:
    ended: list[RunState] = []
    async with running_bus(whole=True) as daemon:
        flows_of(daemon).runs.engine.runner = theirs = ScriptedRunner({"a": [0]})
        runner, port = ScriptedRunner(), LossyPort(flows_of(daemon).runs, random.Random(0), 0)
        lock = RootLock.take(daemon.settings.state_dir, str(tmp_path), "a test")
        await flows_of(daemon).runs.submit(flow(tmp_path, step("a")), run_id="r", owner=OWNER, by="me")

        async def execute() -> None:
            ended.append(await RemoteExecutor(port, runner, wall_clocks(), OWNER).run("r", anyio.Event()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execute)
            await runner.wait_for("a")
            # As if this process had been thought dead: its lock is gone.
            lock.close()
            await flows_of(daemon).runs.check_owners()
            with anyio.fail_after(PATIENCE_S):
                while not ended:
                    await anyio.lowlevel.checkpoint()
            await flows_of(daemon).runs.resume("r", "ann")
            await until(flows_of(daemon).runs, "r", lambda info: info.status is RunStatus.COMPLETED)
    assert (runner.begun, theirs.begun) == ([("a", 1)], [("a", 2)])
    assert not runner.running


async def test_nobody_runs_what_somebody_else_runs(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        flows_of(daemon).runs.engine.runner = runner = ScriptedRunner()
        await flows_of(daemon).runs.submit(flow(tmp_path, step("a")), run_id="r", by="me")
        executor = RemoteExecutor(flows_of(daemon).runs, ScriptedRunner(), wall_clocks(), OWNER)
        with pytest.raises(StateConflict) as refused:
            await executor.run("r", anyio.Event())
        assert refused.value.code == "root_taken"
        await flows_of(daemon).runs.abort("r", "me")
        await until(flows_of(daemon).runs, "r", lambda info: info.status.is_over)
        assert runner.begun == [("a", 1)]
