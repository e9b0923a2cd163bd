"""Does jobs of the type `agent_instruction`: a turn of a worker in a thread of the broker's own.

See docs/queue.md, "Turns of workers".
What is about to happen is durable before it does: the thread before a turn begins there, and how the turn ended before
anybody acts on it.  So a broker that starts again asks the observer, and no turn that came to its end is repeated.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from lifebus_contract import LifebusError
from lifebus_contract.jobs import AgentInstruction
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState
from lifebus_supervisor.actions.rules.answers import of_instruction
from lifebus_supervisor.actions.worker_answers import WorkerAnswers
from lifebus_supervisor.queue.ports import AttemptTools
from lifebus_supervisor.queue.records import JobStanding, WorkerAnswer
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from lifebus_supervisor.worker_turns.instructions import (
    OUTCOME_UNKNOWN,
    action_id_of,
    failure_of,
    misplaced,
    text_of,
)
from lifebus_supervisor.worker_turns.ports import AppServerThreads, OwnThread, SystemMarks
from lifebus_supervisor.worker_turns.turn_answers import AwaitedTurn, TurnAnswers

LOOK_S: Final = 10.0
"""How often it is asked whether a turn still runs whose end nobody has reported."""

RETURN_S: Final = 30.0
"""How long an observer is waited for that takes no orders: it, or the next one, comes back within seconds."""

SETTLE_S: Final = 30.0
"""How long the end of a turn is waited for that runs no more: what an observer has reported to a dead broker it reports
again after a while."""

_MAX_THREADS: Final = 256
_UNKNOWN: Final = AttemptEnd(error=f"{OUTCOME_UNKNOWN}: nobody can say how the worker's turn ended")

_log = structlog.get_logger("lifebus.worker_turns")


class _Worker(msgspec.Struct):
    """A worker: its thread, and the keys of what it was told once."""

    at: OwnThread
    told: set[str]


class InstructionJobs:
    """Does instructions.  `tasks` owns what has to be ended behind an attempt that was cancelled."""

    def __init__(  # noqa: PLR0917  all that it acts on
        self,
        threads: AppServerThreads,
        marks: SystemMarks,
        turns: TurnAnswers,
        answers: WorkerAnswers,
        tasks: TaskGroup,
        now_ms: Callable[[], int],
        sandbox: str,
    ) -> None:
        self._threads, self._marks, self._turns, self._answers = threads, marks, turns, answers
        self._tasks, self._now_ms, self._sandbox = tasks, now_ms, sandbox
        self._workers: OrderedDict[tuple[str, str, str], _Worker] = OrderedDict()

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        """Have one turn, and do what its answer asks for (`JobRunner.run`)."""
        payload = msgspec.convert(job.payload, AgentInstruction)
        if (fault := misplaced(job.definition, payload)) is not None:
            return AttemptEnd(error=fault)
        end = await self._have_turn(job, payload, tools)
        # The server no longer has the thread that it had: then a new one is opened, once.
        return end or await self._have_turn(job, payload, tools) or AttemptEnd(error="it has no thread", retryable=True)

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        """Return how the turn ended that the broker before had begun, once it runs no more (`JobRunner.recover`)."""
        payload = msgspec.convert(job.payload, AgentInstruction)
        if job.answer is not None:
            return await self._end(job, payload, job.answer, None)
        if job.host is None or job.context.thread_id is None:
            return None  # it had no thread yet, so no turn was begun
        at = OwnThread(job.host, job.context.thread_id)
        with self._turns.awaited(at.thread, job.context.turn_id) as turn:
            origin = await self._present(at, turn)
            if turn.turn_id is None and origin == at.origin:
                begun = await self._threads.begun(at, action_id_of(job, at.thread))
                if begun is not None and begun.state in {ControlState.UNREACHABLE, ControlState.REFUSED}:
                    return None
                turn.turn_id = None if begun is None else begun.turn or None
            answer = await self._interrupted(at, turn, origin)
        if answer is None:
            return _UNKNOWN
        # What was interrupted is tried again, as what ended by itself is not.
        return None if answer.status in {"interrupted", "abandoned"} else await self._end(job, payload, answer, None)

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove nothing: all of a job is in its records (`JobRunner.forget`)."""

    async def _have_turn(self, job: JobStanding, payload: AgentInstruction, tools: AttemptTools) -> AttemptEnd | None:
        """Have a turn in the worker's thread; None where the server does not know the thread any more."""
        key = (payload.project_id, payload.agent, payload.source_session_id)
        worker = await self._worker(key, payload)
        if isinstance(worker, ControlOutcome):
            return AttemptEnd(error=worker.message or "no app-server has the source session", retryable=True)
        # From here on the thread is another attempt's only once its turn is known to be over.
        del self._workers[key]
        end = await self._turn_of(worker, job, payload, tools)
        if isinstance(end, WorkerAnswer):
            self._keep(key, worker)
            return await self._end(job, payload, end, tools)
        return end

    async def _turn_of(
        self, worker: _Worker, job: JobStanding, payload: AgentInstruction, tools: AttemptTools
    ) -> WorkerAnswer | AttemptEnd | None:
        """Begin a turn and wait for its end; whatever happens here, none is left running."""
        at, bootstrap = worker.at, payload.bootstrap_instruction
        await tools.place(at.thread, None, at.origin)
        if tools.cancelled.is_set():
            return AttemptEnd(error="it was asked to end before it began", retryable=True)
        with self._turns.awaited(at.thread) as turn:
            try:
                is_new = bootstrap is not None and bootstrap.key not in worker.told
                text = text_of(payload, with_bootstrap=is_new)
                begun = await self._threads.begin(at, text, action_id_of(job, at.thread), payload)
                if begun.state is ControlState.REFUSED and "not found" in begun.outcome.message:
                    turn.ended.set()
                    return None
                if begun.state not in {ControlState.DONE, ControlState.UNKNOWN}:
                    turn.ended.set()
                    return AttemptEnd(error=f"no turn was begun: {begun.outcome.message}", retryable=True)
                if bootstrap is not None:
                    worker.told.add(bootstrap.key)
                turn.turn_id = begun.turn or None
                await tools.place(at.thread, turn.turn_id, at.origin)
                return await self._until_ended(at, turn, tools) or _UNKNOWN
            finally:
                if not turn.ended.is_set():
                    self._tasks.start_soon(self._end_left, at, turn.turn_id)

    async def _until_ended(self, at: OwnThread, turn: AwaitedTurn, tools: AttemptTools) -> WorkerAnswer | None:
        """Return how a turn ended, None where nobody can say; one that is to end is interrupted."""
        answer: WorkerAnswer | None = None
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._interrupt_when_asked, at, turn, tools)
            beside.start_soon(_tell_progress, turn, tools)
            while answer is None:
                with anyio.move_on_after(LOOK_S):
                    await turn.ended.wait()
                answer = turn.answer
                if answer is None and not await self._is_running(at, turn):
                    answer = await self._interrupted(at, turn, await self._present(at, turn))
                    break
            beside.cancel_scope.cancel()
        return answer

    async def _is_running(self, at: OwnThread, turn: AwaitedTurn) -> bool:
        """Return whether a turn runs; not where its observer does not know it, or has not answered for a while."""
        if turn.turn_id is None:
            return False
        with anyio.move_on_after(RETURN_S):
            while not turn.ended.is_set():
                runs = await self._threads.is_running(at, turn.turn_id)
                if runs is not None:
                    return runs
                # It may only be slow; but where another one stands in its place it does not come back.
                if await self._present(at, turn) not in {at.origin, None}:
                    return False
        return False

    async def _present(self, at: OwnThread, turn: AwaitedTurn) -> str | None:
        """Return who observes the app-server now; None where nobody does, or the turn's end came first."""
        found: str | None = None
        async with anyio.create_task_group() as beside:

            async def look() -> None:
                nonlocal found
                found = await self._threads.present(at.origin, RETURN_S)
                beside.cancel_scope.cancel()

            beside.start_soon(look)
            await turn.ended.wait()
            beside.cancel_scope.cancel()
        return found

    async def _interrupted(self, at: OwnThread, turn: AwaitedTurn, origin: str | None) -> WorkerAnswer | None:
        """Have an observer end a turn, and return how it ended; None where nobody can say."""
        if origin is not None and not turn.ended.is_set():
            await self._threads.interrupt(OwnThread(origin, at.thread), turn.turn_id)
        with anyio.move_on_after(SETTLE_S):
            await turn.ended.wait()
        return turn.answer

    async def _interrupt_when_asked(self, at: OwnThread, turn: AwaitedTurn, tools: AttemptTools) -> None:
        await tools.cancelled.wait()
        await self._threads.interrupt(at, turn.turn_id)

    async def _end_left(self, at: OwnThread, turn_id: str | None) -> None:
        """End a turn that nobody waits for any more; where that fails its observer ends it, or nobody can."""
        outcome = await self._threads.interrupt(at, turn_id)
        _log.info("worker_turn_left", thread=at.thread, turn=turn_id, outcome=outcome.state.value)

    async def _end(
        self, job: JobStanding, payload: AgentInstruction, answer: WorkerAnswer, tools: AttemptTools | None
    ) -> AttemptEnd:
        failed = failure_of(answer)
        if failed is not None:
            return failed
        return await self._answers.end(of_instruction(job.job_id, payload), answer.text, tools)

    async def _worker(self, key: tuple[str, str, str], payload: AgentInstruction) -> _Worker | ControlOutcome:
        """Return the worker of an agent and a session, a new one where it has none at an app-server that is there."""
        known = self._workers.get(key)
        if known is not None and await self._threads.present(known.at.origin, 0) == known.at.origin:
            return known
        opened = await self._threads.open(payload.source_session_id, self._sandbox)
        if isinstance(opened, ControlOutcome):
            return opened
        await self._marks.mark_system(opened.thread, self._now_ms())
        return self._keep(key, _Worker(opened, set()))

    def _keep(self, key: tuple[str, str, str], worker: _Worker) -> _Worker:
        self._workers[key] = worker
        self._workers.move_to_end(key)
        if len(self._workers) > _MAX_THREADS:
            self._workers.popitem(last=False)
        return worker


async def _tell_progress(turn: AwaitedTurn, tools: AttemptTools) -> None:
    """Tell what a turn does, item by item, until cancelled; what cannot be told is left out."""
    told = 0
    report: dict[str, Any] = {"stage": "worker_turn", "turnId": turn.turn_id}
    while True:
        try:
            await tools.progress(report)
        except LifebusError as fault:
            _log.info("worker_progress_not_told", code=fault.code)
        while told == len(turn.items):
            await turn.came.wait()
        told += 1
        report = {"stage": "worker_item", "index": told, "itemType": turn.items[told - 1]}
