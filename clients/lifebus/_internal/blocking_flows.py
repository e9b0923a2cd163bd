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
    """`lifebus.flows.runs.Flows` with calls that return when they are done; the methods and errors are the same.

    What only a program that runs a run itself needs (`claim`, `record`) is there alone.
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
        """Return the runs, the newest first; those of one status where one is given."""
        return self._portal.call(self._flows.list, status)

    def show(self, run_id: str) -> FlowStanding:
        """Return how a run stands, and what it runs.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        return self._portal.call(self._flows.show, run_id)

    def wait(self, run_id: str, after: int = 0, seconds: float = 30.0) -> RunInfo:
        """Return how a run stands once it has more than `after` records (`RunInfo.number`), or after some seconds.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        return self._portal.call(self._flows.wait, run_id, after, seconds)

    def follow(self, run_id: str, after: int = 0) -> Iterator[RunInfo]:
        """Yield how a run stands, at once and after each change, until it is over; changes at one time come as one.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
            TransportError: the broker is gone; the run is not, and can be followed again.
        """
        while True:
            run = self.wait(run_id, after)
            if run.number > after or run.status.is_over:
                yield run
            if run.status.is_over:
                return
            after = run.number

    def resume(self, run_id: str, *, by: str | None = None) -> RunInfo:
        """Have the broker go on with a run whose owner is gone.

        Raises:
            StateConflict: it is over (`run_over`), or its owner is still there (`root_taken`).
        """
        return self._portal.call(partial(self._flows.resume, run_id, by=by))

    def abort(self, run_id: str, reason: str = "", *, by: str | None = None) -> RunInfo:
        """End a run; when this returns, that is durable, and what runs is being ended.

        Raises:
            StateConflict: it is over (`run_over`).
        """
        return self._portal.call(partial(self._flows.abort, run_id, reason, by=by))

    def retry(self, run_id: str, step_id: str, *, by: str | None = None) -> RunInfo:
        """Have a step tried again with a fresh series of tries; an open question about it is answered by that.

        Raises:
            StateConflict: it is not in a state for that (`not_retriable`).
        """
        return self._portal.call(partial(self._flows.retry, run_id, step_id, by=by))

    def signals(self, run_id: str, step_id: str | None = None) -> ContextSignals:
        """Return what is left for a step; without one, for the step that runs, else for the one that is next."""
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
        """Return a piece of what a try wrote, from a byte on; without a number, of the step's newest try.

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
        """Return the log of a run: what happened to it, and what clients have had kept, in order."""
        return self._portal.call(self._flows.events, run_id)

    def cost(self, record: CostRecord) -> CostSummary:
        """Count what calls to a model cost, and return what the run has cost by now; the same key counts once."""
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
