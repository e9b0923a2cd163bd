"""Calls from the spool name the process that made them: it may live, be gone, or have lost its id to another one."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import CallerProcess
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised
from support.supervisor.turns import START, endings, prompt, stop

GONE = CallerProcess(pid=HARNESS.pid, started="gone")
ANOTHER = CallerProcess(pid=5432, started="boot:200")
PROCESS_GONE = ("session.ended", None, "process_gone")
COMPLETED = ("session.ended", None, "completed")
ABANDONED = [("frame.ended", "t1", "abandoned"), ("session.ended", None, "abandoned")]
TURN_ENDED = ("frame.ended", "t1", "completed")
DISPOSE = {"hook": "dispose", "input": None, "output": None}
CREATED = {"type": "session.created", "properties": {"sessionID": "ses_1", "info": {"id": "ses_1"}}}
OPENCODE = (
    {"hook": "event", "input": {"event": {"id": "evt_1", **CREATED}}},
    {"hook": "chat.message", "input": {"sessionID": "ses_1"}, "output": {"message": {"id": "msg_1"}}},
)


async def late(rig: SupervisedBus, adapter_id: str, *payloads: dict[str, Any], by: CallerProcess, at: int = 0) -> None:
    """Have calls come from the spool that were made so many seconds before now."""
    for payload in payloads:
        when = int(rig.clock.epoch()) - at
        await rig.hook(adapter_id, payload, process=by, spooled_at_epoch_s=when)


def process_is_gone(rig: SupervisedBus) -> None:
    rig.dead |= {GONE, HARNESS}


async def test_a_session_whose_calls_all_came_late_ends_with_its_process(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        process_is_gone(rig)
        await late(rig, "codex", START, prompt("t1"), stop("t1"), by=GONE)
        assert endings(await rig.tick()) == [TURN_ENDED]
        assert endings(await rig.tick(4)) == [PROCESS_GONE]


async def test_a_frame_that_was_left_open_without_evidence_is_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        process_is_gone(rig)
        await late(rig, "codex", START, prompt("t1"), by=GONE)
        assert endings(await rig.tick(4)) == ABANDONED


async def test_a_process_that_still_runs_keeps_its_session_open_until_it_is_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await late(rig, "codex", START, prompt("t1"), by=HARNESS)
        assert endings(await rig.tick(6)) == []
        process_is_gone(rig)
        assert endings(await rig.tick(4)) == ABANDONED


async def test_a_late_call_is_no_sign_of_life(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", prompt("t1"))
        process_is_gone(rig)
        await rig.tick()
        await late(rig, "codex", stop("t1"), by=GONE)
        # The process of the late call is the one that is gone: nothing begins to be counted again.
        assert endings(await rig.tick()) == [TURN_ENDED, PROCESS_GONE]


async def test_helpers_that_call_once_each_are_not_the_harness(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for number, payload in enumerate((START, prompt("t1"), stop("t1"))):
            helper = CallerProcess(pid=500 + number, started="gone")
            rig.dead.add(helper)
            await late(rig, "codex", payload, by=helper)
        assert endings(await rig.tick(10)) == [TURN_ENDED]


@pytest.mark.parametrize("at", [0, 60])
async def test_a_call_that_comes_again_is_no_second_one(tmp_path: Path, at: int) -> None:
    async with supervised(tmp_path) as rig:
        helper = CallerProcess(pid=500, started="gone")
        rig.dead.add(helper)
        when = int(rig.clock.epoch()) - at
        for _ in range(2):  # a drain that could not finish reads the spool again
            await rig.hook("codex", START, process=helper, call_id="hook-1", spooled_at_epoch_s=when)
            await rig.tick()
        assert endings(await rig.tick(10)) == []


async def test_the_second_call_may_come_after_the_first_caller_was_forgotten(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        process_is_gone(rig)
        assert endings(await rig.tick(3)) == []
        await late(rig, "codex", prompt("t1"), by=GONE, at=30)
        assert endings(await rig.tick(4)) == ABANDONED


async def test_a_process_that_took_over_the_id_is_not_the_caller(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.dead.add(GONE)
        await late(rig, "codex", START, prompt("t1"), by=GONE)
        # Another session's harness has the id now: it lives, and so does its session.
        await rig.hook("claude", START | {"session_id": "s2"}, process=HARNESS)
        found = await rig.tick(6)
        assert endings(found) == ABANDONED
        assert {one.harness_session_id for one in found if one.event == "session.ended"} == {"s1"}


async def test_calls_of_before_say_nothing_against_the_process_that_resumed_the_session(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        process_is_gone(rig)
        await rig.hook("codex", START | {"source": "resume"}, process=ANOTHER)
        await late(rig, "codex", prompt("t1"), stop("t1"), by=GONE, at=60)
        assert endings(await rig.tick(10)) == [TURN_ENDED]
        rig.dead.add(ANOTHER)
        assert endings(await rig.tick(4)) == [PROCESS_GONE]


async def test_a_session_that_another_process_has_open_outlives_one_whose_calls_come_late(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START, process=ANOTHER)
        await rig.hook("codex", prompt("t1"), process=ANOTHER)
        await rig.tick(20)
        process_is_gone(rig)
        await late(rig, "codex", stop("t1"), prompt("t2"), stop("t2"), by=GONE)
        assert PROCESS_GONE not in endings(await rig.tick(10))
        rig.dead.add(ANOTHER)
        assert endings(await rig.tick(4)) == [PROCESS_GONE]


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_late_end_of_a_process_ends_the_session_of_its_late_calls(tmp_path: Path, calls: int) -> None:
    async with supervised(tmp_path) as rig:
        process_is_gone(rig)
        await late(rig, "opencode", *OPENCODE[:calls], DISPOSE, by=GONE)
        assert endings(await rig.tick(4))[-1] == COMPLETED


async def test_a_late_end_of_a_process_ends_the_session_of_its_earlier_calls(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in OPENCODE:
            await rig.hook("opencode", payload)
        process_is_gone(rig)
        await late(rig, "opencode", DISPOSE, by=GONE)
        assert endings(await rig.tick(2))[-1] == COMPLETED


@pytest.mark.parametrize("by", [GONE, HARNESS], ids=["gone", "about to go"])
async def test_a_late_end_does_not_end_a_session_that_another_process_has_open(
    tmp_path: Path, by: CallerProcess
) -> None:
    async with supervised(tmp_path) as rig:
        rig.dead.add(GONE)
        await late(rig, "opencode", *OPENCODE, by=by, at=60)
        await rig.hook("opencode", OPENCODE[1], process=ANOTHER)
        await late(rig, "opencode", DISPOSE, by=by, at=60)
        assert COMPLETED not in endings(await rig.tick(6))


async def test_a_late_end_says_nothing_of_the_process_that_has_its_id_now(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.dead.add(GONE)
        for payload in OPENCODE:
            await rig.hook("opencode", payload)
        await late(rig, "opencode", DISPOSE, by=GONE, at=60)
        assert endings(await rig.tick(6)) == []


async def test_an_end_that_was_announced_is_not_that_of_the_next_life(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        process_is_gone(rig)
        await late(rig, "opencode", *OPENCODE, DISPOSE, by=GONE)
        assert COMPLETED in endings(await rig.tick(2))
        again = {**OPENCODE[1], "output": {"message": {"id": "msg_2"}}}
        await late(rig, "opencode", again, again, by=ANOTHER)
        assert endings(await rig.tick(6)) == []
