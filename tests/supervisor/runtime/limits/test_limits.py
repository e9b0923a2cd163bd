"""Runs near their limits, in a broker of this process: signals, one event a crossing, questions, costs."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from lifebus_broker.ports import Query
from lifebus_contract import InvalidRequest
from lifebus_contract.codec import decode_receipt
from lifebus_contract.flows import Budget, HarnessPrompt, Outcome, StepDefinition
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import CostRecord, LogEvent, RunStatus, StepStatus
from lifebus_supervisor.runtime import composing
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd
from lifebus_supervisor.runtime.rules.run_reducer import reduce_run
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.tries import Tries
from support.flows import ScriptedRunner, exited, flow, step, until, until_over, until_waiting, use_runner
from support.integration.following import until as until_true
from support.parts import flows_of
from support.patience import PATIENCE_S
from support.run_scene import Scene, scene
from support.running import running_bus, short_directory


@pytest.mark.parametrize(("percent", "near_at"), [(80, 800), (79, 790), (1, 10), (100, 1_000), (33, 330)])
async def test_a_time_limit_is_near_from_its_share_on_and_that_is_one_event(
    tmp_path: Path, percent: int, near_at: int
) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a", time_limit_ms=1_000), near_limit_percent=percent))
        await at.runner.wait_for("a")
        at.pass_ms(near_at - 1)
        found = await at.signals()
        assert (found.time_remaining_ms, found.is_approaching_limit, found.near) == (1_001 - near_at, False, ())
        assert await at.pressures() == []
        at.pass_ms(1)
        found = await at.signals()
        assert (found.time_remaining_ms, found.is_approaching_limit, found.near) == (1_000 - near_at, True, ("time",))
        for _ in range(3):
            at.pass_ms(1)
        (pressure,) = await at.pressures()
        assert pressure.telemetry_summary["near"] == "time"
        assert pressure.telemetry_summary["step"] == "a"


async def test_the_timer_itself_notices_that_time_is_nearly_over(tmp_path: Path) -> None:
    async with running_bus(whole=True) as daemon:
        runs = use_runner(daemon, ScriptedRunner())
        info = await runs.submit(flow(tmp_path, step("a", time_limit_ms=40), near_limit_percent=50), by="me")
        run = next(one for one in runs.runs() if one.run_id == info.run_id)
        await until(runs, info.run_id, lambda _: run.state.steps["a"].near == ("time",))


async def test_each_try_has_its_own_time_and_crosses_by_itself(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a", time_limit_ms=1_000)))
        for expected in (1, 2):
            await at.runner.wait_for("a")
            assert (await at.signals()).time_remaining_ms == 1_000
            at.pass_ms(900)
            assert len(await at.pressures()) == expected
            await at.runner.end("a", exited(1))
            await until_true(lambda n=expected: len(at.runner.begun) == n + 1)  # type: ignore[misc]
            assert (await at.signals()).retry_count == expected


async def test_tokens_of_the_newest_call_fill_the_context_and_each_crossing_is_one_event(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), context_tokens=1_000))
        await at.runner.wait_for("a")
        assert ((await at.signals()).context_tokens_used, (await at.signals()).context_tokens_available) == (
            None,
            1_000,
        )
        crossings = []
        for tokens in (799, 800, 950, 100, 300, 800):
            await at.cost(tokens - 9, output_tokens=9)
            found = await at.signals()
            assert (found.context_tokens_used, found.context_tokens_available) == (tokens, 1_000 - tokens)
            assert found.is_approaching_limit is (tokens >= 800)
            crossings.append(len(await at.pressures()))
        assert crossings == [0, 1, 1, 1, 1, 2]
        newest = (await at.pressures())[-1].telemetry_summary
        assert (newest["context_used_tokens"], newest["context_used_pct"]) == (800, 80)
        assert found.sources == {
            "context_tokens_used": "calls: the newest one of this try",
            "context_tokens_available": "flow: context_tokens",
        }


async def test_a_prompt_is_estimated_until_something_is_measured(tmp_path: Path) -> None:
    prompt = StepDefinition(step_id="a", prompt=HarnessPrompt(adapter_id="claude", text="ü" * 200))
    async with scene() as at:
        await at.submit(flow(tmp_path, prompt))
        await at.runner.wait_for("a")
        found = await at.signals()
        assert (found.context_tokens_used, found.context_tokens_available) == (100, None)
        assert found.sources["context_tokens_used"].startswith("estimate")
        await at.cost(5_000)
        assert (await at.signals()).context_tokens_used == 5_000


async def test_a_person_is_asked_before_a_budget_is_used_up_and_nothing_begins_meanwhile(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), step("b", "a"), step("c", "b"), budget=Budget(tokens=1_000)))
        await at.runner.wait_for("a")
        await at.cost(799)
        assert (await at.settled()).question_id is None
        await at.cost(1)
        question = (await at.question()).question
        assert (question.kind, question.step_id) == (QuestionKind.BUDGET, None)
        assert "800 of 1,000 tokens are used (80 %)" in question.reason
        assert question.actions == (AnswerAction.PROCEED, AnswerAction.ABORT, AnswerAction.MODIFY)
        # What runs goes on; what comes next waits.
        await at.runner.end("a", exited(0))
        info = await until(at.runs, at.run_id, lambda info: info.steps[0].status is StepStatus.DONE)
        assert info.status is RunStatus.WAITING
        assert [name for name, _ in at.runner.begun] == ["a"]
        # The same budget again, counted from here.
        await at.answer(AnswerAction.PROCEED)
        await at.runner.wait_for("b")
        await at.cost(799, "b")
        assert (await at.settled()).question_id is None
        await at.cost(1, "b")
        assert (await at.settled()).question_id is not None
        await at.answer(AnswerAction.MODIFY, modifications={"tokens": 4_000})
        await at.cost(1_599, "b")  # 3,199 in all, from the beginning
        assert (await at.settled()).question_id is None
        await at.cost(1, "b")
        await at.answer(AnswerAction.ABORT)
        assert (await until_over(at.runs, at.run_id)).status is RunStatus.ABORTED
        assert [one.telemetry_summary["near"] for one in await at.pressures()] == ["budget.tokens"] * 3
        kinds = [one.data["kind"] for one in await at.runs.accounts.events(at.run_id) if one.event == "lifebus.asked"]
        assert kinds == ["budget"] * 3


async def test_a_time_budget_counts_while_tries_run_and_not_while_people_are_waited_for(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), step("b", "a"), budget=Budget(time_ms=1_000)))
        await at.runner.wait_for("a")
        at.pass_ms(500)
        assert (await at.signals()).time_remaining_ms == 500
        await at.runner.end("a", exited(2))
        await until_waiting(at.runs, at.run_id)
        at.pass_ms(3_600_000)
        assert (await at.signals()).time_remaining_ms == 500
        assert (await at.settled()).question_id is None
        await at.runs.retry(at.run_id, "a", "ann")
        await at.runner.wait_for("a")
        at.pass_ms(299)
        assert (await at.settled()).question_id is None
        at.pass_ms(1)
        assert (await at.question()).question.kind is QuestionKind.BUDGET


async def test_money_is_asked_about_and_a_run_that_ends_takes_its_question_back(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), budget=Budget(cost_micros=2_000_000)))
        await at.runner.wait_for("a")
        await at.cost(1, cost_micros=1_600_000)
        question = (await at.question()).question
        assert "1.60 of 2.00 US dollars are spent (80 %)" in question.reason
        withdrawn = anyio.Event()
        flows_of(at.daemon).inbox.listen(lambda info: None if info.is_open else withdrawn.set())
        await at.runner.end("a", exited(0))
        assert (await until_over(at.runs, at.run_id)).status is RunStatus.COMPLETED
        with anyio.fail_after(PATIENCE_S):
            await withdrawn.wait()


async def test_calls_are_counted_once_and_a_model_without_a_price_is_an_error_and_unpriced(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), step("b", "a")))
        for output in (1, 5, 40, 40):
            await at.cost(100, key="msg_1:req_1", output_tokens=output, cost_micros=output)
        before = (await at.settled()).number
        await at.cost(100, key="msg_1:req_1", output_tokens=40, cost_micros=40)
        assert (await at.settled()).number == before  # nothing was written
        with pytest.raises(InvalidRequest) as raised:
            await at.cost(10, "b", model="no-such-model", calls=3)
        assert raised.value.code in {"unknown_model", "no_prices"}
        found = at.runs.accounts.costs(at.run_id)
        assert (found.calls, found.unpriced_calls, found.cost_micros) == (4, 3, 40)
        assert (found.input_tokens, found.output_tokens) == (110, 40)
        assert {name: one.calls for name, one in found.by_step.items()} == {"a": 1, "b": 3}
        info = at.runs.info(at.run_id)
        assert (info.tokens, info.cost_micros, info.unpriced_calls) == (150, 40, 3)
        with pytest.raises(InvalidRequest, match="no `z`; it has a, b"):
            await at.cost(1, "z")


async def test_what_was_seen_at_the_end_of_a_try_is_counted_with_it_and_once(tmp_path: Path) -> None:
    async with scene(a=[1, 0]) as at:
        end = at.runner.run

        async def run(state: RunState, step_id: str, cancelled: anyio.Event) -> ObservedEnd:
            # Both tries see the files of the first one.
            costs = tuple(
                CostRecord(run_id=state.run_id, step_id="a", key=f"m{n}", input_tokens=450, cost_micros=7)
                for n in range(state.steps["a"].number)
            )
            return msgspec.structs.replace(await end(state, step_id, cancelled), costs=costs)

        at.runner.run = run  # type: ignore[method-assign]
        await at.submit(flow(tmp_path, step("a"), context_tokens=500))
        await until_over(at.runs, at.run_id)
        found = at.runs.accounts.costs(at.run_id)
        assert (found.calls, found.cost_micros) == (2, 14)
        assert [one.telemetry_summary["near"] for one in await at.pressures()] == ["context_tokens"] * 2


async def test_the_records_lead_to_the_same_limits_again(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), step("b", "a"), budget=Budget(tokens=1_000, time_ms=10_000)))
        await at.runner.wait_for("a")
        await at.cost(900, key="k")
        at.pass_ms(3_000)
        await at.answer(AnswerAction.PROCEED)
        await at.runner.end("a", exited(0))
        await at.runner.wait_for("b")
        await at.cost(950, key="k")
        state = await at.settled()
        records = await at.runs.engine.journal.read(at.run_id)
        assert reduce_run(at.run_id, records) == state
        assert state.limits.use(at.times[0]).time_ms == 3_000


async def test_the_log_has_what_happened_and_what_clients_had_kept_in_order(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a", max_retries=0)))
        await at.runner.wait_for("a")
        own = LogEvent(event="com.example.measured", run_id=at.run_id, step_id="a", at_ms=5, data={"ms": [1, {}]})
        await at.runs.accounts.log(own)
        await at.runner.end("a", Outcome(kind=exited(2).kind, code=2))
        await until_waiting(at.runs, at.run_id)
        found = list(await at.runs.accounts.events(at.run_id))
        assert [(one.event.removeprefix("lifebus."), one.step_id) for one in found] == [
            ("run_submitted", None),
            ("run_attached", None),
            ("try_started", "a"),
            ("com.example.measured", "a"),
            ("try_failed", "a"),
            ("asked", "a"),
        ]
        assert found[3] == own
        with pytest.raises(InvalidRequest) as raised:
            await at.runs.accounts.log(msgspec.structs.replace(own, data={"x": "y" * 9_000}))
        assert raised.value.code == "log_full"


async def test_a_prompt_is_counted_by_its_session_s_file_and_near_its_limit_in_time(tmp_path: Path) -> None:
    """A program in the place of Claude Code, that writes what the real one writes."""
    project = tmp_path / "project"
    project.mkdir()
    usage = {"input_tokens": 10, "cache_read_input_tokens": 780, "output_tokens": 20}
    line = {"type": "assistant", "requestId": "r1", "message": {"id": "m1", "model": "no-such-model", "usage": usage}}
    said = [{"type": "system", "session_id": "s1"}, line, {"type": "result", "session_id": "s1", "is_error": False}]
    text = msgspec.json.encode(line).decode()
    (tmp_path / "claude").write_text(
        f"#!/bin/sh\nmkdir -p $HOME/.claude/projects/p\necho '{text}\n{text}' > $HOME/.claude/projects/p/s1.jsonl\n"
        + "".join(f"echo '{msgspec.json.encode(one).decode()}'\n" for one in said)
    )
    (tmp_path / "claude").chmod(0o700)
    async with running_bus(whole=True) as daemon:
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
        flows_of(daemon).runs.engine.runner = Tries(daemon.settings.state_dir, environ)
        prompt = StepDefinition(step_id="a", prompt=HarnessPrompt(adapter_id="claude", text="x"))
        definition = flow(project, prompt, context_tokens=1_000)
        info = await until_over(flows_of(daemon).runs, (await flows_of(daemon).runs.submit(definition, by="me")).run_id)
        assert info.status is RunStatus.COMPLETED
        assert info.steps[0].tries[0].session == ("claude", "s1")
        found = flows_of(daemon).runs.accounts.costs(info.run_id)
        assert (found.calls, found.input_tokens, found.output_tokens, found.unpriced_calls) == (1, 790, 20, 1)
        at = Scene(daemon, flows_of(daemon).runs, ScriptedRunner(), [], info.run_id)
        assert [one.telemetry_summary["near"] for one in await at.pressures()] == ["context_tokens"]


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of one broker after the other."""
    with short_directory() as path:
        yield path


async def test_costs_and_the_question_about_a_budget_outlive_brokers(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = ScriptedRunner({"b": [0]})
    monkeypatch.setattr(composing, "Tries", lambda *_: runner)
    asked: set[str] = set()
    for life in range(3):
        async with running_bus(whole=True, directory=home) as daemon:
            steps = step("a", max_retries=0), step("b", "a")
            definition = flow(tmp_path, *steps, budget=Budget(tokens=1_000))
            await flows_of(daemon).runs.submit(definition, run_id="r", by="me")
            cost = CostRecord(run_id="r", step_id="a", key="m1", input_tokens=900, cost_micros=5)
            await flows_of(daemon).runs.accounts.cost(cost)
            at = Scene(daemon, flows_of(daemon).runs, runner, [], "r")
            asked.add((await at.question()).question.question_id)
            assert (flows_of(daemon).runs.info("r").tokens, flows_of(daemon).runs.accounts.costs("r").calls) == (900, 1)
            if life == 2:
                at.times.append(1)
                await at.answer(AnswerAction.PROCEED)
                await runner.end("a", exited(0))
                assert (await until_over(flows_of(daemon).runs, "r")).status is RunStatus.COMPLETED
                assert [one.telemetry_summary["near"] for one in await at.pressures()] == ["budget.tokens"]
    assert len(asked) == 1


async def test_a_try_is_told_what_is_left_for_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    said = step("a", command=("sh", "-c", "env | grep ^LIFEBUS_FLOW_ > told"), time_limit_ms=60_000, setting={"X": "1"})
    async with running_bus(whole=True) as daemon:
        definition = flow(tmp_path / "project", said, context_tokens=5_000, budget=Budget(time_ms=50_000))
        info = await until_over(flows_of(daemon).runs, (await flows_of(daemon).runs.submit(definition, by="me")).run_id)
        assert info.status is RunStatus.COMPLETED
        page = await daemon.bus.ledger.read(Query(session=("flow", info.run_id), limit=1_000))
        payloads = [one for row in page.stored for one in decode_receipt(row.receipt).payload_receipts]
    told = dict(line.split("=", 1) for line in (tmp_path / "project" / "told").read_text().splitlines())
    signals = msgspec.json.decode(told["LIFEBUS_FLOW_SIGNALS"])
    assert told["LIFEBUS_FLOW_CONTEXT_TOKENS_AVAILABLE"] == "5000"
    assert told["LIFEBUS_FLOW_TIME_REMAINING_MS"] == "50000"
    assert told["LIFEBUS_FLOW_IS_APPROACHING_LIMIT"] == "false"
    assert "LIFEBUS_FLOW_CONTEXT_TOKENS_USED" not in told
    assert (signals["time_remaining_ms"], signals["sources"]["time_remaining_ms"]) == (50_000, "flow: budget.time_ms")
    # Every field of the contract, also where it has its usual value: a script asks for it by name.
    assert (signals["retry_count"], signals["max_retries"], signals["is_approaching_limit"]) == (0, 3, False)
    assert (signals["context_tokens_available"], signals["context_tokens_used"], signals["near"]) == (5_000, None, [])
    assert [one.payload_kind for one in payloads] == ["flow.signals"]


async def test_two_days_that_only_the_clock_has_seen_are_one_question_and_the_budget_counts_on(tmp_path: Path) -> None:
    async with scene() as at:
        steps = (step("a"), step("b", "a"))
        await at.submit(flow(tmp_path, *steps, budget=Budget(time_ms=HOUR_MS)))
        await at.runner.wait_for("a")
        at.pass_ms(2 * 24 * HOUR_MS)
        first = (await at.question()).question.question_id
        for _ in range(3):
            at.pass_ms(1)
        assert len(await at.pressures()) == 1
        await at.answer(AnswerAction.PROCEED)
        # Somebody sets the clock right again: the next hour is an hour, and not two days.
        at.pass_ms(-2 * 24 * HOUR_MS)
        await at.runner.end("a", exited(0))
        await at.runner.wait_for("b")
        at.pass_ms(HOUR_MS * 79 // 100)
        assert (await at.settled()).question_id is None
        at.pass_ms(HOUR_MS // 50)
        assert (await at.question()).question.question_id != first
        assert len(await at.pressures()) == 2


HOUR_MS = 3_600_000
