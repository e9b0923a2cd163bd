"""What a check has: the runtime, the project, and everything that happens in the order in which it is seen."""

import contextlib
import secrets
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from lifebus.loa.conformance.process import RuntimeBroken, RuntimeProcess
from lifebus.loa.conformance.project import CheckFailed, PhaseStarted, ScriptedProject
from lifebus.loa.protocol import (
    ESCALATION,
    EscalationEvent,
    Initialize,
    Initialized,
    LoaRunState,
    Phase,
    Respond,
    RunReport,
    RunRequest,
    RuntimeFault,
    StartRun,
    WaitRun,
)
from lifebus.loa.types import CONTRACT, EscalationResponse, ResponseAction

T = TypeVar("T")
START_S = 60.0
"""How much longer a runtime may take for its first answer: it may start a whole service."""

_QUIET_S: Final = 0.2
_POLL_MS: Final = 200
_PAUSE_S: Final = 0.02
_MOMENTS: Final = 1_024
_ABORT_S: Final = 5.0
ANSWERED_AT: Final = "2026-02-03T04:05:06Z"
RESPONDER: Final = "ada@example.org"


class Over(msgspec.Struct, frozen=True):
    """A run that is over."""

    state: LoaRunState

    def __str__(self) -> str:
        return f"the run is {self.state.value}"


Moment = PhaseStarted | EscalationEvent | Over


class Scene:
    """One runtime under examination, check after check."""

    def __init__(self, command: Sequence[str], project: ScriptedProject, group: TaskGroup, deadline_s: float) -> None:
        self.project = project
        self.initialized: Initialized | None = None
        self._deadline_s, self._group = deadline_s, group
        log = project.root.parent / "stderr"
        self._runtime = RuntimeProcess(command, group, self._event, deadline_s=deadline_s, log=log)
        self._send, self._receive = anyio.create_memory_object_stream[Moment](_MOMENTS)
        self._runs: list[str] = []
        self._number = 0
        # A runtime may keep its runs for good, those of an earlier suite too.
        self._mark = secrets.token_hex(4)

    async def begin(self) -> None:
        """Have a runtime that speaks: the one that runs, or a new one.

        Raises:
            RuntimeBroken: it does not start, or does not answer.
            RuntimeFault: it refuses to begin.
        """
        if self._runtime.is_running:
            return
        await self._runtime.kill()
        await self._runtime.start()
        opening = Initialize(contract=CONTRACT, root=str(self.project.root), state=str(self.project.state))
        # A runtime may start a whole service at this point.
        self.initialized = await self._runtime.ask("initialize", opening, Initialized, wait_s=START_S)

    async def watch_starts(self) -> None:
        """Note each start of a phase's script, until cancelled."""
        while True:
            self._note(await self.project.next_start())

    async def ask(self, method: str, params: object, kind: type[T], *, wait_s: float = 0.0) -> T:
        """Ask the runtime; see `RuntimeProcess.ask`."""
        return await self._runtime.ask(method, params, kind, wait_s=wait_s)

    async def do(self, method: str, params: object) -> None:
        """Ask the runtime for something whose answer does not matter."""
        await self._runtime.ask(method, params, msgspec.Raw)

    async def crash(self) -> None:
        """Kill the runtime, and start it again with the same state."""
        await self._runtime.kill()
        await self.begin()

    def new_name(self, what: str) -> str:
        """Return a name that was not used before."""
        self._number += 1
        return f"{what}-{self._mark}-{self._number}"

    def phase(self, name: str, **options: Any) -> Phase:
        """Return a phase whose script waits to be told how to end."""
        return Phase(phase=name, command=self.project.command(name), **options)

    async def run(self, *phases: str | Phase, **options: Any) -> str:
        """Start a run of phases, and return its name."""
        run_id = self.new_name("run")
        listed = tuple(one if isinstance(one, Phase) else self.phase(one) for one in phases)
        settings: dict[str, Any] = {"retry_pause_ms": 1, **options}
        start = StartRun(run_id=run_id, phases=listed, **settings)
        self._runs.append(run_id)
        await self.do("run", start)
        self._group.start_soon(self._watch, run_id)
        return run_id

    async def resume(self, run_id: str) -> None:
        """Have a run go on after a crash."""
        await self.do("resume", RunRequest(run_id=run_id))
        self._group.start_soon(self._watch, run_id)

    async def next(self, awaited: str) -> Moment:
        """Return what happens next.

        Raises:
            CheckFailed: nothing did in time.
        """
        with anyio.move_on_after(self._deadline_s):
            return await self._receive.receive()
        raise CheckFailed(f"{awaited}, and nothing happened within {self._deadline_s:g} s")

    async def started(self, phase: str) -> PhaseStarted:
        """Return the phase's script, which is to be what happens next."""
        match await self.next(f"phase `{phase}` was to start"):
            case PhaseStarted() as found if found.phase == phase:
                return found
            case other:
                raise CheckFailed(f"phase `{phase}` was to start; {describe(other)}")

    async def ends(self, phase: str, code: int) -> None:
        """Have the phase, whose start is to be what happens next, end with a code."""
        self.project.end(await self.started(phase), code)

    async def asked(self) -> EscalationEvent:
        """Return the escalation that is to be what happens next."""
        match await self.next("a person was to be asked"):
            case EscalationEvent() as found:
                return found
            case other:
                raise CheckFailed(f"a person was to be asked; {describe(other)}")

    async def over(self, *states: LoaRunState) -> None:
        """Wait for the end of the run, which is to be what happens next."""
        wanted = " or ".join(state.value for state in states)
        match await self.next(f"the run was to be {wanted}"):
            case Over(state=state) if state in states:
                return
            case other:
                raise CheckFailed(f"the run was to be {wanted}; {describe(other)}")

    async def fails_until_asked(self, phase: str, *, at_most: int = 12) -> tuple[int, EscalationEvent]:
        """Have a phase end with 1 as often as it is tried; return how often that was, and the escalation."""
        for tries in range(at_most):
            match await self.next("a try, or a question, was to follow"):
                case PhaseStarted() as found if found.phase == phase:
                    self.project.end(found, 1)
                case EscalationEvent() as found:
                    return tries, found
                case other:
                    raise CheckFailed(f"after {tries} tries a person was to be asked; {describe(other)}")
        raise CheckFailed(f"nobody was asked after {at_most} tries")

    async def nothing(self, kind: type[Moment]) -> None:
        """Wait a moment in which nothing of this kind may happen.

        Raises:
            CheckFailed: it did.
        """
        with anyio.move_on_after(_QUIET_S):
            while True:
                found = await self._receive.receive()
                if isinstance(found, kind):
                    raise CheckFailed(f"nothing was to happen; {describe(found)}")

    async def answer(self, question: EscalationEvent, action: ResponseAction, **more: Any) -> None:
        """Answer an escalation as a person does."""
        response = EscalationResponse(
            responded_at=ANSWERED_AT, responder=RESPONDER, action=action, message="as you like", **more
        )
        await self.do("respond", Respond(escalation_id=question.escalation_id, response=response))

    async def clear(self) -> None:
        """End what a check has left: runs, scripts, and what was not looked at."""
        for run_id in self._runs:
            with contextlib.suppress(RuntimeBroken, RuntimeFault), anyio.move_on_after(_ABORT_S):
                await self.do("abort", RunRequest(run_id=run_id))
        self._runs.clear()
        self.project.release()
        with contextlib.suppress(anyio.WouldBlock):
            while True:
                self._receive.receive_nowait()

    async def close(self) -> None:
        """End the runtime."""
        await self._runtime.close()
        self._send.close()
        self._receive.close()

    async def _watch(self, run_id: str) -> None:
        """Note the end of a run."""
        with contextlib.suppress(RuntimeBroken, RuntimeFault):
            while run_id in self._runs:
                waiting = WaitRun(run_id=run_id, wait_ms=_POLL_MS)
                report = await self.ask("wait", waiting, RunReport, wait_s=_POLL_MS / 1000)
                if report.status.is_over:
                    if run_id in self._runs:
                        self._note(Over(report.status))
                    return
                if report.status is LoaRunState.WAITING:
                    await anyio.sleep(_PAUSE_S)  # it answers at once until somebody has answered

    def _event(self, name: str, params: msgspec.Raw) -> None:
        if name == ESCALATION:
            # What is no escalation was not delivered; the check that waits for it says so.
            with contextlib.suppress(msgspec.ValidationError, msgspec.DecodeError):
                self._note(msgspec.json.decode(params, type=EscalationEvent))

    def _note(self, moment: Moment) -> None:
        # Full only with a runtime that floods: the check has failed by then.  Closed when the last check is done.
        with contextlib.suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._send.send_nowait(moment)


def describe(moment: Moment) -> str:
    """Return what happened, in words."""
    if isinstance(moment, EscalationEvent):
        return f"instead a person was asked about phase `{moment.request.phase}`"
    return f"instead {moment}"
