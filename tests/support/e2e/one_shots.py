"""One prompt to a real harness as a step of a flow, and how it ended."""

from dataclasses import dataclass
from uuid import uuid4

import anyio
import anyio.to_thread

from lifebus.live.model.scripting import HOLD, fail, prompt, run, say
from lifebus.live.programs.base import HarnessProgram
from lifebus_contract.flows import FlowDefinition, HarnessPrompt, OutcomeKind, StepDefinition
from lifebus_supervisor.runtime.prompts import PromptEnd, prompt_command, prompt_end, resolve_prompts
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step
from support.e2e.harness_run import HarnessRun, harness_run
from support.e2e.pinned import PINNED
from support.leftovers import MARK, marked


@dataclass(frozen=True)
class OneShotRun:
    """How the step ended, and the prompt in it."""

    end: StepEnd
    prompt: PromptEnd
    codes_named: frozenset[int]


async def one_shot(on: HarnessRun, text: str, *arguments: str, cancelled: anyio.Event | None = None) -> OneShotRun:
    """Run a prompt as a step, with nothing of the caller's environment but what a flow passes on."""
    adapter_id = on.harness.adapter_id
    asked = HarnessPrompt(adapter_id=adapter_id, text=text, arguments=arguments)
    flow = FlowDefinition(
        name="f", client_id="e2e", root=str(on.box.project), steps=(StepDefinition(step_id="s", prompt=asked),)
    )
    (step,) = resolve_prompts(flow).steps
    if step.prompt is None or step.codes is None:
        raise AssertionError("the flow was not resolved")
    program = PINNED[adapter_id].program
    environment = on.box.environment(program.variables | on.harness.environment(on.box, on.model.url))
    environment[MARK] = mark = uuid4().hex
    output = on.box.tmp / "s.1"
    command = StepCommand(
        argv=prompt_command(step.prompt, "run-1", "s", 1),
        cwd=str(on.box.project),
        environment=environment,
        output=output,
    )
    end = await run_step(command, cancelled=cancelled or anyio.Event())
    assert marked(mark) == []
    named = frozenset(code for rule in step.codes.rules for code in range(rule.first, rule.last + 1))
    return OneShotRun(end, await prompt_end(step.prompt, end, output, environment), named)


async def check_a_good_end(harness: HarnessProgram, *arguments: str) -> None:
    """A prompt that looks like an option, a tool, an answer: code 0, and the report has what the bus has."""
    async with harness_run(harness) as on:
        ran = await one_shot(on, prompt("--help", run("echo hi", 1_200), say("done", 1_500)), *arguments)
        assert (ran.prompt.outcome.kind, ran.prompt.outcome.code) == (OutcomeKind.EXITED, 0), ran
        assert ran.prompt.report.failed is False
        # What hooks say may come a moment later than the end.
        first = await on.first(lambda receipt: receipt.harness_session_id is not None)
        assert ran.prompt.session == (first.adapter_id, first.harness_session_id)
        tokens = ran.prompt.report.tokens
        assert tokens is not None
        assert (tokens.input_tokens, tokens.output_tokens) == (2_700, 24)
        assert ran.prompt.report.calls in (None, 2)


async def check_a_refusal(harness: HarnessProgram, *arguments: str, why: str = "told to fail") -> None:
    """The model refuses: however the harness ends, the step has not ended well, and says why."""
    async with harness_run(harness) as on:
        ran = await one_shot(on, prompt("Fail.", fail(401)), *arguments)
        outcome = ran.prompt.outcome
        assert ran.prompt.report.failed is True, ran
        assert why in outcome.detail, outcome
        if outcome.kind is OutcomeKind.EXITED:
            assert outcome.code in ran.codes_named - {0}
        else:
            assert outcome.kind is OutcomeKind.UNVERIFIED


async def check_an_abort(harness: HarnessProgram, *arguments: str) -> None:
    """The model never answers, and the run is aborted: the harness is ended with everything that it has started."""
    async with harness_run(harness) as on:
        cancelled = anyio.Event()

        async def cancel_when_it_waits() -> None:
            await anyio.to_thread.run_sync(on.model.wait_held)
            cancelled.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_it_waits)
            ran = await one_shot(on, prompt("Wait.", HOLD), *arguments, cancelled=cancelled)
        assert ran.prompt.outcome.kind is OutcomeKind.ABORTED
        assert ran.prompt.report.failed in (None, True)
