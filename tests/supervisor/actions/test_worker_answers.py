"""Workers' answers: what they ask for is done in order, in an extension's name, and told."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    ActionOutcome,
    ActionRequest,
    ActionScope,
    ActionStatus,
    ExtensionCapabilities,
)
from lifebus_contract.jobs import ExpectResponse, JobState, NewJob
from lifebus_supervisor.actions.rules.answers import WorkerJob
from lifebus_supervisor.actions.worker_answers import AnsweringCommands, WorkerAnswers
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.extensions.ports import AgentTrust
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_supervisor.queue.command_jobs import command_type
from lifebus_supervisor.queue.definitions import define
from lifebus_supervisor.queue.ports import AttemptTools
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from support.actions.boxes import SCOPE, steer, upsert
from support.broker_process import until
from support.extensions.scene import write_extension
from support.integration.observing import Observer, signal
from support.parts import sessions_of
from support.running import connected, running_bus
from support.transcripts.boxes import Box, transcript_box

REVIEWER = """
    from lifebus.extensions import on

    @on("turn.completed")
    async def completed(event):
        return None
    """


class Executor:
    """Answers each action with the next of its statuses; `asked` has what came."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)
        self.asked: list[tuple[ActionRequest, ActionScope, str]] = []

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        self.asked.append((request, scope, requested_by))
        return ActionOutcome(status=ActionStatus(self.statuses.pop(0) if self.statuses else "performed"))


class Recovered:
    """Commands of a broker before, which have all ended in the same way."""

    def __init__(self, end: AttemptEnd) -> None:
        self._end = end

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        return self._end

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        return self._end

    async def forget(self, job_ids: Sequence[str]) -> None:
        raise AssertionError(job_ids)


def standing(payload: dict[str, Any]) -> JobStanding:
    new = NewJob(type="command", project_id="p1", source_session_id="s1", payload=payload)
    kind = command_type(Recovered(AttemptEnd()))
    return JobStanding(definition=define(new, kind, QueueSettings(), "j1"), payload=payload, created_at_ms=1)


class Agents:
    """One extension, of the agent `agent`, that declares steers alone."""

    def __init__(self, mode: TrustMode = TrustMode.WARN) -> None:
        self.loaded = anyio.Event()
        self.loaded.set()
        self.mode = mode

    def agent(self, agent_id: str) -> AgentTrust | None:
        declared = ExtensionCapabilities(actions=("turn.steer.create",))
        return AgentTrust("its-folder", self.mode, declared) if agent_id == "agent" else None


class Tools:
    """What an attempt has; it is cancelled after so many reports."""

    def __init__(self, most: int = 99) -> None:
        self.cancelled = anyio.Event()
        self.reports: list[Any] = []
        self._most = most

    async def progress(self, report: Any) -> None:
        self.reports.append(report)
        if len(self.reports) == self._most:
            self.cancelled.set()

    async def place(self, thread_id: str | None, turn_id: str | None, host: str | None = None) -> None:
        raise AssertionError(thread_id, turn_id, host)


def intent(action_type: str = "turn.steer.create", payload: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"kind": "action_request", "actionType": action_type, "payload": steer() if payload is None else payload}


def batch(*intents: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "action_intents", "intents": list(intents)}


def job(expects: ExpectResponse = ExpectResponse.ACTION_INTENTS, agent: str = "agent") -> WorkerJob:
    return WorkerJob(job_id="j1", agent=agent, job_kind="review", expects=expects, scope=SCOPE)


async def end(
    box: Box, executor: Executor, answer: Any, *, tools: Tools | None = None, agents: Agents | None = None, **of: Any
) -> AttemptEnd:
    answers = WorkerAnswers(box.store, box.clock)
    answers.executor, answers.agents = executor, agents or Agents()
    return await answers.end(job(**of), answer, tools)


def texts(entries: Sequence[Any]) -> dict[str, str]:
    return {one.message_id: one.content for one in entries}


async def test_intents_are_done_in_order_and_told() -> None:
    executor, tools = Executor("performed", "conflict"), Tools()
    async with transcript_box("s1") as box:
        answer = json.dumps(batch(intent(), intent("queue.enqueue", {})))
        ended = await end(box, executor, f"```json\n{answer}\n```", tools=tools)
        assert ended.error is None
        assert [one["status"] for one in ended.result["actionResults"]] == ["performed", "conflict"]
        assert [one["payload"] for one in ended.result["actionIntents"]] == [steer(), {}]
        assert [(one.action_type, scope, by) for one, scope, by in executor.asked] == [
            ("turn.steer.create", SCOPE, "its-folder"),
            ("queue.enqueue", SCOPE, "its-folder"),
        ]
        assert tools.reports == [
            {"stage": "action_intent", "index": 1, "actionType": "turn.steer.create", "status": "performed"},
            {"stage": "action_intent", "index": 2, "actionType": "queue.enqueue", "status": "conflict"},
        ]
        (entry,) = await box.entries("s1")
        assert (entry.message_id, entry.type, entry.turn_id) == ("agent-job-output::j1", "agent.jobOutput", "t1")
        assert json.loads(entry.details or "")["statuses"] == {"conflict": 1, "performed": 1}


async def test_one_that_was_wrong_stops_none_and_fails_the_job() -> None:
    executor = Executor("performed", "failed", "performed")
    async with transcript_box("s1") as box:
        ended = await end(box, executor, batch(intent(), intent(), intent("queue.enqueue", {})))
        assert len(executor.asked) == 3
        assert ended.error is not None
        assert "turn.steer.create:performed, turn.steer.create:failed, queue.enqueue:performed" in ended.error
        assert not ended.retryable


async def test_keys_follow_from_the_intents() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        turned = intent(payload=dict(reversed(steer().items())))
        await end(box, executor, batch(intent(), turned, {**intent(), "idempotencyKey": "own"}))
        first, second, own = (one.idempotency_key for one, _, _ in executor.asked)
        assert first == second
        assert str(first).startswith("agent-intent:p1:s1:t1:review:")
        assert own == "own"


async def test_what_its_extension_does_not_declare_is_forbidden_where_trust_is_enforced() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        agents = Agents(TrustMode.ENFORCED)
        ended = await end(box, executor, batch(intent(), intent("queue.enqueue", {})), agents=agents)
        assert [one.action_type for one, _, _ in executor.asked] == ["turn.steer.create"]
        assert "queue.enqueue:forbidden" in str(ended.error)


async def test_where_trust_warns_what_its_extension_does_not_declare_is_done_and_logged() -> None:
    async with transcript_box("s1") as box:
        for mode, count in ((TrustMode.WARN, 1), (TrustMode.DISABLED, 0)):
            executor = Executor()
            with structlog.testing.capture_logs() as logs:
                await end(box, executor, batch(intent(), intent("queue.enqueue", {})), agents=Agents(mode))
            assert [one.action_type for one, _, _ in executor.asked] == ["turn.steer.create", "queue.enqueue"]
            found = [(one["module"], one["action"]) for one in logs if one["event"] == "action_not_declared"]
            assert found == [("its-folder", "queue.enqueue")] * count


async def test_a_command_may_answer_with_a_text_as_a_json_string() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        answers = WorkerAnswers(box.store, box.clock)
        answers.executor, answers.agents = executor, Agents()
        text = f"This is what I want:\n```json\n{json.dumps(batch(intent()))}\n```\nDone."
        jobs = AnsweringCommands(Recovered(AttemptEnd(result=text)), answers)
        worker = {"agent": "agent", "jobKind": "review", "turnId": "t1"}
        ended = await jobs.recover(standing({"argv": ["x"], "cwd": "/", "worker": worker}))
        assert ended is not None
        assert ended.error is None
        assert [one.action_type for one, _, _ in executor.asked] == ["turn.steer.create"]


@pytest.mark.parametrize(
    ("answer", "agent", "why"),
    [("I have done it.", "agent", "no JSON"), (batch(), "agent", "no batch"), (batch(intent()), "who", "`who`")],
)
async def test_an_answer_that_cannot_be_done_fails_the_job_and_does_nothing(answer: Any, agent: str, why: str) -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        ended = await end(box, executor, answer, agent=agent)
        assert why in str(ended.error)
        assert not executor.asked
        assert not ended.retryable


async def test_a_job_that_is_cancelled_does_no_further_intent() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        ended = await end(box, executor, batch(*[intent()] * 5), tools=Tools(most=2))
        assert len(executor.asked) == 2
        assert ended.error is not None
        assert ended.retryable


async def test_other_expectations_ask_for_nothing() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        answer = json.dumps(batch(intent()))
        none = await end(box, executor, answer, expects=ExpectResponse.NONE)
        text = await end(box, executor, answer, expects=ExpectResponse.ASSISTANT_TEXT)
        assert none.result == {"status": "ok"}
        assert text.result == {"status": "ok", "outputText": answer}
        assert not executor.asked


async def test_a_result_stays_within_its_bound() -> None:
    async with transcript_box("s1") as box:
        ended = await end(box, Executor(), batch(*[intent(payload={**steer(), "input": "x" * 4_000})] * 32))
        assert len(json.dumps(ended.result)) < 49_152
        assert [one["status"] for one in ended.result["actionResults"]] == ["performed"] * 32


async def test_a_command_that_ended_without_its_broker_has_its_intents_done_by_the_next_one() -> None:
    executor = Executor()
    async with transcript_box("s1") as box:
        answers = WorkerAnswers(box.store, box.clock)
        agents = Agents()
        answers.executor, answers.agents = executor, agents
        agents.loaded = anyio.Event()
        jobs = AnsweringCommands(Recovered(AttemptEnd(result=batch(intent()))), answers)
        ended: list[AttemptEnd | None] = []

        async def recover(payload: dict[str, Any]) -> None:
            ended.append(await jobs.recover(standing(payload)))

        worker = {"agent": "agent", "jobKind": "review", "turnId": "t1"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recover, {"argv": ["x"], "cwd": "/", "worker": worker})
            await anyio.wait_all_tasks_blocked()
            assert not ended, "the extensions are not loaded yet"
            agents.loaded.set()
        assert [one.result["actionResults"][0]["status"] for one in ended if one is not None] == ["performed"]
        assert executor.asked[0][1] == ActionScope(project_id="p1", source_session_id="s1", turn_id="t1")
        await recover({"argv": ["x"], "cwd": "/"})
        assert ended[-1] == AttemptEnd(result=batch(intent()))
        assert len(executor.asked) == 1


async def test_a_command_is_a_worker(tmp_path: Path) -> None:
    write_extension(tmp_path / "agents", "reviewer", REVIEWER)
    answer = json.dumps(batch(intent("transcript.upsert", upsert("reviewed")), intent("transcript.upsert", upsert())))
    payload = {
        "argv": ["printf", "%s\n", answer],
        "cwd": "/",
        "worker": {"agent": "reviewer", "jobKind": "review", "turnId": "t1"},
    }
    extensions = ExtensionSettings(roots=(str(tmp_path / "agents"),))
    async with running_bus(whole=True, extensions=extensions) as daemon, connected(daemon) as bus:
        await until(lambda: bool(sessions_of(daemon).extensions.current.modules))
        await Observer(bus).observe(signal("s1"))
        new = NewJob(type="command", project_id="p1", source_session_id="s1", payload=payload)
        done = await bus.jobs.wait((await bus.jobs.enqueue(new)).job.id)
        assert (done.state, done.error) == (JobState.COMPLETED, None)
        assert [one["status"] for one in done.result["actionResults"]] == ["performed", "performed"]
        told = texts(await bus.transcripts.entries("s1"))
        assert told["m1"] == "text"
        assert told[f"agent-job-output::{done.id}"] == "2 performed"
        stranger = {**payload, "worker": {**payload["worker"], "agent": "nobody"}}  # type: ignore[dict-item]
        lost = await bus.jobs.enqueue(NewJob(type="command", project_id="p1", payload=stranger))
        failed = await bus.jobs.wait(lost.job.id)
        assert failed.state is JobState.FAILED
        assert "`nobody`" in str(failed.error)
