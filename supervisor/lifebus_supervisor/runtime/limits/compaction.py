"""Requests to make the context of a step smaller: which of them are possible, and why the others are not.  Pure."""

from typing import NoReturn

from lifebus_contract import CapabilityRefused, StateConflict
from lifebus_contract.runs import StepStatus
from lifebus_supervisor.runtime.run_state import RunState, require_step


def refuse_compaction(state: RunState, step_id: str) -> NoReturn:
    """Refuse to have a context made smaller, with the reason: no one-shot mode of a harness takes requests.

    A harness compacts by itself when its context is full; `context.compacted` of its own session reports that.

    Raises:
        InvalidRequest: ``no_step``.
        StateConflict: ``not_running``.
        CapabilityRefused: ``compaction_unsupported``.
    """
    step = require_step(state, step_id)
    if step.status is not StepStatus.RUNNING:
        raise StateConflict(f"no try of `{step_id[:64]}` runs: it has no context now", code="not_running")
    prompt = step.definition.prompt
    if prompt is None:
        reason = "the step is a program, and no harness of lifebus's knows its context"
    else:
        reason = f"`{prompt.adapter_id[:64]}` takes no requests while it runs one prompt; it compacts by itself"
    raise CapabilityRefused(reason, code="compaction_unsupported")
