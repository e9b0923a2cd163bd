"""Contexts that fill up while tries run: noticed with the passes of supervision, and not only where somebody asks."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from lifebus_contract.runs import StepStatus
from lifebus_supervisor.runtime.active_run import ActiveRun, Input
from lifebus_supervisor.runtime.limits.accounts import MeasureContexts, TryName
from lifebus_supervisor.runtime.limits.signals import pressure_measured
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_records import ContextUse


class ContextWatch:
    """Has recorded what telemetry shows of the limits of tries that run.

    Where no try runs nothing is measured.
    """

    def __init__(self, engine: RunEngine, runs: Callable[[], Iterable[ActiveRun]], measure: MeasureContexts) -> None:
        self._engine, self._runs, self._measure = engine, runs, measure
        self._seen: Mapping[TryName, ContextUse] = {}

    async def look(self) -> None:
        """Measure the contexts of the tries that run, and have recorded which of them have crossed a limit."""
        if self._engine.is_stopping or not self._running():
            return
        measured = await self._measure()
        # Asked again: a try may have ended meanwhile.
        for one, run in self._running().items():
            context = measured.get(one)
            # What was seen before says nothing new: calls that were counted since are newer.
            if context is not None and context != self._seen.get(one):
                self._take(run, one, context)
        self._seen = measured

    def _running(self) -> dict[TryName, ActiveRun]:
        return {
            (run.run_id, step_id, step.number): run
            for run in self._runs()
            if run.state.limits.active
            for step_id, step in run.state.steps.items()
            if step.status is StepStatus.RUNNING
        }

    def _take(self, run: ActiveRun, one: TryName, context: ContextUse) -> None:
        _, step_id, number = one
        make = partial(pressure_measured, step_id, number, context)
        if make(run.state, self._engine.clocks.now_ms()):
            self._engine.put(run, Input(make))
