"""How a run stands, as clients see it.  Pure."""

from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, StepStatus
from lifebus_supervisor.runtime.rules.decisions import decide
from lifebus_supervisor.runtime.run_state import RunState, StepState


def status_of(state: RunState) -> RunStatus:
    """Return how a run stands as a whole."""
    if state.ended is not None:
        return state.ended
    if not state.is_attached:
        return RunStatus.INTERRUPTED
    steps = state.steps.values()
    if state.question_id is None and not any(step.status is StepStatus.ASKING for step in steps):
        return RunStatus.RUNNING
    if any(step.status in {StepStatus.RUNNING, StepStatus.BACKING_OFF} for step in steps):
        return RunStatus.RUNNING
    return RunStatus.RUNNING if decide(state, state.changed_at_ms).acts else RunStatus.WAITING


def info_of(state: RunState) -> RunInfo:
    """Return how a run stands, with its steps and the newest of their tries."""
    return RunInfo(
        run_id=state.run_id,
        name=state.definition.name,
        client_id=state.definition.client_id,
        root=state.definition.root,
        owner=state.owner or state.by,
        status=status_of(state),
        started_at_ms=state.started_at_ms,
        ended_at_ms=state.ended_at_ms,
        steps=tuple(_step_info(name, step) for name, step in state.steps.items()),
        interruptions=state.interruptions,
        question_id=state.question_id,
        cost_micros=state.limits.costs.total.cost_micros,
        unpriced_calls=state.limits.costs.total.unpriced_calls,
        tokens=state.limits.costs.total.tokens,
        reason=state.reason or state.aborting or state.failing or "",
        number=state.number,
    )


def _step_info(name: str, step: StepState) -> StepInfo:
    return StepInfo(
        step_id=name,
        status=step.status,
        tries=step.tries,
        question_id=step.question_id,
        retry_at_ms=step.retry_at_ms,
    )
