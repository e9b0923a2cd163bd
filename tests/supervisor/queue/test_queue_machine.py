"""The queue against a model: whatever comes, in whatever order, with restarts and a journal that refuses."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Journal, NewRecord, Record, RecordPage, RecordStream, Refusal
from lifebus_contract import LifebusError
from lifebus_contract.jobs import Dedupe, JobPriority, JobState
from support.effort import effort
from support.integration.following import until
from support.queue_box import NO_PAUSE, START_MS, QueueBox, queue_box

PROJECTS = ("a", "b", "c")
CONCURRENCY = 2
ATTEMPTS = 2
OVER = {"completed", "failed", "canceled"}
PATH = re.compile(
    r"(?:queued (?:started (?:queued started )*(?:completed|failed|canceled) |canceled ))+|"
    r"(?:queued (?:started (?:queued started )*(?:completed|failed|canceled) |canceled ))*"
    r"queued (?:started (?:queued started )*(?:queued )?)?"
)
"""What may be told of one job; completed may only stand at the end, which is checked apart."""

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(PROJECTS), st.sampled_from(JobPriority), st.sampled_from(Dedupe)),
        st.tuples(st.sampled_from(["good", "again", "bad", "cancel", "retry", "refuse", "pass"]), st.integers(0, 99)),
        st.tuples(st.sampled_from(["restart", "drain", "go on"])),
    ),
    max_size=effort(30, 80),
)


class RefusingJournal:
    """A journal that refuses as many appends as `left` says, as one does whose disk is full."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self.left = journal, 0

    def append(self, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        if self.left:
            self.left -= 1
            return Refusal.of("disk_full", "the disk is full")
        return self._journal.append(records, done)

    async def read(self, stream: str, after: int = 0, limit: int = 256, max_bytes: int = 262_144) -> RecordPage:
        return await self._journal.read(stream, after, limit, max_bytes)

    async def streams(self, prefix: str = "", *, kept: bool = False) -> list[RecordStream]:
        return await self._journal.streams(prefix, kept=kept)

    async def heads(self, streams: Sequence[str]) -> list[int]:
        return await self._journal.heads(streams)

    async def read_all(
        self, prefix: str, after: tuple[str, int] = ("", 0), limit: int = 4_096, max_bytes: int = 1_048_576
    ) -> list[Record]:
        return await self._journal.read_all(prefix, after, limit, max_bytes)

    async def drop(self, stream: str, through: int) -> int:
        return await self._journal.drop(stream, through)

    async def drop_all(self, throughs: Mapping[str, int], known: tuple[str, int] | None = None) -> None:
        await self._journal.drop_all(throughs, known)


class Machine:
    """A queue and what has to be true of it: `jobs` has the state of each, `events` what was told of it."""

    def __init__(self, journal: RefusingJournal) -> None:
        self.journal, self.clock = journal, [START_MS]
        self.projects: dict[str, str] = {}
        self.done: set[str] = set()
        self.begun: dict[str, int] = {}
        self.events: dict[str, list[str]] = {}
        self.draining = False
        self.count = 0
        self.box: QueueBox
        self.stack = AsyncExitStack()

    async def restart(self) -> None:
        self.take_over()
        await self.stack.aclose()
        self.draining, self.journal.left = False, 0
        self.box = await self.stack.enter_async_context(
            queue_box(self.journal, self.clock, concurrency=CONCURRENCY, max_attempts=ATTEMPTS, keep=10_000)
        )

    def take_over(self) -> None:
        """Keep what the box has seen that is about to end."""
        if not hasattr(self, "box"):
            return
        for _, event in self.box.events:
            name = event["type"].removeprefix("orchestrator_job_")
            self.events.setdefault(event["payload"]["jobId"], []).append(name)
        for name in self.box.runner.begun:
            self.begun[name] = self.begun.get(name, 0) + 1
        self.box.events.clear()
        self.box.runner.begun.clear()

    async def add(self, project: str, priority: JobPriority, dedupe: Dedupe) -> None:
        self.count += 1
        name = f"j{self.count}"
        key: dict[str, Any] = {} if dedupe is Dedupe.NONE else {"dedupe": dedupe, "dedupe_key": "k"}
        live = [one for one, where in self.projects.items() if where == project and self.state(one) not in OVER]
        try:
            status = await self.box.add(name, project, priority=priority, pause=NO_PAUSE, **key)
        except LifebusError as fault:
            assert fault.code == "disk_full"  # noqa: PT017  what else is refused is a defect
            assert name not in self.box.table.indexes.jobs
            return
        if status == "enqueued":
            self.projects[name] = project
        else:
            assert dedupe is not Dedupe.NONE
            assert live or dedupe is Dedupe.DROP_DUPLICATE

    async def end(self, how: str, index: int) -> None:
        running = sorted(self.box.runner.running)
        if not running:
            return
        name = running[index % len(running)]
        await self.box.end(
            name, 1 if how == "good" else None, None if how == "good" else "no", retryable=how == "again"
        )
        if how == "good":
            assert self.state(name) == "completed"
            self.done.add(name)

    async def steer(self, how: str, index: int) -> None:
        names = sorted(self.projects)
        if not names:
            return
        name = names[index % len(names)]
        before = self.state(name)
        try:
            await (self.box.table.cancel(name, "no") if how == "cancel" else self.box.table.retry(name))
        except LifebusError as fault:
            refused = before in OVER if how == "cancel" else before not in {"failed", "canceled"}
            assert refused or fault.code in {"disk_full", "job_exists"}, (how, before, fault)  # noqa: PT017
            return
        assert (before in OVER) is (how == "retry"), (how, before)

    async def do(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("add", project, priority, dedupe):
                await self.add(project, priority, dedupe)
            case ("good" | "again" | "bad" as how, index):
                await self.end(how, index)
            case ("cancel" | "retry" as how, index):
                await self.steer(how, index)
            case ("refuse", many):
                self.journal.left = many % 3
            case ("pass", many):
                self.clock[0] += many * 500
            case ("restart",):
                await self.restart()
            case _:
                self.draining = operation[0] == "drain"
                await self.box.table.drain(drains=self.draining, cancel=False, seconds=0)
        await self.settle()
        self.check()

    async def settle(self) -> None:
        """Wait until nothing is under way: every cancelled attempt is over, and the journal refuses no more."""
        await self.box.quiet()
        jobs = self.box.table.indexes.jobs
        await until(
            lambda: (
                not any(
                    one.standing is not None
                    and one.standing.state is JobState.RUNNING
                    and (one.attempt is None or one.standing.cancel_requested_at_ms is not None)
                    for one in jobs.values()
                )
            )
        )
        await self.box.quiet()

    def check(self) -> None:
        running = list(self.box.runner.running)
        busy = [self.projects[name] for name in running]
        assert len(busy) == len(set(busy)) <= CONCURRENCY
        assert sorted(running) == sorted(name for name in self.projects if self.state(name) == "running")
        assert not self.done & set(self.box.runner.running)
        waiting = {self.projects[name] for name in self.projects if self.state(name) == "queued"} - set(busy)
        assert not waiting or self.draining or len(busy) == CONCURRENCY, "a job waits for nothing"

    def check_story(self) -> None:
        self.take_over()
        for name in self.projects:
            told = self.events[name]
            assert PATH.fullmatch(" ".join(told) + " "), (name, told)
            state = self.state(name)
            assert told[-1] == {"running": "started"}.get(state, state)
            assert "completed" not in told[:-1]
            assert told.count("started") == self.begun.get(name, 0)

    def state(self, name: str) -> str:
        return self.box.state(name)


@pytest.fixture(autouse=True)
def write_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.queue.engine.AGAIN_S", 0.0)


@settings(max_examples=effort(25, 1_000), deadline=None)
@given(OPERATIONS)
def test_whatever_comes_the_queue_is_as_the_model_has_it(operations: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        ledger = await open_unkept(clock=lambda: START_MS / 1_000)
        machine = Machine(RefusingJournal(ledger.journal))
        try:
            await machine.restart()
            for operation in operations:
                await machine.do(operation)
            machine.check_story()
            await machine.do(("go on",))
            while machine.box.runner.running:
                await machine.do(("good", 0))
            assert {machine.state(name) for name in machine.projects} <= OVER
            machine.check_story()
        finally:
            await machine.stack.aclose()
            await ledger.aclose()

    asyncio.run(play())
