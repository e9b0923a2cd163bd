"""A queue without a broker: a journal, signals, a clock that a test moves, and a runner whose attempts a test ends."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Journal
from lifebus_broker.signals.log import SignalLog, StoredSignal
from lifebus_contract import LifebusError
from lifebus_contract.fields import Metadata
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import Dedupe, NewJob, SuggestionStatus
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.queue.engine import QueueEngine
from lifebus_supervisor.queue.ports import AttemptTools, JobType
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.recovery import go_on, load_jobs
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from lifebus_supervisor.queue.table import JobTable
from lifebus_supervisor.queue.targets import TargetSettler
from lifebus_supervisor.runtime.clocks import Clocks
from support.integration.following import until

START_MS = 1_790_000_000_000
NO_PAUSE = RetryPause(first_ms=0, longest_ms=0, jitter_percent=0)


class ScriptedRunner:
    """Attempts that go on until a test ends them; one that is asked to end does, unless it is `stubborn`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running: dict[str, asyncio.Future[AttemptEnd]] = {}
        self.tools: dict[str, AttemptTools] = {}
        self.recoverable: dict[str, AttemptEnd] = {}
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.payloads: list[Metadata] = []
        self.stubborn = False
        self.may_forget = anyio.Event()
        self.may_forget.set()

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        name = job.job_id
        assert name not in self.running, f"{name} is done twice at once"
        self.begun.append(name)
        self.payloads.append(job.payload)
        self.tools[name] = tools
        ending = self.running[name] = asyncio.get_running_loop().create_future()
        end = AttemptEnd(error="cancelled")
        try:
            async with anyio.create_task_group() as tasks:
                if not self.stubborn:
                    tasks.start_soon(self._watch, tools, ending)
                end = await ending
                tasks.cancel_scope.cancel()
            return end
        finally:
            del self.running[name]

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        self.asked.append(job.job_id)
        return self.recoverable.get(job.job_id)

    async def forget(self, job_ids: Sequence[str]) -> None:
        self.forgotten += job_ids
        await self.may_forget.wait()

    @staticmethod
    async def _watch(tools: AttemptTools, ending: asyncio.Future[AttemptEnd]) -> None:
        await tools.cancelled.wait()
        if not ending.done():
            ending.set_result(AttemptEnd(error="it was asked to end", retryable=True))


class Transcripts:
    """Entries of transcripts; `fault` is what every call is refused with."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], TranscriptEntry] = {}
        self.fault: LifebusError | None = None

    async def entry(self, session_id: str, message_id: str) -> TranscriptEntry | None:
        self._refuse()
        return self.entries.get((session_id, message_id))

    async def upsert(self, session_id: str, entry: TranscriptEntry) -> None:
        self._refuse()
        self.entries[session_id, entry.message_id] = entry

    def _refuse(self) -> None:
        if self.fault is not None:
            raise self.fault


class Suggestions:
    """How suggested requests were said to stand, in order."""

    def __init__(self) -> None:
        self.written: list[tuple[str, ...]] = []
        self.fault: LifebusError | None = None

    async def upsert(  # noqa: PLR0917  the fields of an upsert
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        suggestion: str | None = None,
        error: str | None = None,
        project_id: str | None = None,
    ) -> None:
        if self.fault is not None:
            raise self.fault
        said = (status.value, suggestion or error or "")
        self.written.append((session_id, request_key, project_id or "", *said))


class QueueBox:
    """A queue, what it runs with, and the events that it has told: (project, envelope)."""

    def __init__(
        self, journal: Journal, signals: SignalLog, tasks: TaskGroup, clock: list[int], settings: QueueSettings
    ) -> None:
        self.clock, self.runner, self.transcripts = clock, ScriptedRunner(), Transcripts()
        self.suggestions = Suggestions()
        self.events: list[tuple[str, dict[str, Any]]] = []
        kind = JobType(name="work", runner=self.runner, check=check, pause=NO_PAUSE, dedupe=Dedupe.NONE)
        self.types: dict[str, JobType] = {"work": kind}
        self._count = 0
        engine = QueueEngine(
            journal,
            signals,
            lambda name: self.types[name].runner if name in self.types else None,
            Clocks(lambda: clock[0], lambda: 0.0),
            tasks,
        )
        settler = TargetSettler(self.transcripts, lambda: clock[0], self.suggestions)
        settler.put, engine.before_attempt = engine.put, settler.begin
        self.table = JobTable(journal, engine, self.types, settings, self._make_id, settler)
        self._tasks = tasks
        signals.listen(self._heard)

    async def start(self) -> None:
        """Go on as a broker does that starts."""
        await load_jobs(self.table)
        self._tasks.start_soon(self.table.settler.run)
        go_on(self.table, self._tasks)
        self.table.turns.start()

    async def add(self, job_id: str, project: str = "p", **fields: Any) -> str:
        """Queue a job and return how that went."""
        new = NewJob(type="work", project_id=project, job_id=job_id, **fields)
        return (await self.table.enqueue(new)).status.value

    async def end(
        self, job_id: str, result: object = None, error: str | None = None, *, retryable: bool = False
    ) -> None:
        """End the attempt of a job, and wait until that is recorded."""
        await self.begun(job_id)
        ending = self.runner.running[job_id]
        ending.set_result(AttemptEnd(result=result, error=error, retryable=retryable))
        await until(lambda: self.runner.running.get(job_id) is not ending)
        await self.quiet()

    async def begun(self, job_id: str) -> None:
        """Wait until an attempt of a job runs."""
        await until(lambda: job_id in self.runner.running)

    async def quiet(self) -> None:
        """Wait until all that came in is recorded, and all that may begin has begun."""
        jobs = self.table.indexes.jobs
        await until(
            lambda: (
                not any(
                    one.is_writing
                    or one.inputs
                    or one.is_starting
                    or (one.attempt is not None and one.job_id not in self.runner.running)
                    for one in jobs.values()
                )
            )
        )

    def state(self, job_id: str) -> str:
        return self.table.job(job_id).state.value

    def names(self, job_id: str) -> list[str]:
        """Return the events of a job, without what all of them begin with."""
        mine = [one for _, one in self.events if one["payload"].get("jobId") == job_id]
        return [one["type"].removeprefix("orchestrator_job_") for one in mine]

    def _heard(self, _: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        self.events += [(thread.removeprefix("queue/"), msgspec.json.decode(one.signal)) for one in signals]

    def _make_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count:06d}"


def check(payload: Mapping[str, Any]) -> str | None:
    return "it is marked as bad" if "bad" in payload else None


@asynccontextmanager
async def queue_box(
    journal: Journal,
    clock: list[int] | None = None,
    *,
    started: bool = True,
    signals_journal: Journal | None = None,
    **settings: Any,
) -> AsyncGenerator[QueueBox]:
    """Yield a queue over a journal; leaving it is the death of its broker: nothing is recorded any more."""
    signals = await SignalLog.open(signals_journal or journal, epoch="e", keep_bytes=64 * 1_048_576)
    async with anyio.create_task_group() as tasks:
        box = QueueBox(journal, signals, tasks, clock or [START_MS], QueueSettings(**settings))
        if started:
            await box.start()
        try:
            yield box
        finally:
            box.table.engine.advance = lambda job: None  # type: ignore[method-assign]
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def fresh_box(**settings: Any) -> AsyncGenerator[QueueBox]:
    ledger = await open_unkept(clock=lambda: START_MS / 1_000)
    try:
        async with queue_box(ledger.journal, **settings) as box:
            yield box
    finally:
        await ledger.aclose()
