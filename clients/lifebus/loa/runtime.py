"""The interface of the Loa runtime contract, over a bus and the files of a project.

async with lifebus.connect("loa") as bus, lifebus.Workspace(root) as files:
    runtime = Runtime(bus, files)
    response = await runtime.escalate(request)
"""

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from lifebus.checkpoints.reporting import Checkpoints
from lifebus.client import Bus
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus.loa.compaction import AGGRESSIVE, phases_to_compact
from lifebus.loa.costs import cost_record, loa_costs
from lifebus.loa.escalations import answer_of, question_of, response_of
from lifebus.loa.log_events import bus_event, compactions, in_order, loa_event, standard_events
from lifebus.loa.phases import flow_of
from lifebus.loa.protocol import CompactedPhases, Fault, RuntimeFault, StartRun
from lifebus.loa.signals import loa_signals
from lifebus.loa.types import (
    CompactionOptions,
    Cost,
    EscalationRequest,
    EscalationResponse,
    LoaCosts,
    LoaEvent,
    LoaSignals,
)
from lifebus.workspace import Workspace
from lifebus_contract import CapabilityRefused, StateConflict
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import RunInfo, RunStatus

_ID_BYTES: Final = 10
_MECHANISM: Final = "lifebus."
"""What the names of events begin with that are the mechanism's own."""


class Runtime:
    """Everything that the contract asks of a runtime; the files are those of `workspace`.

    `state_dir` is where checkpoints are kept; the default is the user's.
    """

    def __init__(self, bus: Bus, workspace: Workspace, *, state_dir: Path | None = None) -> None:
        self.files = workspace
        self._bus = bus
        self._root = workspace.root
        self._checkpoints = Checkpoints(bus, state_dir)

    # Runs

    async def run(self, start: StartRun) -> RunInfo:
        """Begin a run of phases, and return it once it is durable.

        Raises:
            RuntimeFault: the checkpoint to begin from is not there, or files have changed since; they are named.
            LifebusError: the run was refused: its name is taken, or another one holds the root.
        """
        after = None if start.from_checkpoint is None else await self._phase_of(start.from_checkpoint)
        flow = flow_of(start, str(self._root), after=after)
        return await self._bus.flows.submit(flow, run_id=start.run_id)

    async def look(self, run_id: str) -> RunInfo:
        """Return how a run stands, with every try that is known."""
        return (await self._bus.flows.show(run_id)).run

    async def wait(self, run_id: str, seconds: float) -> RunInfo:
        """Return how a run stands once it waits for a person or is over, or after some seconds."""
        until = time.monotonic() + seconds
        run = await self._bus.flows.wait(run_id, 0, 0)
        while run.status is not RunStatus.WAITING and not run.status.is_over:
            left = until - time.monotonic()
            if left <= 0:
                break
            run = await self._bus.flows.wait(run_id, run.number, left)
        return run

    async def resume(self, run_id: str) -> RunInfo:
        """Go on with a run whose owner is gone; one that goes on already, or is over, stays as it is."""
        run = await self._bus.flows.wait(run_id, 0, 0)
        return await self._bus.flows.resume(run_id) if run.status is RunStatus.INTERRUPTED else run

    def follow(self, run_id: str) -> AsyncIterator[RunInfo]:
        """Yield how a run stands, at once and after each change, until it is over."""
        return self._bus.flows.follow(run_id)

    async def question(self, question_id: str) -> QuestionInfo:
        """Return a question that a run has asked, or Loa."""
        return await self._bus.inbox.show(question_id)

    async def abort(self, run_id: str) -> RunInfo:
        """End a run, and return when it is over."""
        try:
            run = await self._bus.flows.abort(run_id)
        except StateConflict as fault:
            if fault.code != "run_over":
                raise
            return await self._bus.flows.wait(run_id, 0, 0)
        while not run.status.is_over:
            run = await self._bus.flows.wait(run_id, run.number)
        return run

    # Checkpoints

    async def persist(self, checkpoint: Mapping[str, Any]) -> str:
        """Keep a checkpoint, and return its id once it is durable.

        Raises:
            InvalidRequest: it is against the schema, or a file is not as it says.
        """
        saved = await self._checkpoints.save(checkpoint, kind=LOA_CHECKPOINT, root=self._root)
        return saved.info.checkpoint_id

    async def restore(self, which: str) -> dict[str, Any] | None:
        """Return the checkpoint of an id, or the newest of a phase; None where there is none."""
        found = await self._checkpoints.get(which, kind=LOA_CHECKPOINT, root=self._root)
        return None if found is None else dict(found.document)

    async def _phase_of(self, checkpoint_id: str) -> str:
        """Return the phase of a checkpoint whose files are as they were.

        Raises:
            RuntimeFault: it is not there, or they are not; they are named.
        """
        found = await self._checkpoints.get(checkpoint_id, kind=LOA_CHECKPOINT, root=self._root)
        if found is None:
            raise RuntimeFault(Fault.NOT_FOUND, f"there is no checkpoint `{checkpoint_id[:64]}`")
        differences = await self._checkpoints.verify(found, kind=LOA_CHECKPOINT, root=self._root)
        if differences:
            told = "; ".join(str(one) for one in differences)
            raise RuntimeFault(Fault.REFUSED, f"files are not as they were at the checkpoint: {told}"[:1_024])
        return found.info.name

    # Signals

    async def signals(self, run_id: str, phase: str) -> LoaSignals:
        """Return what is left for a phase."""
        return loa_signals(await self._bus.flows.signals(run_id, phase))

    # Escalations

    async def ask(self, request: EscalationRequest, *, run_id: str | None = None) -> QuestionInfo:
        """Bring an escalation to people, and return it once it is durable."""
        question = question_of(
            request,
            question_id=f"loa_{secrets.token_hex(_ID_BYTES)}",
            asked_at_ms=time.time_ns() // 1_000_000,
            run_id=run_id,
        )
        return await self._bus.inbox.ask(question)

    async def escalate(self, request: EscalationRequest, *, run_id: str | None = None) -> EscalationResponse:
        """Bring an escalation to people, and return what one of them answers, however long that takes.

        Raises:
            RuntimeFault: it was withdrawn.
        """
        info = await self.ask(request, run_id=run_id)
        info = await self._bus.inbox.wait(info.question.question_id)
        if info.answer is None:
            raise RuntimeFault(Fault.FAILED, "the escalation was withdrawn: nobody will answer")
        return response_of(info.answer)

    async def response(self, escalation_id: str, seconds: float) -> EscalationResponse | None:
        """Return what a person answered; None where nobody has when the time is up."""
        info = await self._bus.inbox.show(escalation_id)
        with anyio.move_on_after(seconds):
            if info.is_open:
                info = await self._bus.inbox.wait(escalation_id)
        return None if info.answer is None else response_of(info.answer)

    async def respond(self, escalation_id: str, response: EscalationResponse) -> None:
        """Answer an escalation as a person does.

        Raises:
            StateConflict: it is answered already; the text says by whom, when and how.
        """
        info = await self._bus.inbox.show(escalation_id)
        await self._bus.inbox.give(escalation_id, answer_of(response, info.question))

    # Optional capabilities

    async def estimate_tokens(self, run_id: str, phase: str) -> int:
        """Return how many tokens a phase's context has; 0 where nothing is known of one."""
        return (await self._bus.flows.signals(run_id, phase)).context_tokens_used or 0

    async def compact(self, run_id: str, options: CompactionOptions) -> CompactedPhases:
        """Compact the contexts of all phases that are not preserved, one after another; where none was, say why.

        A harness has a phase's context also when the phase is over; while it runs it takes no requests.
        """
        run = await self.look(run_id)
        told = AGGRESSIVE if options.aggressive else ""
        done, reasons = list[str](), list[str]()
        for phase in phases_to_compact(run, options.preserve_phases):
            try:
                end = await self._bus.flows.compact(run_id, phase, told)
            except (CapabilityRefused, StateConflict) as fault:
                reasons.append(f"`{phase}`: {fault.detail}")
            else:
                (done if end.compacted else reasons).append(phase if end.compacted else f"`{phase}`: {end.reason}")
        if done:
            return CompactedPhases(phases=tuple(done))
        return CompactedPhases(phases=(), reason="; ".join(reasons)[:1_024] or "no phase has a context to be compacted")

    async def log(self, run_id: str, event: LoaEvent) -> None:
        """Keep an event of a run's log.

        Raises:
            InvalidRequest: its phase is none of the run's, or it is too large.
        """
        await self._bus.flows.log(bus_event(event, run_id))

    async def logs(self, run_id: str) -> tuple[LoaEvent, ...]:
        """Return the log of a run: its own events, and the standard ones of its phases, questions and checkpoints."""
        run = await self.look(run_id)
        questions = await self._bus.inbox.questions(open_only=False)
        infos = await self._checkpoints.list(kind=LOA_CHECKPOINT, root=self._root)
        kept = [(one.checkpoint_id, one.name, one.created_at) for one in infos if one.run_id == run_id]
        told = await self._bus.flows.events(run_id)
        own = [loa_event(event) for event in told if not event.event.startswith(_MECHANISM)]
        return in_order([*standard_events(run, questions, kept), *compactions(told), *own])

    async def record_cost(self, run_id: str, cost: Cost) -> None:
        """Count what a phase has cost, against the budget of its run, too.

        Raises:
            InvalidRequest: the phase is none of the run's.
        """
        await self._bus.flows.cost(cost_record(cost, run_id))

    async def total_cost(self, run_id: str) -> LoaCosts:
        """Return what a run has cost in all, what its harnesses used included."""
        return loa_costs(await self._bus.flows.costs(run_id))
