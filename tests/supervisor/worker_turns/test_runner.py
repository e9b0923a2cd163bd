"""What becomes of a worker's job when an app-server, an observer or a broker is gone in the middle of its turn."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from lifebus_contract.jobs import AgentInstruction, NewJob, RunningContext
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState
from lifebus_supervisor.actions.worker_answers import WorkerAnswers
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.queue.definitions import define
from lifebus_supervisor.queue.records import JobStanding, WorkerAnswer
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from lifebus_supervisor.worker_turns import runner as module
from lifebus_supervisor.worker_turns.instructions import fault_of, instruction_type
from lifebus_supervisor.worker_turns.ports import BegunTurn, OwnThread
from lifebus_supervisor.worker_turns.runner import InstructionJobs
from lifebus_supervisor.worker_turns.turn_answers import TurnAnswers
from lifebus_transports.messages.signals import ObservedTurn
from support.broker_process import until
from support.transcripts.boxes import transcript_box

PAYLOAD = {
    "agent": "reviewer",
    "jobKind": "review",
    "projectId": "p1",
    "sourceSessionId": "s1",
    "threadId": "s1",
    "turnId": "u0",
    "instructionText": "look",
    "expectResponse": "assistant_text",
}
DONE = ControlOutcome(ControlState.DONE)
NOT_SENT = ControlOutcome(ControlState.UNREACHABLE, "nobody there")


class Threads:
    """App-servers that do as a test says; `log` is what they were asked."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened: OwnThread | ControlOutcome | None = None
        self.begins: list[BegunTurn] = []
        self.known: BegunTurn | None = None
        self.runs: bool | None = True
        self.observer: str | None = "o"
        self.ends: WorkerAnswer | None = None
        self.turns = TurnAnswers()

    async def open(self, source: str, sandbox: str) -> OwnThread | ControlOutcome:
        self.log.append(f"open beside {source}, {sandbox}")
        number = sum(one.startswith("open") for one in self.log)
        return self.opened or OwnThread("o", f"w{number}")

    async def begin(self, at: OwnThread, text: str, action_id: str, payload: AgentInstruction) -> BegunTurn:
        self.log.append(f"begin {at.thread}: {text}")
        return self.begins.pop(0) if self.begins else BegunTurn(DONE, "u1")

    async def begun(self, at: OwnThread, action_id: str) -> BegunTurn | None:
        self.log.append(f"begun {at.thread}")
        return self.known

    async def is_running(self, at: OwnThread, turn: str) -> bool | None:
        await anyio.lowlevel.checkpoint()
        return self.runs

    async def interrupt(self, at: OwnThread, turn: str | None) -> ControlOutcome:
        self.log.append(f"interrupt {at.origin} {at.thread} {turn}")
        if self.ends is not None:
            await self.end(self.ends.status, at.thread, turn=self.ends.turn_id, text=self.ends.text)
        return DONE

    async def present(self, origin: str, seconds: float) -> str | None:
        return self.observer

    async def end(self, status: Any, thread: str = "w1", **more: Any) -> None:
        more = {"turn": "u1", **more}
        await self.turns.take(ObservedTurn(thread=thread, status=status, **more))


class Tools:
    """What an attempt has; `places` are where it was said to be done."""

    def __init__(self) -> None:
        self.cancelled = anyio.Event()
        self.reports: list[Any] = []
        self.places: list[tuple[str | None, str | None, str | None]] = []

    async def progress(self, report: Any) -> None:
        self.reports.append(report)

    async def place(self, thread_id: str | None, turn_id: str | None, host: str | None = None) -> None:
        self.places.append((thread_id, turn_id, host))


class Marks:
    """The sessions that were marked as the broker's own."""

    def __init__(self) -> None:
        self.system: list[str] = []

    async def mark_system(self, session_id: str, at_ms: int) -> None:
        self.system.append(session_id)


class Box:
    """A runner of instructions, and what it acts on."""

    def __init__(self, tasks: TaskGroup, answers: WorkerAnswers) -> None:
        self.threads, self.tools, self.marks = Threads(), Tools(), Marks()
        self.ended: list[AttemptEnd | None] = []
        self.jobs = InstructionJobs(
            self.threads, self.marks, self.threads.turns, answers, tasks, lambda: 1, "workspace-write"
        )
        self._tasks = tasks

    def start(self, **more: Any) -> None:
        async def run() -> None:
            self.ended.append(await self.jobs.run(standing(**more), self.tools))

        self._tasks.start_soon(run)

    async def end(self) -> AttemptEnd | None:
        await until(lambda: bool(self.ended))
        return self.ended.pop()

    async def began(self, count: int = 1) -> None:
        await until(lambda: sum(place[1] is not None for place in self.tools.places) == count)


def standing(*, tries: int = 1, context: RunningContext | None = None, **more: Any) -> JobStanding:
    fields = {name: more.pop(name) for name in ("host", "answer") if name in more}
    payload = {**PAYLOAD, **more}
    new = NewJob(type="agent_instruction", project_id="p1", source_session_id="s1", payload=payload)
    definition = define(new, instruction_type(None, 1), QueueSettings(), "j1")  # type: ignore[arg-type]
    where = context or RunningContext()
    return JobStanding(definition=definition, payload=payload, created_at_ms=1, tries=tries, context=where, **fields)


@asynccontextmanager
async def box(monkeypatch: pytest.MonkeyPatch | None = None, **seconds: float) -> AsyncGenerator[Box]:
    for name, value in seconds.items():
        assert monkeypatch is not None
        monkeypatch.setattr(module, name, value)
    async with transcript_box("s1") as transcripts, anyio.create_task_group() as tasks:
        yield Box(tasks, WorkerAnswers(transcripts.store, lambda: 1))
        tasks.cancel_scope.cancel()


async def test_a_thread_is_the_brokers_own_and_durable_before_a_turn_begins_there() -> None:
    async with box() as at:
        at.start()
        await at.began()
        assert at.marks.system == ["w1"]
        assert at.tools.places == [("w1", None, "o"), ("w1", "u1", "o")]
        await at.threads.end("inProgress", item="agentMessage")
        await until(lambda: len(at.tools.reports) == 2)
        await at.threads.end("completed", text="well")
        ended = await at.end()
        assert ended == AttemptEnd(result={"status": "ok", "outputText": "well"})
        assert at.tools.reports == [
            {"stage": "worker_turn", "turnId": "u1"},
            {"stage": "worker_item", "index": 1, "itemType": "agentMessage"},
        ]
        assert at.threads.log == ["open beside s1, workspace-write", "begin w1: look"]


async def test_a_worker_keeps_its_thread_and_is_told_once_what_it_is_told_once() -> None:
    async with box() as at:
        bootstrap = {"key": "k", "instructionText": "You review."}
        for count in (1, 2):
            at.start(bootstrapInstruction=bootstrap)
            await at.began(count)
            await at.threads.end("completed", text="well")
            await at.end()
        at.start(bootstrapInstruction=bootstrap, agent="other")
        await at.began(3)
        assert [one for one in at.threads.log if one.startswith("begin")] == [
            "begin w1: You review.\n\nlook",
            "begin w1: look",
            "begin w2: You review.\n\nlook",
        ]


async def test_a_thread_that_the_server_has_no_more_is_opened_anew_once() -> None:
    gone = BegunTurn(ControlOutcome(ControlState.REFUSED, "thread not found: w1"))
    async with box() as at:
        at.threads.begins = [gone]
        at.start()
        await at.began()
        assert at.tools.places[-1] == ("w2", "u1", "o")
        await at.threads.end("completed", "w2", text="well")
        ended = await at.end()
        assert ended is not None
        assert ended.error is None
        at.threads.begins = [gone, gone]
        at.start(agent="other")
        ended = await at.end()
        assert ended is not None
        assert ended.retryable


@pytest.mark.parametrize(
    ("status", "more", "error", "retryable"),
    [
        ("failed", {"error": "busy", "retryable": True}, "the worker's turn failed: busy", True),
        ("failed", {"error": "no"}, "the worker's turn failed: no", False),
        ("interrupted", {}, "the worker's turn was interrupted", True),
        ("abandoned", {}, "the app-server ended while the worker's turn ran", True),
        ("completed", {"text": "x", "cut": True}, "the worker's answer is too long", False),
    ],
)
async def test_a_turn_that_does_not_come_to_its_end_fails_the_attempt(
    status: str, more: dict[str, Any], error: str, retryable: bool
) -> None:
    async with box() as at:
        at.start()
        await at.began()
        await at.threads.end(status, **more)
        assert await at.end() == AttemptEnd(error=error, retryable=retryable)


async def test_one_that_is_cancelled_is_interrupted_and_waited_for() -> None:
    async with box() as at:
        at.threads.ends = WorkerAnswer(turn_id="u1", status="interrupted")
        at.start()
        await at.began()
        at.tools.cancelled.set()
        ended = await at.end()
        assert ended is not None
        assert ended.error == "the worker's turn was interrupted"
        assert at.threads.log[-1] == "interrupt o w1 u1"


async def test_an_attempt_that_is_ended_by_force_leaves_no_turn_and_its_thread_to_nobody() -> None:
    async with box() as at:
        async with anyio.create_task_group() as forced:
            forced.start_soon(at.jobs.run, standing(), at.tools)
            await at.began()
            forced.cancel_scope.cancel()
        await until(lambda: "interrupt o w1 u1" in at.threads.log)
        at.start()
        await at.began(2)
        assert at.tools.places[-1][0] == "w2"


async def test_whose_end_nobody_can_tell_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with box(monkeypatch, LOOK_S=0.01, RETURN_S=0.01, SETTLE_S=0.01) as at:
        at.threads.runs, at.threads.observer = None, None
        at.start()
        ended = await at.end()
        assert ended is not None
        assert str(ended.error).startswith("outcome_unknown")
        assert not ended.retryable


async def test_the_next_observer_ends_a_turn_that_the_one_before_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async with box(monkeypatch, LOOK_S=0.01) as at:
        at.threads.ends = WorkerAnswer(turn_id="u1", status="interrupted")
        at.threads.runs, at.threads.observer = None, "o.2"
        at.start()
        ended = await at.end()
        assert ended is not None
        assert (ended.error, ended.retryable) == ("the worker's turn was interrupted", True)
        assert at.threads.log[-1] == "interrupt o.2 w1 u1"


async def test_where_no_app_server_has_the_session_another_attempt_may_do_better() -> None:
    async with box() as at:
        at.threads.opened = NOT_SENT
        at.start()
        assert await at.end() == AttemptEnd(error="nobody there", retryable=True)
        at.threads.opened, at.threads.begins = None, [BegunTurn(NOT_SENT)]
        at.start()
        assert await at.end() == AttemptEnd(error="no turn was begun: nobody there", retryable=True)


# After a restart of the broker.

PLACED = RunningContext(thread_id="w1", turn_id="u1")
UNPLACED = RunningContext(thread_id="w1")


async def test_an_end_that_was_durable_is_the_end() -> None:
    async with box() as at:
        answer = WorkerAnswer(turn_id="u1", status="completed", text="well")
        ended = await at.jobs.recover(standing(host="o", context=PLACED, answer=answer))
        assert ended == AttemptEnd(result={"status": "ok", "outputText": "well"})
        assert not at.threads.log


async def test_a_job_that_had_no_thread_yet_is_simply_tried_again() -> None:
    async with box() as at:
        assert await at.jobs.recover(standing()) is None
        assert not at.threads.log


@pytest.mark.parametrize(
    ("status", "expected"),
    [("interrupted", None), ("abandoned", None), ("completed", {"status": "ok", "outputText": "well"})],
)
async def test_a_turn_that_runs_is_interrupted_and_tried_again_unless_it_came_to_its_end(
    status: str, expected: dict[str, Any] | None
) -> None:
    async with box() as at:
        at.threads.ends = WorkerAnswer(turn_id="u1", status=status, text="well")
        ended = await at.jobs.recover(standing(host="o", context=PLACED))
        assert at.threads.log == ["interrupt o w1 u1"]
        assert (None if ended is None else ended.result) == expected


async def test_a_turn_that_was_never_begun_is_begun_by_the_next_attempt() -> None:
    async with box() as at:
        at.threads.known = BegunTurn(NOT_SENT)
        assert await at.jobs.recover(standing(host="o", context=UNPLACED)) is None
        assert at.threads.log == ["begun w1"]


async def test_a_turn_that_was_begun_and_not_noted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with box(monkeypatch, SETTLE_S=0.01) as at:
        at.threads.known = BegunTurn(DONE, "u7")
        at.threads.ends = WorkerAnswer(turn_id="u7", status="completed", text="well")
        ended = await at.jobs.recover(standing(host="o", context=UNPLACED))
        assert ended == AttemptEnd(result={"status": "ok", "outputText": "well"})
        assert at.threads.log == ["begun w1", "interrupt o w1 u7"]
        at.threads.ends = WorkerAnswer(turn_id="u6", status="completed", text="another turn's")
        ended = await at.jobs.recover(standing(host="o", context=UNPLACED))
        assert ended is not None
        assert str(ended.error).startswith("outcome_unknown")


async def test_where_nobody_can_say_what_became_of_a_turn_it_is_not_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with box(monkeypatch, SETTLE_S=0.01) as at:
        at.threads.observer = None
        ended = await at.jobs.recover(standing(host="o", context=PLACED))
        assert ended is not None
        assert str(ended.error).startswith("outcome_unknown")
        assert not ended.retryable
        assert not at.threads.log


# What is an instruction.


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"instructionText": "x" * 60_001}, "60000 characters"),
        ({"instructionText": "\x01" * 30_000}, "120000 bytes"),
        ({"bootstrapInstruction": {"key": "k", "instructionText": "x" * 60_000}}, "60000 characters"),
        ({"agent": "a\x00b"}, "printed"),
        ({"instructionText": ""}, "length"),
    ],
)
def test_what_no_app_server_could_be_told_is_no_instruction(wrong: dict[str, Any], why: str) -> None:
    assert why in str(fault_of({**PAYLOAD, **wrong}))
    assert fault_of(PAYLOAD) is None
