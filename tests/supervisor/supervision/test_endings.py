"""Frames and sessions whose end nobody reported are closed, with evidence; those that live are left alone."""

from pathlib import Path

from msgspec import structs

from lifebus_adapters import ADAPTERS, CallerProcess
from lifebus_adapters.shared.telemetry import Activity, TurnContinued, TurnEnded, TurnStarted
from lifebus_contract import (
    CallbackRequest,
    CallbackResponse,
    DispatchEnvelope,
    IntegrationMode,
    LifecycleEvent,
    Receipt,
)
from support.adapters.calls import call, ids
from support.supervisor.supervised import HARNESS, SupervisedBus, facts_of, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}
END = {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other"}


def prompt(turn: str) -> dict[str, str]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": turn, "prompt_id": turn}


def stop(turn: str) -> dict[str, str]:
    return {"hook_event_name": "Stop", "session_id": SESSION, "turn_id": turn, "prompt_id": turn}


def child(turn: str, agent: str) -> dict[str, str]:
    return prompt(turn) | {"hook_event_name": "SubagentStart", "agent_id": agent, "agent_type": "helper"}


async def running_turn(rig: SupervisedBus, adapter_id: str = "codex") -> None:
    await rig.hook(adapter_id, START)
    await rig.hook(adapter_id, prompt("t1"))
    await rig.tick()


def endings(receipts: list[Receipt]) -> list[tuple[object, ...]]:
    return [
        (
            receipt.event.value,
            receipt.telemetry_summary.get("frame_id"),
            receipt.telemetry_summary.get("frame_end") or receipt.telemetry_summary.get("session_end"),
        )
        for receipt in receipts
        if receipt.event in {"frame.ended", "session.ended"}
    ]


async def test_a_killed_harness_leaves_nothing_open(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", child("t1", "a1"))
        rig.dead.add(HARNESS)
        assert endings(await rig.tick()) == []
        found = await rig.tick()
        assert endings(found) == [
            ("frame.ended", "a1", "abandoned"),
            ("frame.ended", "t1", "abandoned"),
            ("session.ended", None, "abandoned"),
        ]
        assert {one.telemetry_summary.get("evidence") for one in found if one.event != "supervisor.tick"} == {
            "process 4321 is gone, and no hook reported the end"
        }
        nested = next(one for one in found if one.telemetry_summary.get("frame_id") == "a1")
        assert nested.telemetry_summary["parent_frame_id"] == "t1"
        assert await rig.tick(6) == []


async def test_a_session_that_ends_while_its_process_dies_is_not_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.dead.add(HARNESS)
        await rig.tick()
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        assert endings(await rig.tick(6)) == [("frame.ended", "t1", "completed"), ("session.ended", None, "completed")]


async def test_an_end_that_a_hook_announced_is_the_hooks_and_one_that_no_hook_announced_is_not(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        (announced,) = [one for one in await rig.tick(6) if one.event == "frame.ended"]
        await rig.hook("codex", prompt("t2"))
        rig.dead.add(HARNESS)
        (abandoned,) = [one for one in await rig.tick(6) if one.event == "frame.ended"]
        assert [one.integration_mode for one in (announced, abandoned)] == ["native_hook", "telemetry_only"]


async def test_a_helper_that_ran_the_hook_is_not_the_harness(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for number, payload in enumerate((START, prompt("t1"))):
            helper = CallerProcess(pid=500 + number, started=f"boot:{number}")
            await rig.hook("codex", payload, process=helper)
            rig.dead.add(helper)
        assert facts_of(await rig.tick(10)) == []


async def test_a_process_that_took_over_the_id_is_another_one(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.dead.add(HARNESS)  # its id lives on, with another start
        await rig.hook("claude", START | {"session_id": "s2"}, process=CallerProcess(pid=4321, started="boot:100"))
        assert ("session.ended", None, "abandoned") in endings(await rig.tick(3))


async def test_the_process_is_remembered_by_the_ledger(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.restart()
        await rig.supervisor.recover()
        rig.dead.add(HARNESS)
        assert ("session.ended", None, "abandoned") in endings(await rig.tick(3))


async def test_a_session_of_an_unknown_process_is_given_up_after_a_day_of_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START, process=None)
        await rig.hook("codex", prompt("t1"), process=None)
        rig.clock.seconds += rig.limits.abandon_s - 60
        assert endings(await rig.tick()) == []
        rig.clock.seconds += 120
        assert endings(await rig.tick()) == [
            ("frame.ended", "t1", "abandoned"),
            ("session.ended", None, "abandoned"),
        ]


async def test_the_end_of_a_session_closes_its_frames_first(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.news("codex", SESSION, Activity(session=SESSION))
        recorded = await rig.hook("codex", END)
        assert [one.event.value for one in recorded] == ["session.ending"]
        found = await rig.observe() + await rig.tick()
        assert endings(found) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "completed")]
        ended = next(one for one in found if one.event == "frame.ended")
        assert ended.telemetry_summary["evidence"] == "the session ended while the frame was open"


async def test_a_frame_of_which_nothing_was_seen_is_not_known_to_be_abandoned_when_its_session_ends(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        assert endings(await rig.tick()) == [("frame.ended", "t1", "unknown"), ("session.ended", None, "completed")]


async def test_a_turn_that_was_interrupted_without_a_hook_is_closed_by_the_transcript(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        ended = TurnEnded(session=SESSION, frame_id="t1", frame_end="interrupted", evidence="interrupted by the user")
        rig.news("claude", SESSION, ended, source_id="transcript")
        (receipt,) = [one for one in await rig.tick(4) if one.event == "frame.ended"]
        assert receipt.telemetry_summary == {
            "frame_end": "interrupted",
            "frame_id": "t1",
            "evidence": "interrupted by the user",
            "source": "transcript",
        }
        assert endings(await rig.tick(4)) == []


async def test_a_turn_that_a_hook_closes_in_time_is_not_closed_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.news("codex", SESSION, TurnEnded(session=SESSION, frame_id="t1"))
        await rig.tick()
        await rig.hook("codex", stop("t1"))
        assert endings(await rig.tick(6)) == [("frame.ended", "t1", "completed")]


async def test_a_new_turn_closes_the_one_that_never_ended(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        await rig.hook("claude", child("t1", "a1"))
        await rig.hook("claude", prompt("t2"))
        assert endings(await rig.tick()) == [
            ("frame.ended", "a1", "abandoned"),
            ("frame.ended", "t1", "abandoned"),
        ]
        await rig.hook("claude", stop("t2"))
        assert endings(await rig.tick(4)) == [("frame.ended", "t2", "completed")]


async def test_a_sub_agent_beside_the_turn_closes_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", child("t1", "a1"))
        await rig.hook("codex", child("t1", "a2"))
        assert endings(await rig.tick(3)) == []


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


async def test_a_session_whose_process_is_gone_with_nothing_open_was_not_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(4)) == [("session.ended", None, "process_gone")]


async def test_a_sign_of_life_opens_an_ended_session_again_and_it_ends_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        rig.dead.add(HARNESS)
        await rig.tick(4)
        another = CallerProcess(pid=5432, started="boot:200")
        recorded = await rig.hook("codex", prompt("t2"), process=another)
        assert facts_of(recorded) == ["session.starting", "session.started", "frame.opening", "frame.opened"]
        assert [one.telemetry_summary.get("resumed") for one in recorded] == [True, True, None, None]
        (head,) = await rig.bus.ledger.sessions()
        assert not head.ended
        await rig.hook("codex", stop("t2"), process=another)
        await rig.tick(2)
        rig.dead.add(another)
        assert endings(await rig.tick(4)) == [("session.ended", None, "process_gone")]


async def test_a_process_that_resumes_a_session_is_not_taken_for_another_one_at_its_next_hook(tmp_path: Path) -> None:
    another = CallerProcess(pid=5432, started="boot:200")
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        await rig.tick()
        rig.dead.add(HARNESS)
        recorded = await rig.hook("codex", START | {"source": "resume"}, process=another)
        recorded += await rig.hook("codex", prompt("t2"), process=another)
        assert facts_of(recorded) == ["session.starting", "session.started", "frame.opening", "frame.opened"]


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


async def test_a_prompt_that_the_file_shows_taken_was_abandoned_when_the_session_ends_in_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"))
        await rig.hook("codex", END)
        assert endings(await rig.tick()) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "completed")]


async def test_a_session_that_goes_on_in_another_process_before_its_end_was_seen_ended_first(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.dead.add(HARNESS)
        another = CallerProcess(pid=5432, started="boot:200")
        recorded = await rig.hook("codex", START | {"source": "resume"}, process=another)
        assert facts_of(recorded) == ["frame.ended", "session.ended", "session.starting", "session.started"]
        assert endings(recorded) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "abandoned")]


async def test_a_resumed_session_is_live_again_and_supervised(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        await rig.tick(8)
        assert len(rig.supervisor.monitors) == 0
        assert rig.files.forgotten == [("codex", SESSION)]
        await rig.hook("codex", START | {"source": "resume"})
        await rig.hook("codex", prompt("t2"))
        await rig.tick()
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(3))[-1] == ("session.ended", None, "abandoned")


async def test_a_clear_ends_one_session_and_starts_another_in_the_same_process(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        await rig.hook("claude", END | {"reason": "clear"})
        await rig.hook("claude", START | {"session_id": "s2", "source": "clear"})
        await rig.tick(2)
        heads = {head.harness_session_id: head.ended for head in await rig.bus.ledger.sessions()}
        assert heads == {"s1": True, "s2": False}


async def test_a_sub_agent_stands_in_the_turn_that_is_open(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        opened = await rig.hook("codex", child("a-turn-of-its-own", "a1"))
        assert {one.telemetry_summary["parent_frame_id"] for one in opened} == {"t1"}
        assert await rig.hook("codex", child("a-turn-of-its-own", "a1") | {"hook_event_name": "UserPromptSubmit"}) == []
        ended = await rig.hook("codex", child("another", "a1") | {"hook_event_name": "SubagentStop"})
        assert {one.telemetry_summary["parent_frame_id"] for one in ended} == {"t1"}


async def test_a_session_resumed_by_another_process_is_not_given_up_for_the_one_that_ended_it(tmp_path: Path) -> None:
    resumed = CallerProcess(pid=5432, started="boot:200")
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        await rig.hook("claude", stop("t1"))
        await rig.hook("claude", END)
        rig.dead.add(HARNESS)
        await rig.hook("claude", START | {"source": "resume"}, process=resumed)
        assert endings(await rig.tick(6)) == []
        rig.dead.add(resumed)
        assert endings(await rig.tick(3)) == [("session.ended", None, "process_gone")]
