"""Scenes begin behind a state cache: they boot from it, without it, and after everything before it was pruned."""

from pathlib import Path

import pytest

from lifebus_broker.snapshots import state_follower as follower_module
from lifebus_broker.snapshots.boot import KeptFiles
from lifebus_broker.snapshots.capture import capture_snapshot
from lifebus_broker.snapshots.cold_boot_error import ColdBootError
from lifebus_broker.snapshots.compactions import state_cache
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import dump_stores
from support.histories import replayed
from support.snapshots.logs import PINS, HeldLog, booted, log_of, saved

SCENE, SESSION, CAMPAIGN = SaveType


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "CACHE_EVERY", 16)
    monkeypatch.setattr(follower_module, "CACHE_EVERY", 16)


@pytest.fixture
def log() -> HeldLog:
    return log_of(21, 70)


def test_a_scene_begins_behind_the_newest_cache_before_it(log: HeldLog) -> None:
    ranges = {count: saved(HeldLog(log.kept[:count]), SCENE).event_log_range for count in (5, 16, 17, 32, 33, 70)}

    assert ranges == {5: (1, 5), 16: (1, 16), 17: (17, 17), 32: (17, 32), 33: (33, 33), 70: (65, 70)}


def test_each_type_names_all_compactions_of_the_one_before_and_more(log: HeldLog) -> None:
    scene, session, campaign = (set(saved(log, one).compaction_ids) for one in SaveType)

    assert len(scene) == 1
    assert scene < session <= campaign


@pytest.mark.parametrize("cached", [False, True])
def test_a_scene_boots_from_its_cache_and_without_it_to_the_same_bytes(
    log: HeldLog, tmp_path: Path, *, cached: bool
) -> None:
    files = CompactionFiles(tmp_path, StateCache.policy_id) if cached else None
    follower = StateFollower(log, files)
    follower.advance()
    snapshot = capture_snapshot(SCENE, follower, log, PINS)

    rebuilt = booted(
        snapshot, log, stores_at=follower.stores_at, kept=KeptFiles(compaction=files.read) if files else None
    )

    assert dump_stores(rebuilt.stores) == dump_stores(replayed(log.kept))
    assert rebuilt.rebuilt.kept == int(cached)
    assert rebuilt.steps[4].checked == "as they were at position 64"
    assert dump_stores(booted(snapshot, log).stores) == dump_stores(rebuilt.stores)


@pytest.mark.parametrize("floor", [10, 64])
def test_a_scene_is_proved_as_long_as_its_own_lines_are_there(log: HeldLog, floor: int) -> None:
    snapshot, whole = saved(log, SCENE), saved(log, SESSION)
    pruned = log.prune(floor)

    assert dump_stores(booted(snapshot, pruned).stores) == dump_stores(replayed(log.kept))
    with pytest.raises(ColdBootError, match="cannot be proved any more"):
        booted(whole, pruned)
    with pytest.raises(ColdBootError, match="cannot be proved any more"):
        booted(snapshot, log.prune(65))


def test_a_cache_that_lies_about_the_state_is_found_out(log: HeldLog) -> None:
    snapshot, other = saved(log, SCENE), log_of(22, 64)

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, log, stores_at=lambda _: replayed(other.kept))

    assert failed.value.step in {6, 8}


def test_a_session_rebuilds_the_cache_on_its_way(log: HeldLog, tmp_path: Path) -> None:
    files = CompactionFiles(tmp_path, StateCache.policy_id)
    StateFollower(log, files).advance()
    (cache,) = saved(log, SCENE).compaction_ids
    right = booted(saved(log, SESSION), log, kept=KeptFiles(compaction=files.read))
    (path,) = tmp_path.rglob(f"{cache}.json")
    path.write_bytes(path.read_bytes().replace(b"{", b"{ ", 1))

    stale = booted(saved(log, SESSION), log, kept=KeptFiles(compaction=files.read))

    assert (right.rebuilt.kept, right.rebuilt.stale) == (1, ())
    assert (stale.rebuilt.kept, stale.rebuilt.stale) == (0, (cache,))
    assert dump_stores(stale.stores) == dump_stores(right.stores)
