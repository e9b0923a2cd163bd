"""Runs over the end of their broker: what ran is run again and says so, what waited waits on, receipts come once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lifebus_broker.ports import Query
from lifebus_contract.codec import decode_receipt
from lifebus_contract.flows import OutcomeKind, RetryPause
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_contract.runs import RunStatus, StepStatus
from lifebus_supervisor.runtime import composing
from lifebus_supervisor.runtime.clocks import Clocks
from support.flows import ScriptedRunner, exited, flow, statuses, step, until, until_over, until_waiting
from support.integration.following import until as until_true
from support.parts import flows_of
from support.running import running_bus, short_directory

Script = Callable[[dict[str, list[int]]], ScriptedRunner]


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of one broker after the other."""
    with short_directory() as path:
        yield path


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Has the next broker run its tries by a script, those that it goes on with included."""

    def use(codes: dict[str, list[int]]) -> ScriptedRunner:
        runner = ScriptedRunner(codes)

        def compose(*_: object) -> ScriptedRunner:
            return runner

        monkeypatch.setattr(composing, "Tries", compose)
        return runner

    return use


async def test_a_try_that_was_under_way_runs_again_and_uses_up_no_retry(
    tmp_path: Path, home: Path, script: Script
) -> None:
    for life in range(3):
        runner = script({"a": [0]})
        async with running_bus(whole=True, directory=home) as daemon:
            runs = flows_of(daemon).runs
            info = await runs.submit(flow(tmp_path, step("a"), step("b", "a")), run_id="r", by="me")
            await runner.wait_for("b")
            assert runner.begun == ([("a", 1)] if not life else []) + [("b", life + 1)]
    script({"b": [0]})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        info = await until_over(runs, "r")
    assert info.status is RunStatus.COMPLETED
    assert info.interruptions == 3
    kinds = [one.outcome.kind for one in info.steps[1].tries if one.outcome is not None]
    assert kinds == [OutcomeKind.INTERRUPTED] * 3 + [OutcomeKind.EXITED]
    assert {(one.series, one.retry) for one in info.steps[1].tries} == {(1, 0)}


async def test_a_question_waits_over_restarts_and_is_asked_once(tmp_path: Path, home: Path, script: Script) -> None:
    for _ in range(2):
        script({"a": [2]})
        async with running_bus(whole=True, directory=home) as daemon:
            runs = flows_of(daemon).runs
            info = await runs.submit(flow(tmp_path, step("a")), run_id="r", by="me")
            info = await until_waiting(runs, "r")
            assert [one.question.question_id for one in flows_of(daemon).inbox.questions()] == ["q_r_a_1"]
    script({"a": [0]})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        said = QuestionAnswer(action=AnswerAction.RETRY, responder="ann", responded_at_ms=1)
        await flows_of(daemon).inbox.answer("q_r_a_1", said)
        info = await until_over(runs, "r")
        assert len(flows_of(daemon).inbox.questions(open_only=False)) == 1
    assert statuses(info) == {"a": StepStatus.DONE}


async def test_a_pause_that_is_over_meanwhile_is_over_and_the_counter_is_kept(
    tmp_path: Path, home: Path, script: Script
) -> None:
    one = step("a", pause=RetryPause(first_ms=60_000, longest_ms=60_000, jitter_percent=0), max_retries=1)
    script({"a": [1]})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        await runs.submit(flow(tmp_path, one), run_id="r", by="me")
        info = await until(runs, "r", lambda info: info.steps[0].status is StepStatus.BACKING_OFF)
    due = info.steps[0].retry_at_ms
    assert due is not None
    runner = script({"a": [1]})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        runs.engine.clocks = Clocks(lambda: due, lambda: 0.0)
        runs.engine.advance(next(iter(runs.runs())))
        info = await until_waiting(runs, "r")
    assert runner.begun == [("a", 2)]
    assert [one.retry for one in info.steps[0].tries] == [0, 1]


async def test_receipts_of_a_run_come_once_whatever_was_emitted_again(
    tmp_path: Path, home: Path, script: Script
) -> None:
    runner = script({"a": [0]})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        await runs.submit(flow(tmp_path, step("a"), step("b")), run_id="r", by="me")
        await runner.wait_for("b")
    runner = script({})
    async with running_bus(whole=True, directory=home) as daemon:
        runs = flows_of(daemon).runs
        await runner.end("b", exited(0))
        await until_over(runs, "r")
        (run,) = runs.runs()
        await until_true(lambda: run.receipts is not None and not run.receipts.waiting)
        page = await daemon.bus.ledger.read(Query(session=("flow", "r"), limit=1_000))
    receipts = [decode_receipt(one.receipt) for one in page.stored]
    ids = [(one.event_id, one.client_id) for one in receipts]
    assert len(ids) == len(set(ids))
    ended = [one.telemetry_summary for one in receipts if one.event.value == "frame.ended"]
    assert [(one["frame_id"], one["frame_end"]) for one in ended] == [
        ("a#1", "completed"),
        ("b#1", "interrupted"),
        ("b#2", "completed"),
    ]
