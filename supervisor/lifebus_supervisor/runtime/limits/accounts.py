"""The calls, signals and logs of the runs of a broker: asked for and recorded (docs/flows.md, "What is left")."""

from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import ContextSignals, CostRecord
from lifebus_supervisor.runtime.limits.prices import price_of
from lifebus_supervisor.runtime.limits.signals import signals_of
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.runtime.run_state import RunState

_log = structlog.get_logger("lifebus.runtime")

MeasureContext = Callable[[str, str], ContextUse | None]
"""Returns how full the context of a session (adapter, session) is by its telemetry; None where it shows nothing."""


def unmeasured(_adapter_id: str, _session_id: str) -> None:
    """Return None: nobody looks at telemetry here."""


def live_signals(state: RunState, step_id: str, now_ms: int, measure: MeasureContext) -> ContextSignals:
    """Return what is left for a step; where its session is known, telemetry says how full the context is.

    Raises:
        InvalidRequest: ``no_step``.
    """
    step = state.steps.get(step_id)
    if step is None:
        raise InvalidRequest(f"the run has no step `{step_id[:64]}`", code="no_step")
    session = step.tries[-1].session if step.tries else None
    return signals_of(state, step_id, now_ms, None if session is None else measure(*session))


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
