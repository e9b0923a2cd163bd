"""One try of a step: its command is made, run, and what it was to leave is looked at."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import structlog
from msgspec import structs

from lifebus_contract import InvalidRequest
from lifebus_contract.flows import Outcome, OutcomeKind
from lifebus_contract.runs import Artifact, CostRecord
from lifebus_supervisor.runtime.artifacts import check_artifacts
from lifebus_supervisor.runtime.limits.prompt_costs import costs_of_prompt
from lifebus_supervisor.runtime.output_files import output_of_try
from lifebus_supervisor.runtime.prompts import PromptEnd, prompt_command, prompt_end
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd, is_proceeding
from lifebus_supervisor.runtime.rules.step_environment import step_environment
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step, wait_for_earlier

_FINISHING_S: Final = 1.0
"""How long the end of a program is looked at whose broker has to stop meanwhile."""

_log = structlog.get_logger("lifebus.runtime")


class Tries:
    """Runs tries as processes of this one; `environ` is what steps may ask to be passed on."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._state_dir = state_dir
        self._environ = environ
        self._finishing = 0

    @property
    def is_finishing(self) -> bool:
        """Whether the program of some try has ended and how is not returned yet."""
        return self._finishing > 0

    async def run(self, state: RunState, step_id: str, cancelled: anyio.Event) -> ObservedEnd:
        """Run the try that the state says is running, and return how it ended."""
        step = state.steps[step_id]
        definition = step.definition
        try:
            argv = _words_of(state, step_id)
        except InvalidRequest as fault:
            return ObservedEnd(outcome=Outcome(kind=OutcomeKind.CANNOT_START, detail=fault.detail))
        output = self._output(state, step_id, step.number)
        await anyio.Path(output.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._wait_for_interrupted(state, step_id)
        command = StepCommand(
            argv=argv,
            cwd=str(Path(state.definition.root) / definition.cwd),
            environment=step_environment(state, step_id, self._environ),
            output=output,
            time_limit_ms=definition.time_limit_ms,
            grace_ms=definition.grace_ms,
            limits=definition.limits,
        )
        end = await run_step(command, cancelled=cancelled)
        if end.output_fault:
            _log.warning("output_not_kept", run_id=state.run_id, step=step_id, detail=end.output_fault)
        self._finishing += 1
        is_stopped = anyio.current_effective_deadline() == -math.inf
        try:
            # What the program did is done: where there is a moment left, its end is recorded, and it runs once.
            with anyio.move_on_after(_FINISHING_S if is_stopped else None, shield=is_stopped):
                return await _observed(state, step_id, end, command)
            raise TimeoutError("the broker had to stop before the end of the program was looked at")
        finally:
            self._finishing -= 1

    async def _wait_for_interrupted(self, state: RunState, step_id: str) -> None:
        """Wait until nothing is left of the try before this one, where nobody saw its end."""
        for one in state.steps[step_id].tries[-2:-1]:
            if one.outcome is not None and one.outcome.kind is OutcomeKind.INTERRUPTED:
                await wait_for_earlier(self._output(state, step_id, one.number))

    def _output(self, state: RunState, step_id: str, number: int) -> Path:
        return output_of_try(self._state_dir, state.run_id, step_id, number)


async def _observed(state: RunState, step_id: str, end: StepEnd, command: StepCommand) -> ObservedEnd:
    """Return how a try ended whose program has ended: what it left and, of a prompt, what it said and cost."""
    prompt = state.steps[step_id].definition.prompt
    if prompt is None:
        return await _verified(state, step_id, end)
    said = await prompt_end(prompt, end, command.output, command.environment)
    seen = await _verified(state, step_id, structs.replace(end, outcome=said.outcome), said.session)
    return structs.replace(seen, costs=await _costs(state, step_id, said, command.environment))


async def _costs(
    state: RunState, step_id: str, said: PromptEnd, environment: Mapping[str, str]
) -> tuple[CostRecord, ...]:
    """Return what a prompt has cost; nothing where that cannot be found out, because the try has ended all the same."""
    step = state.steps[step_id]
    prompt = step.definition.prompt
    session = said.session or ("" if prompt is None else prompt.adapter_id, "")
    since_ms = step.tries[-1].started_at_ms
    try:
        return await costs_of_prompt(state.run_id, step_id, step.number, since_ms, session, said.report, environment)
    except Exception:  # noqa: BLE001  a defect here must not have a try repeated that was paid for
        _log.exception("costs_unknown", run_id=state.run_id, step=step_id)
        return ()


def _words_of(state: RunState, step_id: str) -> tuple[str, ...]:
    """Return what is run for a step.

    Raises:
        InvalidRequest: it is a prompt to a harness that this version cannot run.
    """
    step = state.steps[step_id]
    if (prompt := step.definition.prompt) is not None:
        return prompt_command(prompt, state.run_id, step_id, step.number)
    return step.definition.command or ()


async def _verified(state: RunState, step_id: str, end: StepEnd, session: tuple[str, str] | None = None) -> ObservedEnd:
    """Return the end of a try; one that did not leave what it was to leave has not ended well."""
    definition = state.steps[step_id].definition
    outcome = end.outcome
    artifacts: tuple[Artifact, ...] = ()
    if definition.artifacts and is_proceeding(outcome, definition, state.definition):
        found = await check_artifacts(state.definition.root, definition.artifacts)
        artifacts = found.artifacts
        if found.faults:
            detail = "; ".join(found.faults)[:1_024]
            outcome = Outcome(kind=OutcomeKind.UNVERIFIED, code=outcome.code, detail=detail)
    return ObservedEnd(
        outcome=outcome,
        duration_ms=end.duration_ms,
        stdout_bytes=end.stdout_bytes,
        stderr_bytes=end.stderr_bytes,
        left_processes=end.left,
        tail=end.tail,
        output_fault=end.output_fault,
        artifacts=artifacts,
        session=session,
    )
