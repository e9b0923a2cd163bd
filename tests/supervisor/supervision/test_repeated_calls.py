"""Calls that come again, or behind what they are about: they open nothing again, end nothing, and show no process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, CallerProcess
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_contract import Emission
from lifebus_supervisor.hook_intake.calls import HookCalls
from support.adapters.calls import call
from support.supervisor.supervised import HARNESS, SupervisedBus, facts_of, supervised
from support.supervisor.turns import END, START, endings, prompt, running_turn, stop

ANOTHER = CallerProcess(pid=5432, started="boot:200")
GONE = ("session.ended", None, "process_gone")


async def late(rig: SupervisedBus, payload: dict[str, Any], **changes: Any) -> list[str]:
    """Have a call come from the spool, and return the events that it adds."""
    return facts_of(await rig.hook("codex", payload, spooled_at_epoch_s=int(rig.clock.epoch()), **changes))


async def test_a_prompt_that_comes_again_behind_the_announced_end_does_not_open_the_session_again(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", prompt("t1"), call_id="own-1")
        await rig.hook("codex", END)
        assert await late(rig, prompt("t1"), call_id="own-1") == []
        assert facts_of(await rig.tick(3)) == ["frame.ended", "session.ended"]
        assert await late(rig, prompt("t1"), call_id="own-1") == []


async def test_an_end_that_comes_again_does_not_end_the_life_after_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", END, call_id="own-1")
        await rig.hook("codex", START | {"source": "resume"})
        assert await late(rig, END, call_id="own-1") == []
        assert endings(await rig.tick(3)) == []


async def test_a_start_that_comes_again_shows_no_process(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START, call_id="own-1")
        await rig.hook("codex", END)
        await rig.hook("codex", START | {"source": "resume"}, process=ANOTHER)
        await rig.tick(2)
        rig.dead |= {HARNESS, ANOTHER}
        for number in (1, 2):  # two drains that could not finish
            assert await late(rig, START, call_id="own-1", process=HARNESS) == [], number
        assert endings(await rig.tick(4)) == [GONE]


async def test_a_call_that_was_interrupted_between_its_events_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        emit = rig.bus.emit

        async def emit_one(client_id: str, emissions: Sequence[Emission], **settings: Any) -> list[EmissionResult]:
            await emit(client_id, emissions[:1], **settings)
            raise RuntimeError("killed")

        hooks = HookCalls(rig.bus, ADAPTERS, 1.0, supervision=rig.supervisor)
        with monkeypatch.context() as killing:
            killing.setattr(rig.bus, "emit", emit_one)
            with pytest.raises(RuntimeError):
                await hooks.handle(call("codex", prompt("t1"), call_id="own-1"))
        assert await late(rig, prompt("t1"), call_id="own-1") == ["frame.opened"]


async def test_a_late_opening_of_a_frame_that_is_over_adds_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", stop("t1"))  # its prompt is in the spool still
        await rig.tick(2)
        assert await late(rig, prompt("t1")) == []
        assert endings(await rig.since(0)) == [("frame.ended", "t1", "completed")]


async def test_the_stop_of_a_frame_that_is_over_says_nothing_behind_the_end_of_its_session(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        await rig.tick(2)
        assert facts_of(await rig.hook("codex", stop("t1"))) == []
        assert await late(rig, stop("t7")) == []


async def test_the_stop_of_another_frame_behind_the_end_opens_the_session_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", END)
        found = await rig.hook("codex", stop("t7"))
        assert facts_of(found)[:2] == ["session.starting", "session.started"]
        assert [one.telemetry_summary.get("resumed") for one in found[:2]] == [True, True]
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(4))[-1] == GONE
