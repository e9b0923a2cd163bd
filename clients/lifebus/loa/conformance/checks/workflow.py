"""Whole workflows: five phases in their order, and runs that go on after a crash or from a checkpoint."""

from typing import Final

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.checks.checkpoints import checkpoint, persist
from lifebus.loa.conformance.project import CheckFailed, PhaseStarted
from lifebus.loa.conformance.scene import Scene, describe
from lifebus.loa.protocol import EscalationEvent, LoaRunState
from lifebus.loa.types import ResponseAction

_WORKFLOW: Final = CheckList(Level.TESTING, "Full Loa workflow completes successfully")
_RESUME: Final = CheckList(Level.TESTING, "Resume from checkpoint works")
PHASES: Final = ("preflight", "discovery", "design", "implementation", "audit")


@_WORKFLOW.check("workflow.complete", "codes.success")
async def _complete(scene: Scene) -> str:
    await scene.run(*PHASES)
    for phase in PHASES:
        await scene.ends(phase, 0)
    await scene.over(LoaRunState.COMPLETED)
    return f"{len(PHASES)} phases were run once each, in their order"


async def _crashed_in_second(scene: Scene) -> tuple[str, PhaseStarted]:
    """Have a run of three phases crash while the second one runs; return what was started first after `resume`."""
    run_id = await scene.run("a", "b", "c")
    await scene.ends("a", 0)
    await scene.started("b")
    await scene.crash()
    await scene.resume(run_id)
    match await scene.next("a phase was to start after `resume`"):
        case PhaseStarted() as found:
            return run_id, found
        case other:
            raise CheckFailed(f"a phase was to start after `resume`; {describe(other)}")


@_RESUME.check("resume.finished", "codes.success")
async def _finished(scene: Scene) -> str:
    _, first = await _crashed_in_second(scene)
    if first.phase == "a":
        raise CheckFailed("after a crash a phase that was done ran again")
    return "after a crash the phase that was done did not run again"


@_RESUME.check("resume.interrupted", "codes.success")
async def _interrupted(scene: Scene) -> str:
    _, first = await _crashed_in_second(scene)
    while first.phase == "a":
        scene.project.end(first, 0)
        match await scene.next("a phase was to start"):
            case PhaseStarted() as first:
                continue
            case other:
                raise CheckFailed(f"a phase was to start; {describe(other)}")
    if first.phase != "b":
        raise CheckFailed("the phase that was interrupted was skipped")
    scene.project.end(first, 0)
    await scene.ends("c", 0)
    await scene.over(LoaRunState.COMPLETED)
    return "the phase that was interrupted ran again, then the last one, and the run was completed"


@_RESUME.check("resume.question", "escalation.proceed", "escalation.survival", "resume.interrupted")
async def _question(scene: Scene) -> str:
    run_id = await scene.run("a", "b")
    await scene.ends("a", 2)
    question = await scene.asked()
    await scene.crash()
    await scene.resume(run_id)
    await scene.answer(question, ResponseAction.PROCEED)
    while True:
        match await scene.next("the next phase was to start"):
            case PhaseStarted(phase="b"):
                return "a question from before a crash was answered after it, and the run went on as it said"
            case EscalationEvent(escalation_id=name) if name == question.escalation_id:
                continue  # the same question may be brought again
            case other:
                raise CheckFailed(f"the next phase was to start; {describe(other)}")


@_RESUME.check("resume.checkpoint", "checkpoint.write", "codes.success")
async def _checkpoint(scene: Scene) -> str:
    name = await persist(scene, checkpoint(scene, "a"))
    await scene.run("a", "b", from_checkpoint=name)
    await scene.ends("b", 0)
    await scene.over(LoaRunState.COMPLETED)
    return "a run from the checkpoint of the first phase began with the second one"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_WORKFLOW.checks, *_RESUME.checks)
