"""Ends that a call decides before a pass could: what the files hold, and what is on record, goes before a guess."""

from pathlib import Path

import pytest

import lifebus
from lifebus_adapters import CallerProcess
from lifebus_adapters.shared.telemetry import Activity, TurnEnded, TurnStarted
from lifebus_contract import Emission, FrameClass, FrameContext
from support.supervisor.supervised import HARNESS, facts_of, supervised
from support.supervisor.turns import END, SESSION, START, child, endings, prompt, running_turn, stop

ANOTHER = CallerProcess(pid=5432, started="boot:200")
COMPLETED = ("session.ended", None, "completed")


def gemini(hook: str, **fields: object) -> dict[str, object]:
    return {"hook_event_name": hook, "session_id": SESSION, "prompt": "p", **fields}


@pytest.mark.parametrize("begins", [START | {"source": "resume"}, prompt("t2")], ids=["start", "prompt"])
async def test_the_file_is_read_before_a_call_settles_the_announced_end_of_its_session(
    tmp_path: Path, begins: dict[str, str]
) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"), Activity(session=SESSION))
        assert endings(await rig.hook("codex", begins)) == [("frame.ended", "t1", "abandoned"), COMPLETED]


async def test_the_file_is_read_before_another_process_shows_that_the_first_one_is_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.dead.add(HARNESS)
        rig.news("codex", SESSION, TurnEnded(session=SESSION, frame_id="t1", frame_end="failed"))
        found = await rig.hook("codex", START | {"source": "resume"}, process=ANOTHER)
        assert endings(found) == [("frame.ended", "t1", "failed"), ("session.ended", None, "process_gone")]


async def test_the_file_is_read_before_the_next_prompt_settles_an_announced_end(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        rig.news("codex", SESSION, TurnEnded(session=SESSION, frame_id="t1", frame_end="failed"))
        assert endings(await rig.hook("codex", prompt("t2"))) == [("frame.ended", "t1", "failed")]


async def test_a_process_that_goes_on_right_behind_its_announced_end_keeps_the_session_open(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        assert endings(await rig.hook("codex", prompt("t2")))[-1] == COMPLETED
        assert endings(await rig.tick(4)) == []
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(4)) == [("frame.ended", "t2", "abandoned"), ("session.ended", None, "abandoned")]


async def test_a_prompt_by_another_process_does_not_go_on_in_a_frame_of_the_life_before(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("gemini", gemini("SessionStart", source="startup"))
        await rig.hook("gemini", gemini("BeforeAgent"))
        await rig.tick()
        await rig.hook("gemini", gemini("AfterAgent"))
        rig.dead.add(HARNESS)
        found = await rig.hook("gemini", gemini("BeforeAgent"), process=ANOTHER)
        assert endings(found) == [("frame.ended", "turn-1", "completed"), ("session.ended", None, "process_gone")]
        assert {one.telemetry_summary["frame_id"] for one in found if one.event == "frame.opened"} == {"turn-2"}


async def test_a_frame_whose_end_was_announced_once_was_taken(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("gemini", gemini("BeforeAgent"))
        await rig.hook("gemini", gemini("AfterAgent"))
        await rig.hook("gemini", gemini("BeforeAgent"))
        await rig.hook("gemini", gemini("SessionEnd"))
        assert endings(await rig.tick(2)) == [("frame.ended", "turn-1", "abandoned"), COMPLETED]


async def test_a_frame_that_another_one_followed_is_abandoned_however_soon_the_session_ends(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", prompt("t2"))
        await rig.hook("codex", END)
        ends = [("frame.ended", "t2", "unknown"), ("frame.ended", "t1", "abandoned"), COMPLETED]
        assert endings(await rig.tick(2)) == ends


async def test_what_was_over_when_its_process_was_killed_makes_no_session_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", child("t1", "a1"))
        await rig.hook("codex", prompt("t2"))
        await rig.hook("codex", stop("t2"))
        rig.dead.add(HARNESS)
        found = await rig.hook("codex", START | {"source": "resume"}, process=ANOTHER)
        assert endings(found) == [
            ("frame.ended", "t2", "completed"),
            ("frame.ended", "a1", "abandoned"),
            ("frame.ended", "t1", "abandoned"),
            ("session.ended", None, "process_gone"),
        ]


async def test_a_frame_is_over_where_the_one_behind_it_has_ended_already(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for hook, turn in (("on_session_start", ""), ("pre_llm_call", "t1"), ("pre_llm_call", "t2")):
            await rig.hook("hermes", {"hook_event_name": hook, "session_id": SESSION, "extra": {"turn_id": turn}})
        extra = {"turn_id": "t2", "completed": True}
        await rig.hook("hermes", {"hook_event_name": "on_session_end", "session_id": SESSION, "extra": extra})
        assert endings(await rig.tick()) == [("frame.ended", "t1", "abandoned")]


async def test_the_end_of_a_turn_whose_hooks_are_in_the_spool_is_not_forgotten(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.restart()
        await rig.supervisor.recover()
        shown = TurnEnded(session=SESSION, frame_id="t2", frame_end="interrupted")
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t2"), shown, grown=0, history=True)
        await rig.tick()
        for payload in (stop("t1"), prompt("t2")):
            await rig.hook("codex", payload, spooled_at_epoch_s=1)
        assert ("frame.ended", "t2", "interrupted") in endings(await rig.tick(4))


async def test_what_a_file_showed_before_a_restart_is_not_the_work_of_a_later_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        await rig.hook("codex", prompt("t2"))
        rig.restart()
        await rig.supervisor.recover()
        lines = (TurnStarted(session=SESSION, frame_id="t1"), Activity(session=SESSION))
        rig.news("codex", SESSION, *lines, grown=0, history=True)
        await rig.hook("codex", END)
        assert endings(await rig.tick(2)) == [("frame.ended", "t2", "unknown"), COMPLETED]


async def test_a_frame_that_a_client_opens_again_within_a_second_ends_again(tmp_path: Path) -> None:
    frame = FrameContext(frame_id="x1", frame_class=FrameClass.TOP_LEVEL)
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        for start in (START | {"source": "resume"}, prompt("t1")):
            request = lifebus.make_request("frame.opened", "codex", session=SESSION, frame=frame)
            await rig.bus.emit("somebody", [Emission(request=request)])
            await rig.hook("codex", END)
            assert endings(await rig.hook("codex", start)) == [("frame.ended", "x1", "unknown"), COMPLETED]


async def test_a_started_session_is_asked_for_its_file_only_where_an_end_waits(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, Activity(session=SESSION))
        await rig.hook("codex", prompt("t1"))
        assert len(await rig.files.poll()) == 1, "a hook waits for files though nothing depends on them"
        assert facts_of(await rig.tick()) == []
