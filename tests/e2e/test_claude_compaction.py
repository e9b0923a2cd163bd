"""The real Claude Code compacts the session of a finished step of a flow, on request of a client of the broker."""

import asyncio
import json
from pathlib import Path
from typing import Any

from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.programs.claude import CLAUDE
from lifebus_contract import LifecycleEvent
from lifebus_contract.flows import FlowDefinition, HarnessPrompt, StepDefinition
from lifebus_contract.runs import RunInfo, RunStatus
from support.e2e.harness_run import HarnessRun, harness_run
from support.patience import PATIENCE_S

FILLED = 150_000
PLAN = "what was done about the haystack"


async def finished(on: HarnessRun, text: str) -> RunInfo:
    """Run a flow with one prompt in the broker, to its end."""
    asked = HarnessPrompt(adapter_id="claude", text=text, arguments=("--allowedTools", "Bash"))
    variables = on.harness.environment(on.box, on.model.url)
    step = StepDefinition(step_id="work", prompt=asked, setting=variables | {"PATH": on.box.environment({})["PATH"]})
    flow = FlowDefinition(name="e2e", client_id="e2e", root=str(on.box.project), steps=(step,))
    info = await on.bus.flows.submit(flow)
    async with asyncio.timeout(PATIENCE_S):
        while not info.status.is_over:
            info = await on.bus.flows.wait(info.run_id, info.number)
    assert info.status is RunStatus.COMPLETED, info
    return info


def boundaries(home: Path, session: str) -> list[dict[str, Any]]:
    """Return what the session's own transcript says of its compactions."""
    (transcript,) = home.glob(f".claude/projects/*/{session}.jsonl")
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    return [one["compactMetadata"] for one in lines if one.get("subtype") == "compact_boundary"]


async def test_the_session_of_a_finished_phase_is_compacted_once_and_the_bus_sees_it() -> None:
    async with harness_run(CLAUDE) as on:
        info = await finished(on, prompt("Fill.", run("echo hi", 1_200), say("filled", FILLED)))
        session = info.steps[0].tries[-1].session
        assert session is not None
        assert boundaries(on.box.home, session[1]) == []
        asked, spent = len(on.model.requests), await on.bus.flows.costs(info.run_id)
        end = await on.bus.flows.compact(info.run_id, "work", PLAN, seconds=PATIENCE_S)
        assert (end.session, end.compacted, end.reason) == (session, True, "")
        # The model is asked for a summary of this session, with the words that were given.
        requests = [json.dumps(one.body) for one in on.model.requests[asked:]]
        assert any("echo hi" in one and PLAN in one for one in requests)
        (boundary,) = boundaries(on.box.home, session[1])
        assert boundary["trigger"] == "manual"
        assert (end.tokens_before, end.tokens_before) == (boundary["preTokens"], FILLED + 12)
        assert end.tokens_after is not None
        assert 0 < end.tokens_after < FILLED // 10
        compacted = await on.first(lambda receipt: receipt.event is LifecycleEvent.CONTEXT_COMPACTED)
        assert (compacted.adapter_id, compacted.harness_session_id) == session
        assert (await on.bus.flows.costs(info.run_id)).output_tokens > spent.output_tokens
        assert (await on.bus.flows.events(info.run_id))[-1].event == "lifebus.context_compacted"
