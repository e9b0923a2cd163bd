"""What a run is on the bus: a session with frames, a pending question, and nothing that supervision watches."""

from itertools import count, pairwise
from pathlib import Path

from msgspec import structs

from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.selections import tells_of_failure
from lifebus_contract.questions import AnswerAction
from support.flows import (
    ScriptedRunner,
    answer,
    exited,
    flow,
    questions_of,
    receipts_of,
    step,
    until,
    until_over,
    until_waiting,
    use_runner,
)
from support.running import running_bus


async def test_a_run_is_a_session_and_its_tries_are_frames(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner({"a": [1, 2, 0]}))
        info = await until_waiting(runs, (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id)
        before = await receipts_of(daemon, info.run_id)
        await answer(daemon, info, AnswerAction.RETRY)
        await until_over(runs, info.run_id)
        after = await receipts_of(daemon, info.run_id)
    told = [(one.event.value, one.client_id.removeprefix("lifebus.flow")) for one in before]
    # Where a client is asked, its receipt stands for the emission.
    asked = [("frame.ending", ""), ("frame.ended", ".failures"), ("supervisor.tick", ".failures")]
    assert told == [
        ("session.starting", ""),
        ("session.started", ""),
        *[("frame.opening", ""), ("frame.opened", ""), *asked] * 2,
    ]
    failed = [one for one in before if one.failure_class is not None]
    assert [(str(one.failure_class), str(one.retry_class)) for one in failed] == [
        ("transport_error", "safe_retry"),
        ("transport_error", "do_not_retry"),
        ("operator_required", "retry_after_operator"),
    ]
    # The question is no failure of its own.
    assert [one for one in before if tells_of_failure(one)] == failed[:2]
    frames = [one.telemetry_summary["frame_id"] for one in after if one.event is LifecycleEvent.FRAME_ENDED]
    assert list(dict.fromkeys(frames)) == ["a#1", "a#2", "a#3"]
    assert after[-1].telemetry_summary["session_end"] == "completed"
    assert all(one < two for one, two in pairwise(one.sequence or 0 for one in after))


async def test_a_waiting_run_has_its_question_pending_until_it_is_answered(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner({"a": [2, 0]}))
        info = await until_waiting(runs, (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id)
        waiting = await questions_of(daemon, info.run_id)
        await answer(daemon, info, AnswerAction.RETRY)
        info = await until(runs, info.run_id, lambda info: info.steps[0].question_id is None)
        settled = await questions_of(daemon, info.run_id)
    assert waiting == [f"flow.escalation:str:q_{info.run_id}_a_1"]
    assert settled == []


async def test_supervision_leaves_a_run_alone_however_long_it_is_silent(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runner = ScriptedRunner()
        runs = use_runner(daemon, runner)
        run_id = (await runs.submit(flow(tmp_path, step("a")), by="me")).run_id
        await runner.wait_for("a")
        before = len(await receipts_of(daemon, run_id))
        supervisor = daemon.supervisor
        begun = supervisor.environment.now()
        days = count(1)

        def clock() -> float:
            """Each look at it is a day later."""
            return begun + next(days) * supervisor.limits.abandon_s

        supervisor.environment = structs.replace(supervisor.environment, now=clock)
        for _ in range(3):
            await supervisor.tick()
        assert [monitor.key for monitor in supervisor.monitors if monitor.key[0] == "flow"] == []
        assert len(await receipts_of(daemon, run_id)) == before
        await runner.end("a", exited(0))
        await until_over(runs, run_id)
