"""What else is going on while an announced end is settled: clients, other reports of the same end, restarts."""

from pathlib import Path
from typing import Any

import lifebus
from lifebus_adapters.shared.telemetry import TurnEnded
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    Emission,
    FrameClass,
    FrameContext,
    IntegrationMode,
    LifecycleEvent,
)
from support.supervisor.supervised import SupervisedBus, supervised
from support.supervisor.turns import endings

SESSION = "s1"


async def take_turn(rig: SupervisedBus, turn: str, **stopped: Any) -> None:
    own = {"session_id": SESSION, "turn_id": turn, "cwd": "/work"}
    await rig.hook("codex", own | {"hook_event_name": "UserPromptSubmit"})
    await rig.hook("codex", own | {"hook_event_name": "Stop"}, **stopped)


async def test_clients_are_asked_about_a_settled_end_as_its_hook_would_unless_it_is_old(
    tmp_path: Path,
) -> None:
    asked: list[CallbackRequest] = []

    async def note(envelope: DispatchEnvelope) -> CallbackResponse:
        asked.append(envelope.request)
        return CallbackResponse.ok()

    async with supervised(tmp_path) as rig:
        rig.bus.register("client", [LifecycleEvent.FRAME_ENDED], note)
        await take_turn(rig, "t1")
        await rig.tick(2)
        await take_turn(rig, "t2", spooled_at_epoch_s=1_800_000_000)
        await rig.tick(2)
        await rig.hook("codex", {"session_id": SESSION, "turn_id": "t3", "hook_event_name": "UserPromptSubmit"})
        await rig.hook("codex", {"session_id": SESSION, "turn_id": "t3", "hook_event_name": "Stop", "cwd": "/work"})
        rig.restart()
        await rig.supervisor.recover()
        await rig.tick(2)
    hook, other = IntegrationMode.NATIVE_HOOK, IntegrationMode.TELEMETRY_ONLY
    found = [(one.integration_mode, one.metadata.get("cwd")) for one in asked]
    assert found == [(hook, "/work"), (other, None), (other, None)]


async def test_a_frame_that_another_client_opens_ends_no_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        own = {"session_id": SESSION, "turn_id": "t1"}
        await rig.hook("codex", own | {"hook_event_name": "UserPromptSubmit"})
        frame = FrameContext(frame_id="x1", frame_class=FrameClass.TOP_LEVEL)
        request = lifebus.make_request("frame.opened", "codex", session=SESSION, frame=frame)
        await rig.bus.emit("somebody", [Emission(request=request)])
        assert endings(await rig.tick(3)) == []
        await rig.hook("codex", own | {"hook_event_name": "Stop"})
        assert endings(await rig.tick(3)) == [("frame.ended", "t1", "completed")]


async def test_what_goes_on_after_a_recorded_end_is_another_frame_also_where_its_id_is_as_long_as_can_be(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        turn = "t" * 256
        await take_turn(rig, turn)
        found = await rig.tick(2)
        for number in (2, 3):
            again = {"session_id": SESSION, "turn_id": turn, "hook_event_name": "Stop"}
            opened, _ = await rig.hook("codex", again)
            assert opened.telemetry_summary["frame_id"] == f"{turn[:248]}:{number}"
            found += await rig.tick(2)
        frames = [frame for _, frame, _ in endings(found)]
        assert len(frames) == len(set(frames)) == 3


async def test_a_frame_of_another_client_with_a_strange_number_in_its_name_counts_for_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        frame = FrameContext(frame_id="turn-²", frame_class=FrameClass.TOP_LEVEL)
        request = lifebus.make_request("frame.opened", "gemini", session=SESSION, frame=frame)
        await rig.bus.emit("somebody", [Emission(request=request)])
        opened = await rig.hook("gemini", {"session_id": SESSION, "hook_event_name": "BeforeAgent", "prompt": "p"})
        assert {one.telemetry_summary.get("frame_id") for one in opened} == {"turn-1"}


async def turn_beside_another_frame(rig: SupervisedBus) -> None:
    """A turn of a harness whose hooks name no turn, and behind it a frame of another client in its session."""
    for name in ("SessionStart", "BeforeAgent"):
        await rig.hook("gemini", {"session_id": SESSION, "hook_event_name": name, "prompt": "p", "source": "startup"})
    frame = FrameContext(frame_id="x1", frame_class=FrameClass.TOP_LEVEL)
    request = lifebus.make_request("frame.opened", "gemini", session=SESSION, frame=frame)
    await rig.bus.emit("somebody", [Emission(request=request)])


async def test_the_stop_of_a_harness_without_ids_is_about_its_own_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await turn_beside_another_frame(rig)
        await rig.hook("gemini", {"session_id": SESSION, "hook_event_name": "AfterAgent", "prompt": "p"})
        assert endings(await rig.tick(3)) == [("frame.ended", "turn-1", "completed")]


async def test_an_end_in_a_file_that_names_no_turn_is_about_the_harness_and_its_own_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await turn_beside_another_frame(rig)
        rig.news("gemini", SESSION, TurnEnded(session=SESSION, frame_end="failed"), source_id="chats")
        assert endings(await rig.tick(4)) == [("frame.ended", "turn-1", "failed")]
