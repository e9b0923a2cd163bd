"""Frames and sessions whose end nobody reported are closed, with evidence; those that live are left alone."""

from pathlib import Path

from lifebus_adapters import CallerProcess
from lifebus_adapters.shared.telemetry import Activity, TurnEnded, TurnStarted
from support.supervisor.supervised import HARNESS, facts_of, supervised
from support.supervisor.turns import END, SESSION, START, child, endings, prompt, running_turn, stop


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


async def test_a_prompt_that_the_file_shows_taken_was_abandoned_when_the_session_ends_in_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"))
        await rig.hook("codex", END)
        assert endings(await rig.tick()) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "completed")]


async def test_a_sub_agent_stands_in_the_turn_that_is_open(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        opened = await rig.hook("codex", child("a-turn-of-its-own", "a1"))
        assert {one.telemetry_summary["parent_frame_id"] for one in opened} == {"t1"}
        assert await rig.hook("codex", child("a-turn-of-its-own", "a1") | {"hook_event_name": "UserPromptSubmit"}) == []
        ended = await rig.hook("codex", child("another", "a1") | {"hook_event_name": "SubagentStop"})
        assert {one.telemetry_summary["parent_frame_id"] for one in ended} == {"t1"}
