"""Runs of flows for scripts without an event loop."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from anyio.from_thread import BlockingPortal

from lifebus.flows.runs import Flows
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.runs import CompactionEnd, ContextSignals, CostRecord, CostSummary, LogEvent, RunInfo, RunStatus
from lifebus_transports.messages.flows import COMPACTION_MS, FlowOutput, FlowStanding, RunSummary


class BlockingFlows:
    """`lifebus.flows.runs.Flows` without an event loop: its calls block; the methods and errors are the same.

    `claim` and `record`, which only a program needs that runs a run itself, are not here.
    """

    def __init__(self, portal: BlockingPortal, flows: Flows) -> None:
        self._portal = portal
        self._flows = flows

    def submit(self, flow: FlowDefinition | Path, *, run_id: str | None = None, by: str | None = None) -> RunInfo:
        """Begin a run of a flow, or of a flow file, in the broker, and return it once it is durable.

        Raises:
            FlowFileError: the file has mistakes.
            StateConflict: another run holds the root (`root_taken`), or the id is another run's (`run_exists`).
        """
        return self._portal.call(partial(self._flows.submit, flow, run_id=run_id, by=by))

    def list(self, status: RunStatus | str | None = None) -> "list[RunSummary]":
        """Return the runs, the newest first; with `status` only those of this status."""
        return self._portal.call(self._flows.list, status)

    def show(self, run_id: str) -> FlowStanding:
        """Return the state of a run, and its definition.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        return self._portal.call(self._flows.show, run_id)

    def wait(self, run_id: str, after: int = 0, seconds: float = 30.0) -> RunInfo:
        """Return the state of a run once it has more than `after` records (`RunInfo.number`), or after `seconds`.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        return self._portal.call(self._flows.wait, run_id, after, seconds)

    def follow(self, run_id: str, after: int = 0) -> Iterator[RunInfo]:
        """Yield the state of a run at once and after each change until it is over; changes at one time come as one.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
            TransportError: the broker is gone; the run is not, and can be followed again later.
        """
        while True:
            run = self.wait(run_id, after)
            if run.number > after or run.status.is_over:
                yield run
            if run.status.is_over:
                return
            after = run.number

    def resume(self, run_id: str, *, by: str | None = None) -> RunInfo:
        """Have the broker continue a run whose owner is gone.

        Raises:
            StateConflict: it is over (`run_over`), or its owner is still there (`root_taken`).
        """
        return self._portal.call(partial(self._flows.resume, run_id, by=by))

    def abort(self, run_id: str, reason: str = "", *, by: str | None = None) -> RunInfo:
        """End a run.  When this returns, that is durable, and the running steps are being ended.

        Raises:
            StateConflict: it is over (`run_over`).
        """
        return self._portal.call(partial(self._flows.abort, run_id, reason, by=by))

    def retry(self, run_id: str, step_id: str, *, by: str | None = None) -> RunInfo:
        """Try a step again, with a fresh series of tries.  This also answers an open question about the step.

        Raises:
            StateConflict: it is not in a state for that (`not_retriable`).
        """
        return self._portal.call(partial(self._flows.retry, run_id, step_id, by=by))

    def signals(self, run_id: str, step_id: str | None = None) -> ContextSignals:
        """Return what is left for a step (default: the step that runs, or otherwise the next one)."""
        return self._portal.call(self._flows.signals, run_id, step_id)

    def logs(
        self,
        run_id: str,
        step_id: str,
        *,
        number: int | None = None,
        stream: Literal["stdout", "stderr"] = "stdout",
        offset: int = 0,
    ) -> FlowOutput:
        """Return a piece of what a try wrote, from the byte `offset` on; `number` is the try (default: the newest).

        Raises:
            InvalidRequest: nothing of it is kept (`no_output`).
        """
        return self._portal.call(
            partial(self._flows.logs, run_id, step_id, number=number, stream=stream, offset=offset)
        )

    def log(self, event: LogEvent) -> None:
        """Keep a structured log event of a run."""
        self._portal.call(self._flows.log, event)

    def events(self, run_id: str) -> tuple[LogEvent, ...]:
        """Return the log of a run in order: what happened to it, and what clients have logged."""
        return self._portal.call(self._flows.events, run_id)

    def cost(self, record: CostRecord) -> CostSummary:
        """Count the cost of calls to a model, and return what the run has cost so far; a key counts only once."""
        return self._portal.call(self._flows.cost, record)

    def costs(self, run_id: str) -> CostSummary:
        """Return what a run has cost so far, in all and by step."""
        return self._portal.call(self._flows.costs, run_id)

    def compact(
        self, run_id: str, step_id: str, instructions: str = "", *, seconds: float = COMPACTION_MS / 1000
    ) -> CompactionEnd:
        """Have the harness of a step make the context of its session smaller, and return how that ended.

        Raises:
            CapabilityRefused: the step is no prompt, or its harness compacts nothing on request (the detail says why).
            StateConflict: no session is known (`no_harness_session`), a try has it (`session_in_use`), or it is being
                compacted (`compacting`).
        """
        return self._portal.call(partial(self._flows.compact, run_id, step_id, instructions, seconds=seconds))
