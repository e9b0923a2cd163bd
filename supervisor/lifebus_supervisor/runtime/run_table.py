# ruff: noqa: ARG002
"""The runs of a broker: submitted, listed, steered; the one place where records of runs are written.

See docs/flows.md, "States".
"""

from collections.abc import Hashable, Sequence

from lifebus_contract import InternalError
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.runs import ContextSignals, CostRecord, CostSummary, LogEvent, RunInfo, RunStatus
from lifebus_supervisor.runtime.ports import Progress
from lifebus_supervisor.runtime.run_records import BROKER, RunRecord


class RunTable:
    """The runs of a broker, by id."""

    async def submit(
        self, definition: FlowDefinition, *, run_id: str | None = None, owner: str = BROKER, by: str
    ) -> RunInfo:
        """Begin a run, and return it once it is durable; the same `run_id` with the same definition is the same run.

        Raises:
            StateConflict: ``root_taken``: another run holds the root; ``run_exists``: the id is another run's.
            LifebusError: it cannot be made durable now.
        """
        raise _unbuilt("submit")

    def list(self, status: RunStatus | None = None) -> list[RunInfo]:
        """Return the runs that are known, the newest last; those of one status where one is given."""
        raise _unbuilt("list")

    def info(self, run_id: str) -> RunInfo:
        """Return how a run stands.

        Raises:
            InvalidRequest: ``no_run``.
        """
        raise _unbuilt("info")

    async def wait(self, run_id: str, after_number: int, wait_s: float) -> RunInfo:
        """Return how a run stands once more than `after_number` records are there, after `wait_s` at the latest.

        Raises:
            InvalidRequest: ``no_run``.
        """
        raise _unbuilt("wait")

    async def resume(self, run_id: str, by: str) -> RunInfo:
        """Have the broker go on with a run whose owner is gone; one that goes on already stays as it is.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``; ``root_taken``: its owner is still there, or another run holds the root.
        """
        raise _unbuilt("resume")

    async def abort(self, run_id: str, by: str, reason: str = "") -> RunInfo:
        """End a run: what runs is stopped, open questions are withdrawn.  Returns when the request is durable.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``.
        """
        raise _unbuilt("abort")

    async def retry(self, run_id: str, step_id: str, by: str) -> RunInfo:
        """Have a step tried again with a fresh series; an open question about it is answered with that.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``.
            StateConflict: ``not_retriable``: the step is neither failed, nor asking, nor backing off.
        """
        raise _unbuilt("retry")

    async def claim(self, run_id: str, owner: str, peer: Hashable) -> Progress:
        """Make a client the one that runs it; returns all records of the run.

        The client holds the lock of the root (`root_lock`) before it asks.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``; ``root_taken``: somebody else runs it.
        """
        raise _unbuilt("claim")

    async def record(self, run_id: str, owner: str, after_number: int, records: Sequence[RunRecord]) -> Progress:
        """Record what happened in a run that a client executes; without records, read what others recorded.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``not_owner``: another one runs it by now.
        """
        raise _unbuilt("record")

    def signals(self, run_id: str, step_id: str) -> ContextSignals:
        """Return what is left for a step.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``.
        """
        raise _unbuilt("signals")

    async def log(self, event: LogEvent) -> None:
        """Keep a structured log event of a run."""
        raise _unbuilt("log")

    async def cost(self, record: CostRecord) -> CostSummary:
        """Count what calls to a model cost; the same key counts once."""
        raise _unbuilt("cost")


def _unbuilt(what: str) -> InternalError:
    return InternalError(f"runs: `{what}` is not built in this version yet")
