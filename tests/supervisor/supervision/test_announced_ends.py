"""An end that a hook announced is recorded once, when it is settled."""

from pathlib import Path

from msgspec import structs

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import TurnContinued, TurnEnded
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    IntegrationMode,
    LifecycleEvent,
)
from support.adapters.calls import call, ids
from support.supervisor.supervised import HARNESS, supervised
from support.supervisor.turns import END, SESSION, endings, prompt, running_turn, stop


async def test_an_end_that_a_hook_announced_is_the_hooks_and_one_that_no_hook_announced_is_not(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        (announced,) = [one for one in await rig.tick(6) if one.event == "frame.ended"]
        await rig.hook("codex", prompt("t2"))
        rig.dead.add(HARNESS)
        (abandoned,) = [one for one in await rig.tick(6) if one.event == "frame.ended"]
        assert [one.integration_mode for one in (announced, abandoned)] == ["native_hook", "telemetry_only"]


async def test_two_stops_of_one_turn_are_two_announcements_and_one_end(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        for _ in range(2):
            assert [one.event.value for one in await rig.hook("codex", stop("t1"))] == ["frame.ending"]
        assert endings(await rig.tick(4)) == [("frame.ended", "t1", "completed")]
        (head,) = await rig.bus.ledger.sessions()
        assert head.open_frames == ()


async def test_the_clients_of_an_announced_end_are_asked_as_if_the_hook_had_brought_it(tmp_path: Path) -> None:
    asked: list[CallbackRequest] = []

    async def note(dispatch: DispatchEnvelope) -> CallbackResponse:
        asked.append(dispatch.request)
        return CallbackResponse.ok()

    async with supervised(tmp_path) as rig:
        rig.bus.register("client", [LifecycleEvent.FRAME_ENDED], note)
        await running_turn(rig)
        await rig.hook("codex", stop("t1") | {"cwd": "/work"})
        await rig.tick(2)
    (request,) = asked
    assert (request.integration_mode, request.metadata["cwd"]) == (IntegrationMode.NATIVE_HOOK, "/work")


async def test_an_announced_end_is_settled_by_silence_the_next_prompt_the_file_or_the_sessions_end(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        rig.clock.seconds += 0.5
        assert endings(await rig.observe()) == []
        rig.clock.seconds += 0.5
        assert endings(await rig.observe()) == [("frame.ended", "t1", "completed")]
        await rig.hook("codex", prompt("t2"))
        await rig.hook("codex", stop("t2"))
        assert endings(await rig.hook("codex", prompt("t3"))) == [("frame.ended", "t2", "completed")]
        await rig.hook("codex", stop("t3"))
        rig.news("codex", SESSION, TurnEnded(session=SESSION, frame_id="t3", frame_end="failed"))
        assert endings(await rig.observe()) == [("frame.ended", "t3", "failed")]
        await rig.hook("codex", prompt("t4"))
        await rig.hook("codex", stop("t4"))
        await rig.hook("codex", END)
        assert endings(await rig.observe()) == [
            ("frame.ended", "t4", "completed"),
            ("session.ended", None, "completed"),
        ]


async def test_a_turn_that_is_killed_while_it_goes_on_after_a_refused_stop_is_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        rig.news("codex", SESSION, TurnContinued(session=SESSION, frame_id="t1"))
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(4)) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "abandoned")]


async def test_a_turn_that_goes_on_is_one_frame_however_long_it_takes(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        rig.news("codex", SESSION, TurnContinued(session=SESSION, frame_id="t1"))
        assert endings(await rig.tick(30)) == []
        await rig.hook("codex", stop("t1"))
        assert endings(await rig.tick(2)) == [("frame.ended", "t1", "completed")]


async def test_a_stop_after_the_recorded_end_is_that_of_a_frame_of_its_own(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        opened, _ = await rig.hook("codex", stop("t1"))
        assert (opened.telemetry_summary["frame_id"], opened.telemetry_summary["continues_frame_id"]) == ("t1:2", "t1")
        assert opened.telemetry_summary["synthesized"] is True
        assert opened.telemetry_summary["evidence"]
        assert endings(await rig.tick(2)) == [("frame.ended", "t1:2", "completed")]


async def test_whatever_others_record_in_between_a_frame_ends_once(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        foreign = ADAPTERS["codex"].read(call("codex", prompt("x1") | {"session_id": SESSION}), ids()).emissions[:1]
        await rig.bus.emit("somebody", foreign)
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        await rig.tick(4)
        ended = [one for one in endings(await rig.since(0)) if one[1] == "t1"]
        assert ended == [("frame.ended", "t1", "completed")]


async def test_an_end_that_a_client_has_recorded_is_not_recorded_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        theirs = ADAPTERS["codex"].read(call("codex", stop("t1")), ids()).emissions[-1:]
        await rig.bus.emit("somebody", theirs)
        await rig.hook("codex", stop("t1"))
        again = [structs.replace(one, request=structs.replace(one.request, event_id="evt_other")) for one in theirs]
        (result,) = await rig.bus.emit("somebody", again)
        assert result.refusal is not None
        assert result.refusal.code == "frame_ended"
        await rig.tick(4)
        assert [one for one in endings(await rig.since(0)) if one[1] == "t1"] == [("frame.ended", "t1", "completed")]


async def test_announced_ends_outlive_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        rig.restart()
        await rig.supervisor.recover()
        assert endings(await rig.tick(4)) == [("frame.ended", "t1", "completed"), ("session.ended", None, "completed")]


async def test_an_idle_session_without_an_open_frame_ends_none(tmp_path: Path) -> None:
    def of_opencode(hook: str, **fields: object) -> dict[str, object]:
        event = {"type": hook, "id": f"evt_{len(fields)}{hook}", "properties": {"sessionID": SESSION, **fields}}
        return {"hook": "event", "input": {"event": event}}

    message = {"hook": "chat.message", "input": {"sessionID": SESSION}, "output": {"message": {"id": "msg_1"}}}
    async with supervised(tmp_path) as rig:
        await rig.hook("opencode", message)
        await rig.hook("opencode", of_opencode("session.error", error={"name": "APIError"}))
        await rig.hook("opencode", of_opencode("session.idle"))
        assert endings(await rig.tick(2)) == [("frame.ended", "msg_1", "failed")]
        assert await rig.hook("opencode", of_opencode("session.idle", again=True)) == []
