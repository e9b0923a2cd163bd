"""The optional capabilities: compaction, structured logging, costs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.checks.checkpoints import checkpoint, persist
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import (
    Capability,
    Compact,
    CompactedPhases,
    LoaRunState,
    LogRequest,
    PhaseRequest,
    RecordCost,
    RunLog,
    RunRequest,
    TokenEstimate,
)
from lifebus.loa.types import Cost, LoaCosts, LoaEvent, ResponseAction, StandardEvent

_COMPACTION: Final = CheckList(
    Level.RECOMMENDED, "Context compaction implemented", capability=Capability.CONTEXT_COMPACTION
)
_LOGGING: Final = CheckList(
    Level.RECOMMENDED, "Structured logging implemented", capability=Capability.STRUCTURED_LOGGING
)
_COSTS: Final = CheckList(Level.RECOMMENDED, "Cost tracking implemented", capability=Capability.COST_TRACKING)


@_COMPACTION.check("compaction.estimate")
async def _estimate(scene: Scene) -> str:
    run_id = await scene.run("a")
    await scene.started("a")
    found = await scene.ask("estimateTokens", PhaseRequest(run_id=run_id, phase="a"), TokenEstimate)
    return f"about {found.tokens} tokens"


@_COMPACTION.check("compaction.compact", "codes.success")
async def _compact(scene: Scene) -> str:
    run_id = await scene.run("a", "b")
    await scene.ends("a", 0)
    await scene.started("b")
    wish = Compact(run_id=run_id, aggressive=False, preserve_phases=("a",))
    found = await scene.ask("compact", wish, CompactedPhases)
    if "a" in found.phases:
        raise CheckFailed("a phase that was to be preserved was compacted")
    if not found.phases and not found.reason:
        raise CheckFailed("nothing was compacted, and it is not said why")
    return f"compacted: {', '.join(found.phases)}" if found.phases else f"nothing to compact: {found.reason}"


async def _log(scene: Scene, run_id: str) -> Sequence[LoaEvent]:
    return (await scene.ask("logs", RunRequest(run_id=run_id), RunLog)).events


@_LOGGING.check("logging.events")
async def _events(scene: Scene) -> str:
    run_id = await scene.run("a")
    given = LoaEvent(
        event="com.example.measured", phase="a", data={"ms": 3, "path": ["x"]}, timestamp="2026-02-03T04:05:06Z"
    )
    await scene.do("log", LogRequest(run_id=run_id, event=given))
    found = [one for one in await _log(scene, run_id) if one.event == given.event]
    if len(found) != 1 or (found[0].phase, found[0].data) != (given.phase, given.data):
        raise CheckFailed(f"the event is not in the log as it was given: {found}"[:500])
    if datetime.fromisoformat(found[0].timestamp) != datetime.fromisoformat(given.timestamp):
        raise CheckFailed(f"the event has another time: {found[0].timestamp}")
    return "an event was kept with its phase, data and time"


@_LOGGING.check("logging.standard", "escalation.proceed", "checkpoint.write", "codes.success")
async def _standard(scene: Scene) -> str:
    run_id = await scene.run("a", "b")
    await scene.ends("a", 0)
    started = await scene.started("b")
    await persist(scene, checkpoint(scene, "a", execution_id=run_id))
    scene.project.end(started, 2)
    await scene.answer(await scene.asked(), ResponseAction.PROCEED)
    await scene.over(LoaRunState.COMPLETED)
    found = await _log(scene, run_id)
    wanted = [
        (StandardEvent.PHASE_START, "a"),
        (StandardEvent.PHASE_COMPLETE, "a"),
        (StandardEvent.PHASE_START, "b"),
        (StandardEvent.CHECKPOINT_CREATED, "a"),
        (StandardEvent.ESCALATION_TRIGGERED, "b"),
    ]
    seen = [(one.event, one.phase) for one in found]
    if missing := [f"{event.value} of {phase}" for event, phase in wanted if (event.value, phase) not in seen]:
        raise CheckFailed(f"the log lacks {', '.join(missing)}")
    times = [datetime.fromisoformat(one.timestamp) for one in found]
    if times != sorted(times):
        raise CheckFailed("the events of the log are not in the order of their times")
    return f"{len(wanted)} standard events of a run with an escalation and a checkpoint, in order"


@_COSTS.check("costs.total")
async def _total(scene: Scene) -> str:
    run_id = await scene.run("a")
    for dollars in (0.1, 0.2):
        cost = Cost(phase="a", tokens_input=100, tokens_output=10, api_calls=1, estimated_usd=dollars)
        await scene.do("recordCost", RecordCost(run_id=run_id, cost=cost))
    found = await scene.ask("getTotalCost", RunRequest(run_id=run_id), LoaCosts)
    # Exactly: money that is counted in floats would be 0.30000000000000004.
    expected = LoaCosts(tokens_input=200, tokens_output=20, api_calls=2, estimated_usd=0.3)
    if found != expected:
        raise CheckFailed(f"two calls are {found}, not {expected}"[:500])
    return "two calls of 0.1 and 0.2 dollars are 0.3 dollars, 200 tokens in and 20 out"


@_COSTS.check("costs.by_run", "costs.total", "codes.success")
async def _by_run(scene: Scene) -> str:
    first = await scene.run("a")
    cost = Cost(phase="a", tokens_input=1, tokens_output=1, api_calls=1, estimated_usd=1.0)
    await scene.do("recordCost", RecordCost(run_id=first, cost=cost))
    await scene.ends("a", 0)
    await scene.over(LoaRunState.COMPLETED)
    second = await scene.run("a")
    if (await scene.ask("getTotalCost", RunRequest(run_id=second), LoaCosts)).api_calls:
        raise CheckFailed("a new run has the costs of another one")
    if (await scene.ask("getTotalCost", RunRequest(run_id=first), LoaCosts)).api_calls != 1:
        raise CheckFailed("the costs of a run are gone when it is over")
    return "each run has its own costs, and keeps them when it is over"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_COMPACTION.checks, *_LOGGING.checks, *_COSTS.checks)
