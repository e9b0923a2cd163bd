"""Escalations: what a person gets, what Loa gets back, and what a run does with the answer."""

from typing import Final

import msgspec

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import RESPONDER, Scene
from lifebus.loa.protocol import AwaitResponse, Escalated, EscalationEvent, LoaRunState, Responded
from lifebus.loa.types import (
    ArtifactRef,
    Decision,
    EscalationContext,
    EscalationRequest,
    EscalationResponse,
    PhaseError,
    ResponseAction,
)

_DELIVERY: Final = CheckList(Level.REQUIRED, "Escalation delivery works")
_TRIGGER: Final = CheckList(Level.TESTING, "Escalation triggers correctly on exit code 2")
_LONG_WAIT_MS: Final = 5_000

REQUEST: Final = EscalationRequest(
    reason="The audit found a password in the repository.",
    phase="audit",
    context=EscalationContext(
        last_decisions=(Decision(description="d", reasoning="r", timestamp="2026-02-03T04:05:05Z"),),
        artifacts=(ArtifactRef(path="report.md", size_bytes=3, checksum="sha256:ab", description="the report"),),
        errors=(PhaseError(message="m", phase="audit", recoverable=False),),
    ),
    suggested_actions=("Rotate the password.", "Rewrite the history."),
)


async def _escalate(scene: Scene) -> EscalationEvent:
    """Have Loa escalate, and return what the person gets."""
    name = (await scene.ask("escalate", REQUEST, Escalated)).escalation_id
    event = await scene.asked()
    if event.escalation_id != name:
        raise CheckFailed(f"the escalation is called `{name}`, and `{event.escalation_id}` where it is delivered")
    return event


async def _response(scene: Scene, event: EscalationEvent, wait_ms: int) -> EscalationResponse | None:
    waiting = AwaitResponse(escalation_id=event.escalation_id, wait_ms=wait_ms)
    return (await scene.ask("response", waiting, Responded, wait_s=wait_ms / 1000)).response


@_DELIVERY.check("escalation.delivery")
async def _delivery(scene: Scene) -> str:
    event = await _escalate(scene)
    if event.request != REQUEST:
        raise CheckFailed("what is delivered is not what was escalated")
    for needed in (REQUEST.reason, REQUEST.phase, *REQUEST.suggested_actions):
        if needed not in event.text:
            raise CheckFailed(f"the text for the person lacks `{needed}`")
    return "the person got the request, and a text with reason, phase and suggested actions"


@_DELIVERY.check("escalation.response")
async def _is_returned(scene: Scene) -> str:
    event = await _escalate(scene)
    if await _response(scene, event, 0) is not None:
        raise CheckFailed("there is a response before anybody has answered")
    await scene.answer(event, ResponseAction.PROCEED)
    found = await _response(scene, event, _LONG_WAIT_MS)
    if found is None:
        raise CheckFailed("the answer is not returned")
    if (found.responder, found.action, found.message) != (RESPONDER, ResponseAction.PROCEED, "as you like"):
        raise CheckFailed(f"the response is not the person's: {msgspec.json.encode(found).decode()}"[:500])
    return "null before the answer; then who answered, the action and the message"


@_DELIVERY.check("escalation.modifications", "escalation.response")
async def _modifications(scene: Scene) -> str:
    event = await _escalate(scene)
    wanted = {"depth": 3, "paths": ["a", "b"], "options": {"strict": True, "label": None}}
    await scene.answer(event, ResponseAction.MODIFY, modifications=wanted)
    found = await _response(scene, event, _LONG_WAIT_MS)
    if found is None or found.action is not ResponseAction.MODIFY or found.modifications != wanted:
        raise CheckFailed(f"the modifications are not returned as they were given: {found}"[:500])
    return "nested modifications were returned as they were given"


async def _blocked_run(scene: Scene) -> EscalationEvent:
    """Have a run whose first phase is blocked, and return the question."""
    await scene.run(scene.phase("a", modifiable=("LOA_MODIFIED",)), "b")
    await scene.ends("a", 2)
    return await scene.asked()


@_DELIVERY.check("escalation.proceed", "codes.blocked")
async def _proceed(scene: Scene) -> str:
    await scene.answer(await _blocked_run(scene), ResponseAction.PROCEED)
    await scene.ends("b", 0)
    await scene.over(LoaRunState.COMPLETED)
    return "after `proceed` the next phase started"


@_DELIVERY.check("escalation.retry", "codes.blocked", "codes.success")
async def _retry(scene: Scene) -> str:
    await scene.answer(await _blocked_run(scene), ResponseAction.RETRY)
    await scene.ends("a", 0)
    await scene.started("b")
    return "after `retry` the blocked phase started again, and then the next one"


@_DELIVERY.check("escalation.abort", "codes.blocked")
async def _abort(scene: Scene) -> str:
    await scene.answer(await _blocked_run(scene), ResponseAction.ABORT)
    await scene.over(LoaRunState.ABORTED, LoaRunState.FAILED)
    return "after `abort` the run was over, and nothing was started"


@_DELIVERY.check("escalation.modify", "codes.blocked")
async def _modify(scene: Scene) -> str:
    question = await _blocked_run(scene)
    await scene.answer(question, ResponseAction.MODIFY, modifications={"LOA_MODIFIED": "deeper"})
    started = await scene.started("a")
    if started.modified != "deeper":
        raise CheckFailed(f"the phase was tried again with `{started.modified}`, not with `deeper`")
    return "after `modify` the blocked phase started again, with the value that was given"


@_DELIVERY.check("escalation.once")
async def _once(scene: Scene) -> str:
    await scene.run(scene.phase("a", max_retries=1))
    await scene.fails_until_asked("a")
    await scene.nothing(EscalationEvent)
    return "when the retries were used up a person was asked once"


@_DELIVERY.check("escalation.survival", "escalation.response")
async def _survival(scene: Scene) -> str:
    event = await _escalate(scene)
    await scene.crash()
    await scene.answer(event, ResponseAction.RETRY)
    found = await _response(scene, event, _LONG_WAIT_MS)
    if found is None or found.action is not ResponseAction.RETRY:
        raise CheckFailed("after a restart the answer is not returned")
    return "an escalation from before a restart was answered after it"


@_TRIGGER.check("escalation.phase", "codes.blocked", "codes.success")
async def _phase(scene: Scene) -> str:
    run_id = await scene.run("first", "second")
    await scene.ends("first", 0)
    await scene.ends("second", 2)
    event = await scene.asked()
    if (event.run_id, event.request.phase) != (run_id, "second") or not event.request.reason:
        raise CheckFailed(f"the escalation is about phase `{event.request.phase}` of run `{event.run_id}`")
    return f"the escalation named the run, the phase and a reason: {event.request.reason[:200]}"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_DELIVERY.checks, *_TRIGGER.checks)
