"""What each method of the small protocol does with a runtime."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus.loa.escalations import request_of, text_of
from lifebus.loa.protocol import (
    AwaitResponse,
    Compact,
    Escalated,
    EscalationEvent,
    Existence,
    Fault,
    FileContent,
    FileWrite,
    ListFolder,
    Listing,
    LoaRunState,
    LogRequest,
    PathRequest,
    Persist,
    Persisted,
    PhaseRequest,
    RecordCost,
    Respond,
    Responded,
    Restore,
    Restored,
    RunLog,
    RunReport,
    RunRequest,
    RuntimeFault,
    StartRun,
    TokenEstimate,
    WaitRun,
)
from lifebus.loa.runtime import Runtime
from lifebus.loa.types import EscalationRequest, LoaCosts, LoaSignals, ResponseAction
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import RunStatus

_STATES: Final = {
    RunStatus.RUNNING: LoaRunState.RUNNING,
    RunStatus.WAITING: LoaRunState.WAITING,
    # It goes on as soon as somebody resumes it.
    RunStatus.INTERRUPTED: LoaRunState.RUNNING,
    RunStatus.COMPLETED: LoaRunState.COMPLETED,
    RunStatus.FAILED: LoaRunState.FAILED,
    RunStatus.ABORTED: LoaRunState.ABORTED,
}
_DONE: Final[dict[str, Any]] = {}


class Handlers:
    """The methods of one conversation; `tell` brings an escalation to the person at the other end."""

    def __init__(self, runtime: Runtime, group: TaskGroup, tell: Callable[[EscalationEvent], Awaitable[None]]) -> None:
        self._runtime, self._group, self._tell = runtime, group, tell
        self._followed: set[str] = set()
        self._methods: dict[str, Callable[[Any], Awaitable[object]]] = {
            "run": self._run,
            "wait": self._wait,
            "resume": self._resume,
            "abort": self._abort,
            "signals": self._signals,
            "persist": self._persist,
            "restore": self._restore,
            "escalate": self._escalate,
            "response": self._response,
            "respond": self._respond,
            "read": self._read,
            "write": self._write,
            "exists": self._exists,
            "list": self._list,
            "delete": self._delete,
            "estimateTokens": self._estimate_tokens,
            "compact": self._compact,
            "log": self._log,
            "logs": self._logs,
            "recordCost": self._record_cost,
            "getTotalCost": self._total_cost,
        }

    async def handle(self, method: str, params: Struct) -> object:
        """Do what a request asks, and return the answer.

        Raises:
            RuntimeFault: there is no such method, or it cannot be done.
            LifebusError: the bus refuses.
        """
        found = self._methods.get(method)
        if found is None:
            raise RuntimeFault(Fault.UNSUPPORTED, f"no method `{method[:64]}`")
        return await found(params)

    async def _run(self, params: StartRun) -> object:
        await self._runtime.run(params)
        self._follow(params.run_id)
        return _DONE

    async def _wait(self, params: WaitRun) -> RunReport:
        run = await self._runtime.wait(params.run_id, params.wait_ms / 1000)
        return RunReport(status=_STATES[run.status])

    async def _resume(self, params: RunRequest) -> object:
        await self._runtime.resume(params.run_id)
        self._follow(params.run_id)
        return _DONE

    async def _abort(self, params: RunRequest) -> object:
        await self._runtime.abort(params.run_id)
        return _DONE

    async def _signals(self, params: PhaseRequest) -> LoaSignals:
        return await self._runtime.signals(params.run_id, params.phase)

    async def _persist(self, params: Persist) -> Persisted:
        return Persisted(checkpoint_id=await self._runtime.persist(params.checkpoint))

    async def _restore(self, params: Restore) -> Restored:
        return Restored(checkpoint=await self._runtime.restore(params.checkpoint_id or params.phase or ""))

    async def _escalate(self, params: EscalationRequest) -> Escalated:
        info = await self._runtime.ask(params)
        await self._bring(info, None)
        return Escalated(escalation_id=info.question.question_id)

    async def _response(self, params: AwaitResponse) -> Responded:
        return Responded(response=await self._runtime.response(params.escalation_id, params.wait_ms / 1000))

    async def _respond(self, params: Respond) -> object:
        await self._runtime.respond(params.escalation_id, params.response)
        return _DONE

    async def _read(self, params: PathRequest) -> FileContent:
        return FileContent(content=await self._runtime.files.read(params.path))

    async def _write(self, params: FileWrite) -> object:
        await self._runtime.files.write(params.path, params.content)
        return _DONE

    async def _exists(self, params: PathRequest) -> Existence:
        return Existence(exists=await self._runtime.files.exists(params.path))

    async def _list(self, params: ListFolder) -> Listing:
        return Listing(entries=tuple(await self._runtime.files.list(params.directory)))

    async def _delete(self, params: PathRequest) -> object:
        await self._runtime.files.delete(params.path)
        return _DONE

    async def _estimate_tokens(self, params: PhaseRequest) -> TokenEstimate:
        return TokenEstimate(tokens=await self._runtime.estimate_tokens(params.run_id, params.phase))

    async def _compact(self, params: Compact) -> object:
        return await self._runtime.compact(params.run_id, params)

    async def _log(self, params: LogRequest) -> object:
        await self._runtime.log(params.run_id, params.event)
        return _DONE

    async def _logs(self, params: RunRequest) -> RunLog:
        return RunLog(events=await self._runtime.logs(params.run_id))

    async def _record_cost(self, params: RecordCost) -> object:
        await self._runtime.record_cost(params.run_id, params.cost)
        return _DONE

    async def _total_cost(self, params: RunRequest) -> LoaCosts:
        return await self._runtime.total_cost(params.run_id)

    def _follow(self, run_id: str) -> None:
        if run_id not in self._followed:
            self._followed.add(run_id)
            self._group.start_soon(self._bring_questions, run_id)

    async def _bring_questions(self, run_id: str) -> None:
        """Bring each question of a run to the person at the other end, once, until the run is over."""
        brought: set[str] = set()
        async for run in self._runtime.follow(run_id):
            # About the run as a whole, too: Loa's own flows have no budget, and one that is resumed may have.
            for name in (run.question_id, *(step.question_id for step in run.steps)):
                if name is not None and name not in brought:
                    brought.add(name)
                    await self._bring(await self._runtime.question(name), run_id)
        self._followed.discard(run_id)

    async def _bring(self, info: QuestionInfo, run_id: str | None) -> None:
        request = request_of(info.question)
        await self._tell(
            EscalationEvent(
                escalation_id=info.question.question_id,
                request=request,
                text=text_of(request),
                run_id=run_id,
                actions=tuple(ResponseAction(action.value) for action in info.question.actions),
            )
        )
