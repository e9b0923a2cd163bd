"""More sessions, frames and turns than are remembered."""

from pathlib import Path

import pytest

from lifebus_adapters import CallerProcess
from lifebus_supervisor.supervision import monitor_table
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised
from support.supervisor.turns import START, child, endings, prompt, running_turn, stop


async def turn(rig: SupervisedBus, number: int) -> CallerProcess:
    """Take a turn in a session of its own."""
    process, session = CallerProcess(pid=100 + number, started="boot:1"), {"session_id": f"s{number}"}
    for payload in (START, prompt("t1"), stop("t1")):
        await rig.hook("codex", payload | session, process=process)
    return process


async def test_of_more_sessions_than_are_supervised_each_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_table, "MAX_MONITORS", 4)
    async with supervised(tmp_path) as rig:
        processes = [await turn(rig, number) for number in range(7)]
        newest = rig.supervisor.monitors.get(("codex", "s6"))
        assert newest is not None
        assert newest.is_live, "the session that works now is not supervised"
        rig.dead |= set(processes)
        found = await rig.tick(40)
        assert {one.harness_session_id for one in found if one.event == "session.ended"} == {
            f"s{number}" for number in range(7)
        }
        assert [(head.ended, head.open_frames) for head in await rig.bus.ledger.sessions()] == [(True, ())] * 7


async def test_frames_end_once_each_where_more_of_them_are_open_than_a_session_remembers(tmp_path: Path) -> None:
    agents = [f"a{number}" for number in range(70)]
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        for agent in agents:
            await rig.hook("codex", child("t1", agent))
        for agent in agents:
            await rig.hook("codex", child("t1", agent) | {"hook_event_name": "SubagentStop"})
        await rig.hook("codex", stop("t1"))
        rig.dead.add(HARNESS)
        await rig.tick(4)
        frames = sorted(str(frame) for event, frame, _ in endings(await rig.since(0)) if event == "frame.ended")
        assert frames == sorted([*agents, "t1"])


async def test_a_turn_of_long_ago_does_not_end_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        for number in range(70):
            await rig.hook("codex", prompt(f"t{number}"))
            await rig.hook("codex", stop(f"t{number}"))
        await rig.tick(2)
        before = rig.bus.ledger.head
        await rig.hook("codex", prompt("t1"), spooled_at_epoch_s=1)
        await rig.hook("codex", stop("t1"))
        await rig.tick(3)
        assert endings(await rig.since(before)) == []
