"""An end that the ledger refuses for now, as with a full disk, is tried again; also where nobody ticks."""

from pathlib import Path

import pytest

from lifebus_broker.ledger.refusals import DISK_FULL
from support.supervisor.supervised import SupervisedBus, supervised
from support.supervisor.turns import endings, running_turn, stop


async def settle_when_due(rig: SupervisedBus, count: int) -> int:
    """Do what waits for announced ends does where ticks are off; return how many passes were due."""
    for number in range(count):
        due = rig.supervisor.settles_at()
        if due is None:
            return number
        rig.clock.seconds = max(rig.clock.seconds, due)
        await rig.supervisor.settle()
    return count


async def test_an_end_that_a_full_disk_refuses_is_recorded_once_when_there_is_room_though_nobody_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        before, began = rig.bus.ledger.head, rig.clock.seconds
        with monkeypatch.context() as full:
            full.setattr(rig.bus.ledger, "append", lambda _, __: DISK_FULL)
            assert await settle_when_due(rig, 6) == 6, "the end is given up"
        assert 30 < rig.clock.seconds - began < 3_600, "a full disk is asked without a pause, or the end is given up"
        assert rig.bus.ledger.head == before
        assert await settle_when_due(rig, 6) == 1
        assert endings(await rig.since(before)) == [("frame.ended", "t1", "completed")]
