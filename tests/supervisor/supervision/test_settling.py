"""What else is going on while an announced end is settled: clients, other reports of the same end, restarts."""

from pathlib import Path
from typing import Any

from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent
from support.supervisor.supervised import SupervisedBus, supervised

SESSION = "s1"


async def take_turn(rig: SupervisedBus, turn: str, **stopped: Any) -> None:
    own = {"session_id": SESSION, "turn_id": turn, "cwd": "/work"}
    await rig.hook("codex", own | {"hook_event_name": "UserPromptSubmit"})
    await rig.hook("codex", own | {"hook_event_name": "Stop"}, **stopped)


async def test_clients_are_asked_about_a_settled_end_as_its_hook_would_have_asked_them(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    async def note(envelope: DispatchEnvelope) -> CallbackResponse:
        asked.append(envelope.request.metadata)
        return CallbackResponse.ok()

    async with supervised(tmp_path) as rig:
        rig.bus.register("client", [LifecycleEvent.FRAME_ENDED], note)
        await take_turn(rig, "t1")
        await rig.tick(2)
        await take_turn(rig, "t2", spooled_at_epoch_s=1_800_000_000)
        await rig.tick(2)
    assert [(one.get("cwd"), one.get("announced_by_hook")) for one in asked] == [("/work", True), ("/work", None)]
