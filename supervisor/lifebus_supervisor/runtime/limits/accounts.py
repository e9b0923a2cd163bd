"""What runs use and what is left of it: asked for, counted, logged (docs/flows.md, "What is left")."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from lifebus_contract.runs import CompactionEnd, ContextSignals, CostRecord, CostSummary, LogEvent, StepStatus
from lifebus_supervisor.runtime.active_run import ActiveRun, Input
from lifebus_supervisor.runtime.limits.prices import priced
from lifebus_supervisor.runtime.limits.recording import counted, logged
from lifebus_supervisor.runtime.limits.run_log import events_of
from lifebus_supervisor.runtime.limits.session_compactor import CompactionRequest, SessionCompactor
from lifebus_supervisor.runtime.limits.signals import pressure_measured, signals_of
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.runtime.run_state import require_step

TryName = tuple[str, str, int]
"""A try: its run, its step, its number."""

MeasureContexts = Callable[[], Awaitable[Mapping[TryName, ContextUse]]]
"""Returns how full the contexts of tries are by telemetry, of those of which that shows something."""


async def unmeasured() -> dict[TryName, ContextUse]:
    """Return nothing: nobody looks at telemetry here."""
    return {}


class RunAccounts:
    """The accounts of the runs of a broker; `require_run` returns the run of an id, or raises ``no_run``."""

    def __init__(self, engine: RunEngine, require_run: Callable[[str], ActiveRun], compactor: SessionCompactor) -> None:
        self.measure_contexts: MeasureContexts = unmeasured
        self._engine = engine
        self._require_run = require_run
        self._compactor = compactor

    async def signals(self, run_id: str, step_id: str) -> ContextSignals:
        """Return what is left for a step; telemetry says how full the context of a try is that runs.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``.
        """
        run = self._require_run(run_id)
        step = require_step(run.state, step_id)
        measured = None
        if step.status is StepStatus.RUNNING:
            measured = (await self.measure_contexts()).get((run.run_id, step_id, step.number))
        if measured is not None:
            # That it comes near a limit by that is recorded, once.
            self._engine.put(run, Input(partial(pressure_measured, step_id, step.number, measured)))
        return signals_of(run.state, step_id, self._engine.clocks.now_ms(), measured)

    async def log(self, event: LogEvent) -> None:
        """Keep a structured log event of a run; returns once it is durable.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``, ``log_full``.
        """
        await self._engine.record(self._require_run(event.run_id), partial(logged, event))

    async def events(self, run_id: str) -> Sequence[LogEvent]:
        """Return the log of a run: what the mechanism did, and what clients have had kept.

        Raises:
            InvalidRequest: ``no_run``.
        """
        self._require_run(run_id)
        return events_of(run_id, await self._engine.journal.read(run_id))

    async def compact(self, run_id: str, step_id: str, request: CompactionRequest) -> CompactionEnd:
        """Have the context of a step's session made smaller; raises as `SessionCompactor.run`, or ``no_run``."""
        return await self._compactor.run(self._require_run(run_id).state, step_id, request, self)

    async def cost(self, record: CostRecord) -> CostSummary:
        """Count what calls to a model cost; the same key counts once.  Returns once it is durable.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``, ``costs_full``; ``unknown_model`` and ``no_prices``: the calls are
                counted, as unpriced.
        """
        run = self._require_run(record.run_id)
        record, unpriced = await priced(record, self._engine.clocks.now_ms())
        await self._engine.record(run, partial(counted, record))
        if unpriced is not None:
            raise unpriced
        return self.costs(record.run_id)

    def costs(self, run_id: str) -> CostSummary:
        """Return what a run has cost so far.

        Raises:
            InvalidRequest: ``no_run``.
        """
        return self._require_run(run_id).state.limits.costs.summary()
