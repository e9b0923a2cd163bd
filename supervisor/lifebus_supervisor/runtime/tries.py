"""One try of a step: its command is made, run, and what it was to leave is looked at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from lifebus_contract.flows import Outcome, OutcomeKind
from lifebus_supervisor.runtime.decisions import ObservedEnd, is_proceeding
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.step_environment import step_environment
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step

OUTPUT: Final = "runs"
"""Where the output of steps is in the state directory."""


class Tries:
    """Runs tries as processes of this one; `environ` is what steps may ask to be passed on."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._state_dir = state_dir
        self._environ = environ

    async def run(self, state: RunState, step_id: str, cancelled: anyio.Event) -> ObservedEnd:
        """Run the try that the state says is running, and return how it ended."""
        step = state.steps[step_id]
        definition = step.definition
        if definition.command is None:
            detail = "this version runs no prompts yet; give the step a `command`"
            return ObservedEnd(outcome=Outcome(kind=OutcomeKind.CANNOT_START, detail=detail))
        root = Path(state.definition.root)
        output = self._state_dir / OUTPUT / state.run_id / f"{step_id.replace('/', '_')}.{step.number}"
        await anyio.Path(output.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
        command = StepCommand(
            argv=definition.command,
            cwd=str(root / definition.cwd),
            environment=step_environment(state, step_id, self._environ),
            output=output,
            time_limit_ms=definition.time_limit_ms,
            grace_ms=definition.grace_ms,
            limits=definition.limits,
        )
        return await self._verified(state, step_id, await run_step(command, cancelled=cancelled))

    async def _verified(self, state: RunState, step_id: str, end: StepEnd) -> ObservedEnd:
        """Return the end of a try; one that did not leave what it was to leave has not ended well."""
        definition = state.steps[step_id].definition
        outcome = end.outcome
        if definition.artifacts and is_proceeding(outcome, definition, state.definition):
            missing = [
                one for one in definition.artifacts if not await anyio.Path(state.definition.root, one).is_file()
            ]
            if missing:
                outcome = Outcome(kind=OutcomeKind.UNVERIFIED, code=outcome.code, detail=", ".join(missing)[:1_024])
        return ObservedEnd(
            outcome=outcome,
            duration_ms=end.duration_ms,
            stdout_bytes=end.stdout_bytes,
            stderr_bytes=end.stderr_bytes,
            left_processes=end.left,
            tail=end.tail,
        )
