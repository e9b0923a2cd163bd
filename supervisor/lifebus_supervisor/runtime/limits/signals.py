"""What is left for a step, and when a run comes near one of its limits.  Pure.

Every number says where it comes from.  That a limit comes near is recorded once for each crossing: of a step for its
try, of a budget for the run.  Retries are counted, and are no resource: nothing can be saved of them.
"""

from collections.abc import Iterable

import msgspec
from msgspec import structs

from lifebus_contract.runs import ContextSignals, StepStatus
from lifebus_supervisor.runtime.limits.budget import TIME as BUDGET_TIME
from lifebus_supervisor.runtime.limits.budget import is_near, left_of, near_from, near_limits
from lifebus_supervisor.runtime.limits.run_limits import context_shown, fullest
from lifebus_supervisor.runtime.run_records import ContextUse, PressureChanged
from lifebus_supervisor.runtime.run_state import RunState, StepState

CONTEXT = "context_tokens"
"""The tokens of a step's context."""

TIME = "time"
"""The time of a try."""

BYTES_PER_TOKEN = 4
"""How many bytes of text count as one token where nothing has measured it."""


def estimate_tokens(byte_size: int) -> int:
    """Return about how many tokens a text of this size has; only a tokenizer of the model could tell."""
    return -(-byte_size // BYTES_PER_TOKEN)


def signals_of(state: RunState, step_id: str, now_ms: int, measured: ContextUse | None = None) -> ContextSignals:
    """Return what is left for a step; `measured` is what telemetry says of its context now, before all else."""
    step = state.steps[step_id]
    context = _context_of(state, step, step.context if measured is None else context_shown(step.context, measured))
    sources: dict[str, str] = {}
    if context.used is not None:
        sources["context_tokens_used"] = context.used_source
    available = None
    if context.window is not None:
        available = max(0, context.window - (context.used or 0))
        sources["context_tokens_available"] = context.window_source
    remaining = _time_left(state, step, now_ms)
    if remaining is not None:
        sources["time_remaining_ms"] = remaining[1]
    near = (*_near_step(state, step, now_ms, context), *near_now(state, now_ms))
    return ContextSignals(
        context_tokens_available=available,
        context_tokens_used=context.used,
        time_remaining_ms=None if remaining is None else remaining[0],
        retry_count=step.retry,
        max_retries=step.definition.max_retries,
        is_approaching_limit=bool(near),
        near=near,
        sources=sources,
    )


def signals_json(signals: ContextSignals) -> str:
    """Return signals as JSON with every field: a script that reads them knows no usual values."""
    return msgspec.json.encode(structs.asdict(signals)).decode()


def near_now(state: RunState, now_ms: int) -> tuple[str, ...]:
    """Return the parts of the run's budget that are near their limits."""
    if not state.limits.grant.is_limited:
        return ()
    return near_limits(state.limits.grant, state.limits.use(now_ms), state.definition.near_limit_percent)


def pressure_changes(state: RunState, running: Iterable[str], now_ms: int) -> list[PressureChanged]:
    """Return what has come near a limit by now, or has left it: the run's budget, and each of the steps that run."""
    changes: list[PressureChanged] = []
    near = near_now(state, now_ms)
    if bool(near) is not bool(state.limits.near):
        changes.append(PressureChanged(at_ms=now_ms, near=near))
    for name in running:
        step = state.steps[name]
        near = _near_step(state, step, now_ms, _context_of(state, step, step.context))
        if bool(near) is not bool(step.near):
            changes.append(PressureChanged(at_ms=now_ms, step=name, near=near))
    return changes


def pressure_measured(
    step_id: str, number: int, context: ContextUse, state: RunState, now_ms: int
) -> list[PressureChanged]:
    """Return what telemetry of a try's context changes: it has come near a limit by that, or has left it."""
    step = state.steps[step_id]
    if step.status is not StepStatus.RUNNING or step.number != number:
        return []
    near = _near_step(state, step, now_ms, _context_of(state, step, context_shown(step.context, context)))
    if bool(near) is bool(step.near):
        return []
    return [PressureChanged(at_ms=now_ms, step=step_id, near=near, context=context)]


def pressure_due_ms(state: RunState, running: Iterable[str], now_ms: int) -> int | None:
    """Return when time alone brings a run near a limit next; None where it does not."""
    percent = state.definition.near_limit_percent
    due: list[int] = []
    limit = state.limits.grant.limits.time_ms
    if limit is not None and state.limits.active and not state.limits.near:
        due.append(
            now_ms + near_from(limit, percent) - (state.limits.use(now_ms).time_ms - state.limits.grant.since.time_ms)
        )
    for step in map(state.steps.__getitem__, running):
        allowed = step.definition.time_limit_ms
        if allowed is not None and not step.near:
            due.append(step.tries[-1].started_at_ms + near_from(allowed, percent))
    return min((one for one in due if one > now_ms), default=None)


def _context_of(state: RunState, step: StepState, measured: ContextUse) -> ContextUse:
    """Return how full the context of a step is, by the best source that there is."""
    measured = fullest(measured)
    used, used_source = measured.used, measured.used_source
    if used is None and step.definition.prompt is not None:
        used = estimate_tokens(len(step.definition.prompt.text.encode()))
        used_source = f"estimate: {BYTES_PER_TOKEN} bytes of the prompt a token"
    window, window_source = measured.window, measured.window_source
    if window is None and state.definition.context_tokens is not None:
        window, window_source = state.definition.context_tokens, "flow: context_tokens"
    return ContextUse(used=used, used_source=used_source, window=window, window_source=window_source)


def _near_step(state: RunState, step: StepState, now_ms: int, context: ContextUse) -> tuple[str, ...]:
    percent = state.definition.near_limit_percent
    near: list[str] = []
    if context.used is not None and context.window is not None and is_near(context.used, context.window, percent):
        near.append(CONTEXT)
    limit = step.definition.time_limit_ms
    if limit is not None and step.status is StepStatus.RUNNING and is_near(_elapsed(step, now_ms), limit, percent):
        near.append(TIME)
    return tuple(near)


def _time_left(state: RunState, step: StepState, now_ms: int) -> tuple[int, str] | None:
    """Return the time that is left, and whose limit it is; None without a limit."""
    left: list[tuple[int, str]] = []
    limit = step.definition.time_limit_ms
    if limit is not None:
        elapsed = _elapsed(step, now_ms) if step.status is StepStatus.RUNNING else 0
        left.append((max(0, limit - elapsed), "step: time_limit_ms"))
    of_budget = left_of(state.limits.grant, state.limits.use(now_ms), BUDGET_TIME)
    if of_budget is not None:
        left.append((of_budget, "flow: budget.time_ms"))
    return min(left, default=None)


def _elapsed(step: StepState, now_ms: int) -> int:
    # The clock of the machine may have been set back.
    return max(0, now_ms - step.tries[-1].started_at_ms)
