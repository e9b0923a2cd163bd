"""The calls, signals and logs of the runs of a broker: asked for and recorded (docs/flows.md, "What is left")."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import ContextSignals, CostRecord, StepStatus
from lifebus_supervisor.runtime.active_run import ActiveRun, Input
from lifebus_supervisor.runtime.limits.prices import price_of
from lifebus_supervisor.runtime.limits.signals import pressure_measured, signals_of
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.runtime.run_state import require_step

_log = structlog.get_logger("lifebus.runtime")

TryName = tuple[str, str, int]
"""A try: its run, its step, its number."""

MeasureContexts = Callable[[], Awaitable[Mapping[TryName, ContextUse]]]
"""Returns how full the contexts of tries are by telemetry, of those of which that shows something."""


async def unmeasured() -> dict[TryName, ContextUse]:
    """Return nothing: nobody looks at telemetry here."""
    return {}


async def live_signals(engine: RunEngine, run: ActiveRun, step_id: str, measure: MeasureContexts) -> ContextSignals:
    """Return what is left for a step; telemetry says how full the context of a try is that runs.

    Raises:
        InvalidRequest: ``no_step``.
    """
    step = require_step(run.state, step_id)
    measured = None
    if step.status is StepStatus.RUNNING:
        measured = (await measure()).get((run.run_id, step_id, step.number))
    if measured is not None:
        # That it comes near a limit by that is recorded, once.
        engine.put(run, Input(partial(pressure_measured, step_id, step.number, measured)))
    return signals_of(run.state, step_id, engine.clocks.now_ms(), measured)


async def priced(cost: CostRecord, at_ms: int) -> tuple[CostRecord, InvalidRequest | None]:
    """Return a record with its price, and why it has none where it names a model that has none."""
    if cost.cost_micros is not None or cost.model is None:
        return cost, None
    try:
        # The first look at the price lists takes seconds.
        micros = await anyio.to_thread.run_sync(partial(price_of, cost, at_ms))
    except InvalidRequest as fault:
        return cost, fault
    return structs.replace(cost, cost_micros=micros), None


async def all_priced(costs: Sequence[CostRecord], at_ms: int) -> tuple[CostRecord, ...]:
    """Return records with their prices; those without one are counted as unpriced, and are named in the log once."""
    found: list[CostRecord] = []
    for cost in costs:
        one, fault = await priced(cost, at_ms)
        if fault is not None and not any(cost.model == before.model for before in found):
            _log.warning("calls_unpriced", run_id=cost.run_id, step=cost.step_id, code=fault.code, model=cost.model)
        found.append(one)
    return tuple(found)
