"""Runs in a broker of this process: order, retries, questions, aborts, roots, and runs that clients execute."""

from functools import partial
from pathlib import Path

import pytest

from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.flows import OnFailure, Outcome, OutcomeKind, RetryPause
from lifebus_contract.questions import AnswerAction, Modifiable, QuestionAnswer, QuestionKind
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.runtime.clocks import Clocks
from lifebus_supervisor.runtime.root_lock import RootLock
from lifebus_supervisor.runtime.run_records import RunEnded, TryEnded, TryStarted
from support.flows import (
    ScriptedRunner,
    answer,
    exited,
    flow,
    statuses,
    step,
    until,
    until_over,
    until_waiting,
    use_runner,
)
from support.integration.following import until as until_true
from support.parts import flows_of
from support.running import running_bus

DONE, SKIPPED, FAILED, ABORTED = StepStatus.DONE, StepStatus.SKIPPED, StepStatus.FAILED, StepStatus.ABORTED


async def test_steps_run_one_after_the_other_in_the_order_of_the_flow(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({name: [0] for name in "abc"})
        runs = use_runner(daemon, runner)
        info = await runs.submit(flow(tmp_path, step("b"), step("a"), step("c", "a")), by="me")
        info = await until_over(runs, info.run_id)
    assert info.status is RunStatus.COMPLETED
    assert [name for name, _ in runner.begun] == ["b", "a", "c"]
    assert runner.most == 1
    assert statuses(info) == dict.fromkeys("bac", DONE)


async def test_independent_steps_run_beside_one_another_up_to_the_limit_and_needs_are_kept(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner()
        runs = use_runner(daemon, runner)
        steps = (step("a"), step("b", "a"), step("c"), step("d"))
        info = await runs.submit(flow(tmp_path, *steps, max_parallel=2), by="me")
        await runner.wait_for("a", "c")
        await runner.end("c", exited(0))
        await runner.wait_for("a", "d")
        assert "b" not in runner.running
        await runner.end("a", exited(0))
        await runner.wait_for("b", "d")
        for name in "bd":
            await runner.end(name, exited(0))
        await until_over(runs, info.run_id)
    assert runner.most == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("code", [1, 64, 78])
async def test_a_step_is_retried_so_often_and_then_a_person_is_asked_once(
    tmp_path: Path, code: int, retries: int
) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [code] * 9})
        runs = use_runner(daemon, runner)
        info = await runs.submit(flow(tmp_path, step("a", max_retries=retries), step("b", "a")), by="me")
        info = await until_waiting(runs, info.run_id)
        assert runner.begun == [("a", number) for number in range(1, retries + 2)]
        assert [one.retry for one in info.steps[0].tries] == list(range(retries + 1))
        (question,) = flows_of(daemon).inbox.questions()
        assert question.question.question_id == info.steps[0].question_id
        assert question.question.kind is QuestionKind.ESCALATION
        await answer(daemon, info, AnswerAction.ABORT)
        assert (await until_over(runs, info.run_id)).status is RunStatus.ABORTED


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, QuestionKind.ESCALATION), (3, QuestionKind.ESCALATION), (126, QuestionKind.ALERT), (127, QuestionKind.ALERT)],
)
async def test_what_is_not_retried_is_asked_about_at_once(tmp_path: Path, code: int, kind: QuestionKind) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [code]})
        runs = use_runner(daemon, runner)
        info = await until_waiting(runs, (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id)
        (question,) = flows_of(daemon).inbox.questions()
    assert len(runner.begun) == 1
    assert question.question.kind is kind
    assert str(code) in question.question.reason
    assert ("no rule" in question.question.reason) is (code == 3)
    assert info.steps[0].status is StepStatus.ASKING


def backs_off(number: int, info: RunInfo) -> bool:
    """Whether the first step waits after so many tries."""
    one = info.steps[0]
    return one.status is StepStatus.BACKING_OFF and len(one.tries) == number


async def test_the_pause_is_drawn_once_and_kept_and_there_is_none_after_the_last_failure(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [1, 1, 1]})
        runs = use_runner(daemon, runner)
        times = [10_000]
        runs.engine.clocks = Clocks(lambda: times[0], lambda: 1.0)
        pause = RetryPause(first_ms=100, longest_ms=150, jitter_percent=20)
        info = await runs.submit(flow(tmp_path, step("a", pause=pause, max_retries=2)), by="me")
        due: list[int | None] = []
        for number, delay in ((1, 120), (2, 180)):
            info = await until(runs, info.run_id, partial(backs_off, number))
            due.append(info.steps[0].retry_at_ms)
            times[0] += delay
        info = await until_waiting(runs, info.run_id)
    assert due == [10_120, 10_300]
    assert [one.started_at_ms for one in info.steps[0].tries] == [10_000, 10_120, 10_300]


@pytest.mark.parametrize(
    ("action", "after"), [(AnswerAction.PROCEED, SKIPPED), (AnswerAction.RETRY, DONE), (AnswerAction.MODIFY, DONE)]
)
async def test_an_answer_steers_the_run(tmp_path: Path, action: AnswerAction, after: StepStatus) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [2, 0], "b": [0]})
        runs = use_runner(daemon, runner)
        one = step("a", modifiable=(Modifiable(name="depth", kind="integer"),))
        info = await until_waiting(runs, (await runs.submit(flow(tmp_path, one, step("b", "a")), by="me")).run_id)
        given = {"modifications": {"depth": 3}} if action is AnswerAction.MODIFY else {}
        await answer(daemon, info, action, **given)
        info = await until_over(runs, info.run_id)
        with pytest.raises(StateConflict, match="ann"):
            await answer(daemon, info, action) if info.steps[0].question_id else await flows_of(daemon).inbox.answer(
                f"q_{info.run_id}_a_1", QuestionAnswer(action=action, responder="bob", responded_at_ms=9)
            )
        (run,) = flows_of(daemon).runs.runs()
    assert info.status is RunStatus.COMPLETED
    assert statuses(info) == {"a": after, "b": DONE}
    assert run.state.steps["a"].modifications == given.get("modifications", {})
    assert [one.series for one in info.steps[0].tries] == [1, 2][: 1 if action is AnswerAction.PROCEED else 2]


async def test_a_fresh_series_has_all_of_its_retries(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [1, 1, 1, 1]})
        runs = use_runner(daemon, runner)
        info = await runs.submit(flow(tmp_path, step("a", max_retries=1)), by="me")
        info = await until_waiting(runs, info.run_id)
        first = info.steps[0].question_id
        await runs.retry(info.run_id, "a", "bob")
        info = await until_waiting(runs, info.run_id)
    assert [(one.series, one.retry) for one in info.steps[0].tries] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert info.steps[0].question_id != first


async def test_a_step_that_needs_approval_begins_when_somebody_agrees(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [0]})
        runs = use_runner(daemon, runner)
        info = await until_waiting(
            runs, (await runs.submit(flow(tmp_path, step("a", approval="deploy?")), by="me")).run_id
        )
        assert runner.begun == []
        await answer(daemon, info, AnswerAction.PROCEED)
        info = await until_over(runs, info.run_id)
    assert statuses(info) == {"a": DONE}


@pytest.mark.parametrize(
    ("on_failure", "status", "after"),
    [(OnFailure.ABORT, RunStatus.FAILED, FAILED), (OnFailure.SKIP, RunStatus.COMPLETED, SKIPPED)],
)
async def test_a_flow_may_say_what_follows_from_a_failure(
    tmp_path: Path, on_failure: OnFailure, status: RunStatus, after: StepStatus
) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [2]})
        runs = use_runner(daemon, runner)
        info = await until_over(
            runs, (await runs.submit(flow(tmp_path, step("a", on_failure=on_failure)), by="me")).run_id
        )
        assert flows_of(daemon).inbox.questions() == []
    assert (info.status, statuses(info)) == (status, {"a": after})


async def test_a_failed_run_goes_on_by_a_retry_with_what_was_stopped_beside_it(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [2]})
        runs = use_runner(daemon, runner)
        steps = (step("a", on_failure=OnFailure.ABORT), step("b"))
        run_id = (await runs.submit(flow(tmp_path, *steps, max_parallel=2), by="me")).run_id
        info = await until_over(runs, run_id)
        assert statuses(info) == {"a": FAILED, "b": ABORTED}
        runner.codes |= {"a": [0], "b": [0]}
        await runs.retry(run_id, "a", "me")
        info = await until_over(runs, run_id)
    assert (info.status, statuses(info)) == (RunStatus.COMPLETED, {"a": DONE, "b": DONE})


async def test_an_aborted_run_goes_on_by_a_retry_and_asks_anew_what_was_taken_back(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [0], "b": [0]})
        runs = use_runner(daemon, runner)
        steps = (step("a", approval="may it?"), step("b", "a"))
        run_id = (await runs.submit(flow(tmp_path, *steps), by="me")).run_id
        first = (await until_waiting(runs, run_id)).steps[0].question_id
        await runs.abort(run_id, "me")
        await until_over(runs, run_id)
        await runs.retry(run_id, "a", "me")
        info = await until_waiting(runs, run_id)
        assert info.steps[0].question_id != first
        await answer(daemon, info, AnswerAction.PROCEED)
        info = await until_over(runs, run_id)
    assert statuses(info) == {"a": DONE, "b": DONE}


async def test_an_abort_stops_what_runs_and_takes_back_what_is_asked(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [2]})
        runs = use_runner(daemon, runner)
        run_id = (await runs.submit(flow(tmp_path, step("a"), step("b"), max_parallel=2), by="me")).run_id
        await until(runs, run_id, lambda info: info.steps[0].status is StepStatus.ASKING)
        await runs.abort(run_id, "me", "enough")
        info = await until_over(runs, run_id)
        await until_true(lambda: not flows_of(daemon).inbox.questions())
        with pytest.raises(StateConflict) as refused:
            await runs.abort(run_id, "me")
    assert (info.status, info.reason) == (RunStatus.ABORTED, "enough")
    assert statuses(info) == {"a": ABORTED, "b": ABORTED}
    assert refused.value.code == "run_over"


async def test_one_run_holds_its_root_and_a_second_one_is_told_who(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "p")
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner()
        runs = use_runner(daemon, runner)
        first = await runs.submit(flow(tmp_path / "p", step("a")), by="me")
        with pytest.raises(StateConflict, match=first.run_id) as refused:
            await runs.submit(flow(tmp_path / "link", step("a")), by="me")
        assert refused.value.code == "root_taken"
        with pytest.raises(StateConflict, match=first.run_id):
            RootLock.take(daemon.settings.state_dir, str(tmp_path / "link"), "another process")
        await runner.end("a", exited(0))
        await until_over(runs, first.run_id)
        runner.codes["a"] = [0]
        again = await runs.submit(flow(tmp_path / "link", step("a")), by="me")
        await until_over(runs, again.run_id)


async def test_the_same_submission_is_the_same_run(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner({"a": [0]}))
        one = flow(tmp_path, step("a"))
        first = await runs.submit(one, run_id="mine", by="me")
        assert (await runs.submit(one, run_id="mine", by="me")).run_id == first.run_id
        with pytest.raises(StateConflict) as refused:
            await runs.submit(flow(tmp_path, step("b")), run_id="mine", by="me")
        assert refused.value.code == "run_exists"
        await until_over(runs, "mine")
        with pytest.raises(InvalidRequest):
            runs.info("other")


async def test_a_client_runs_a_run_by_records_and_is_told_what_others_recorded(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs, lock = flows_of(daemon).runs, None
        with pytest.raises(StateConflict, match="does not hold"):
            await runs.submit(flow(tmp_path, step("a")), owner="cmd", by="cmd")
        lock = RootLock.take(daemon.settings.state_dir, str(tmp_path), "the command")
        info = await runs.submit(flow(tmp_path, step("a"), name="x"), owner="cmd", by="cmd")
        assert (info.status, info.number) == (RunStatus.RUNNING, 2)
        claimed = await runs.claim(info.run_id, "cmd")
        assert claimed.number == 2
        began = await runs.record(info.run_id, "cmd", 2, [TryStarted(at_ms=1, step="a", number=1)])
        assert began.appended
        await runs.abort(info.run_id, "ann")
        ended = TryEnded(at_ms=2, step="a", number=1, outcome=Outcome(kind=OutcomeKind.ABORTED))
        stale = await runs.record(info.run_id, "cmd", 3, [ended])
        assert not stale.appended
        assert len(stale.records) == stale.number - 3
        over = RunEnded(at_ms=3, status=RunStatus.ABORTED)
        with pytest.raises(InvalidRequest):
            await runs.record(info.run_id, "cmd", stale.number, [ended, ended])
        with pytest.raises(StateConflict, match="other"):
            await runs.record(info.run_id, "other", stale.number, [ended])
        number = await _record(daemon, info.run_id, stale.number, ended)
        await _record(daemon, info.run_id, number, over)
        lock.close()
        assert runs.info(info.run_id).status is RunStatus.ABORTED


async def _record(daemon: Daemon, run_id: str, number: int, record: TryEnded | RunEnded) -> int:
    """Record as a client does: again behind what others recorded meanwhile."""
    progress = await flows_of(daemon).runs.record(run_id, "cmd", number, [record])
    while not progress.appended:
        progress = await flows_of(daemon).runs.record(run_id, "cmd", progress.number, [record])
    return progress.number


async def test_a_client_that_is_gone_leaves_an_interrupted_run_and_the_broker_resumes_it(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner({"a": [0]})
        runs = use_runner(daemon, runner)
        lock = RootLock.take(daemon.settings.state_dir, str(tmp_path), "the command")
        info = await runs.submit(flow(tmp_path, step("a")), owner="cmd", by="cmd")
        await runs.record(info.run_id, "cmd", 2, [TryStarted(at_ms=1, step="a", number=1)])
        await runs.check_owners()
        assert runs.info(info.run_id).status is RunStatus.RUNNING
        with pytest.raises(StateConflict, match="command"):
            await runs.resume(info.run_id, "ann")
        lock.close()
        await runs.check_owners()
        info = await until(runs, info.run_id, lambda info: info.status is RunStatus.INTERRUPTED)
        assert info.interruptions == 1
        await runs.resume(info.run_id, "ann")
        info = await until_over(runs, info.run_id)
    kinds = [one.outcome.kind for one in info.steps[0].tries if one.outcome is not None]
    assert kinds == [OutcomeKind.INTERRUPTED, OutcomeKind.EXITED]
    assert [one.retry for one in info.steps[0].tries] == [0, 0]
