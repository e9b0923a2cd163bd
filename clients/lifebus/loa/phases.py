"""Phases of the small protocol as a flow of the bus.  Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import structs

from lifebus.loa.codes import CODES
from lifebus.loa.escalations import CLIENT_ID
from lifebus.loa.protocol import Fault, Phase, RuntimeFault, StartRun
from lifebus_contract.flows import FlowDefinition, RetryPause, StepDefinition
from lifebus_contract.questions import Modifiable

_PASSED: Final = ("*",)
_NEAR_PERCENT: Final = 80


def flow_of(start: StartRun, root: str, *, after: str | None = None) -> FlowDefinition:
    """Return the flow of a run's phases, one after the other; with `after` only those behind that phase.

    Raises:
        RuntimeFault: the phase is none of the run's, or the last of them.
        ValueError: the phases are against the contract.
    """
    phases = start.phases if after is None else _behind(start.phases, after)
    pause = RetryPause()
    if start.retry_pause_ms is not None:
        pause = RetryPause(first_ms=start.retry_pause_ms, longest_ms=start.retry_pause_ms, jitter_percent=0)
    steps = [_step(phase, pause) for phase in phases]
    chained = [structs.replace(step, needs=(before.step_id,)) for before, step in pairwise(steps)]
    return FlowDefinition(
        name=start.run_id,
        client_id=CLIENT_ID,
        root=root,
        steps=(steps[0], *chained),
        codes=CODES,
        near_limit_percent=start.near_limit_percent or _NEAR_PERCENT,
        context_tokens=start.context_tokens,
    )


def _behind(phases: Sequence[Phase], after: str) -> Sequence[Phase]:
    names = [phase.phase for phase in phases]
    if after not in names:
        raise RuntimeFault(Fault.INVALID, f"the checkpoint is of phase `{after[:64]}`, which the run does not have")
    left = phases[names.index(after) + 1 :]
    if not left:
        raise RuntimeFault(
            Fault.INVALID, f"the checkpoint is of the last phase, `{after[:64]}`: nothing is left to run"
        )
    return left


def _step(phase: Phase, pause: RetryPause) -> StepDefinition:
    return StepDefinition(
        step_id=phase.phase,
        command=phase.command,
        passing=_PASSED,
        # A variable that is set is one that an answer may replace.
        setting=dict.fromkeys(phase.modifiable, ""),
        time_limit_ms=phase.time_limit_ms,
        max_retries=phase.max_retries,
        pause=pause,
        modifiable=tuple(Modifiable(name=name) for name in phase.modifiable),
    )
