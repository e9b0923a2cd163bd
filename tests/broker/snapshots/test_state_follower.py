"""The follower's stores are those of a replay, whatever it began from; a cache is never believed over the log."""

import errno
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from lifebus_broker.canonical_json import sha256_hex
from lifebus_broker.ledger.log import LogLine, encode_line
from lifebus_broker.snapshots import state_follower as follower_module
from lifebus_broker.snapshots.compactions import state_cache
from lifebus_broker.snapshots.compactions.compaction import Compaction, compact
from lifebus_broker.snapshots.compactions.files import DIRECTORY, CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache, cache_id_at
from lifebus_broker.snapshots.compactions.state_cache_store import KEPT_CACHES
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import line_digest
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_broker.state.stores import Stores, dump_stores
from lifebus_contract import StateConflict
from lifebus_contract.codec import decode_receipt
from support.histories import history, lines_of, replayed
from support.logs import MemoryLog

STEP = 8


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "CACHE_EVERY", STEP)
    monkeypatch.setattr(follower_module, "CACHE_EVERY", STEP)
    monkeypatch.setattr(follower_module, "BATCH", 5)


def log_of(count: int, seed: int = 0) -> MemoryLog:
    """A log of this many receipts; logs of different seeds differ from the first receipt on."""
    return MemoryLog(lines_of(history(seed, count)))


def replayed_dump(lines: list[LogLine]) -> bytes:
    return dump_stores(replayed(lines))


def files_in(directory: Path) -> CompactionFiles:
    return CompactionFiles(directory, StateCache.policy_id)


def cache_path(directory: Path, log: MemoryLog, position: int) -> Path:
    return directory / DIRECTORY / StateCache.policy_id / f"{cache_id_at(log, position)}.json"


def test_the_live_state_is_the_replay_after_every_piece() -> None:
    log = log_of(30)
    follower = StateFollower(log)
    more = True
    while more:
        more = follower.step()
        assert dump_stores(follower.state) == replayed_dump(log.all_lines[: follower.position])
    assert follower.position == 30
    assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)


def test_it_goes_as_far_as_it_is_asked_and_never_back() -> None:
    follower = StateFollower(log_of(30))
    assert follower.advance(11).position == 11
    assert follower.advance(4).position == 11
    assert follower.advance(99).position == 30


def test_a_start_reads_what_came_since_the_newest_cache_and_no_more(tmp_path: Path) -> None:
    log = log_of(3 * STEP + 5)
    StateFollower(log, files_in(tmp_path)).advance()
    log.read = 0
    again = StateFollower(log, files_in(tmp_path))
    assert again.position == 3 * STEP
    assert dump_stores(again.advance()) == replayed_dump(log.all_lines)
    assert log.read <= 5 + 3  # the tail, and the lines that name the caches


def test_the_newest_caches_are_kept_and_older_ones_deleted(tmp_path: Path) -> None:
    log = log_of(6 * STEP + 1)
    files = files_in(tmp_path)
    files.write(compact(StateCache.purpose, StateCache.policy_id, ("log@1",), b"{}"))
    StateFollower(log, files).advance()
    kept = {cache_id_at(log, position * STEP) for position in range(7 - KEPT_CACHES, 7)}
    assert set(files.ids()) == kept


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_stores_at_any_position_are_those_of_a_replay(head: int, here: int, position: int) -> None:
    log = log_of(head)
    follower = StateFollower(log)
    follower.advance(here)
    before = dump_stores(follower.state)
    if position > head:
        with pytest.raises(StateConflict, match="not in the log"):
            follower.stores_at(position)
    else:
        assert dump_stores(follower.stores_at(position)) == replayed_dump(log.all_lines[:position])
    assert dump_stores(follower.state) == before


def test_stores_in_the_middle_come_from_the_nearest_cache(tmp_path: Path) -> None:
    log = log_of(3 * STEP + 5)
    follower = StateFollower(log, files_in(tmp_path))
    follower.advance()
    log.read = 0
    assert dump_stores(follower.stores_at(2 * STEP + 3)) == replayed_dump(log.all_lines[: 2 * STEP + 3])
    assert log.read <= 3 + 3


def test_a_pruned_log_begins_from_its_base_and_nothing_before_the_floor_can_be_asked_for() -> None:
    whole = log_of(30)
    base = dump_stores(StateFollower(whole).stores_at(13))
    log = MemoryLog(whole.all_lines[13:], floor=13, base=base)
    follower = StateFollower(log)
    assert follower.position == 13
    assert dump_stores(follower.advance()) == replayed_dump(whole.all_lines)
    assert dump_stores(follower.stores_at(13)) == base
    with pytest.raises(StateConflict, match="holds 13 to 30"):
        follower.stores_at(12)


def test_a_follower_that_the_floor_overtook_begins_again_from_the_base() -> None:
    whole = log_of(30)
    log = MemoryLog(whole.all_lines)
    follower, asked = StateFollower(log), StateFollower(log)
    follower.advance(5)
    asked.advance(5)
    log.dump, log.floor, log.all_lines = dump_stores(asked.stores_at(13)), 13, whole.all_lines[13:]
    assert dump_stores(asked.stores_at(13)) == log.dump
    assert dump_stores(asked.stores_at(15)) == replayed_dump(whole.all_lines[:15])
    assert dump_stores(follower.advance()) == replayed_dump(whole.all_lines)


def test_a_base_that_cannot_be_right_is_a_broken_log() -> None:
    whole = log_of(30)
    for base in (None, b"", b"{}", dump_stores(StateFollower(whole).stores_at(12))):
        with pytest.raises(BrokenLog, match="base of the pruned lines"):
            StateFollower(MemoryLog(whole.all_lines[13:], floor=13, base=base)).advance()


def _torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    return data.replace(b'"receipts":', b'"receipts":1', 1)


def _of_other_reducers(data: bytes) -> bytes:
    start, end = data.index(b'"output":') + 9, data.index(b',"output_hash"')
    output = data[start:end].replace(b'"reducer":', b'"reducer":9', 1)
    old_hash = data[end + 16 : end + 16 + 64]
    return (data[:start] + output + data[end:]).replace(old_hash, sha256_hex(output).encode())


@pytest.mark.parametrize("damage", [_torn, _flipped, _of_other_reducers, lambda _: b"", lambda _: b"\x00" * 4096])
def test_a_torn_a_flipped_and_another_versions_cache_are_named_thrown_away_and_written_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    log = log_of(3 * STEP + 5)
    StateFollower(log, files_in(tmp_path)).advance()
    path = cache_path(tmp_path, log, 3 * STEP)
    sound = path.read_bytes()
    path.write_bytes(damage(sound))
    refused: list[RefusedFile] = []
    follower = StateFollower(log, files_in(tmp_path), refused.append)
    assert follower.position == 2 * STEP
    assert [one.name for one in refused] == [path.stem]
    assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)
    assert path.read_bytes() == sound


def test_a_cache_of_another_log_is_never_even_looked_for(tmp_path: Path) -> None:
    StateFollower(log_of(3 * STEP, seed=1), files_in(tmp_path)).advance()
    log = log_of(2 * STEP + 1)
    follower = StateFollower(log, files_in(tmp_path))
    assert follower.position == 0
    assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)


def forged(log: MemoryLog, position: int, stores: Stores) -> Compaction:
    """A cache with the right name and the right hash, and other stores."""
    handles = state_cache.handles_at(log.all_lines[position - 1])
    return compact(StateCache.purpose, StateCache.policy_id, handles, dump_stores(stores))


def test_a_cache_that_holds_another_state_than_it_says_is_thrown_away(tmp_path: Path) -> None:
    log = log_of(2 * STEP + 4)
    files = files_in(tmp_path)
    for lines in (log_of(2 * STEP, seed=1).all_lines, log.all_lines[: 2 * STEP - 1], log.all_lines[: 2 * STEP + 1]):
        files.write(forged(log, 2 * STEP, replayed(lines)))
        refused: list[RefusedFile] = []
        follower = StateFollower(log, files, refused.append)
        assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)
        assert len(refused) == 1


def stream_in(line: LogLine) -> tuple[str, str | None]:
    receipt = decode_receipt(line.receipt)
    return receipt.adapter_id, receipt.harness_session_id


def test_a_cache_that_the_log_does_not_continue_is_thrown_away_and_the_log_read(tmp_path: Path) -> None:
    log = log_of(4 * STEP)
    wrong = replayed(log.all_lines[: 2 * STEP])
    key = next(key for line in log.all_lines[2 * STEP :] if (key := stream_in(line)) in wrong.facts.streams)
    wrong.facts.streams[key] = structs.replace(wrong.facts.streams[key], link=bytes(32))
    files = files_in(tmp_path)
    files.write(forged(log, 2 * STEP, wrong))
    refused: list[RefusedFile] = []
    follower = StateFollower(log, files, refused.append)
    assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)
    assert "contradicts" in refused[0].why
    files.write(forged(log, 2 * STEP, wrong))
    reader = StateFollower(log, files, writing=False)
    assert dump_stores(reader.advance()) == replayed_dump(log.all_lines)
    assert dump_stores(reader.stores_at(2 * STEP + 1)) == replayed_dump(log.all_lines[: 2 * STEP + 1])
    reader.renew_caches()
    assert files.read(str(cache_id_at(log, 2 * STEP))) == forged(log, 2 * STEP, replayed(log.all_lines[: 2 * STEP]))


def test_a_log_that_does_not_follow_from_its_first_line_is_broken() -> None:
    log = log_of(20)
    log.all_lines[11] = structs.replace(log.all_lines[11], link="0" * 64)
    with pytest.raises(BrokenLog, match="row 12"):
        StateFollower(log).advance()
    log = log_of(20)
    del log.all_lines[11]
    with pytest.raises(BrokenLog, match="row 13"):
        StateFollower(log).advance()


def test_a_cache_that_cannot_be_written_is_reported_and_the_follower_goes_on(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).write_text("a file stands where the directory should")
    refused: list[RefusedFile] = []
    log = log_of(STEP + 1)
    follower = StateFollower(log, files_in(tmp_path), refused.append)
    assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)
    assert "cannot be written" in refused[0].why


def test_caches_that_a_failing_disk_does_not_give_or_take_away_are_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(2 * STEP + 1)
    StateFollower(log, files_in(tmp_path)).advance()
    cache_path(tmp_path, log, 2 * STEP).write_bytes(b"torn")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for name in ("remove", "ids"):
        monkeypatch.setattr(CompactionFiles, name, fail)
        refused: list[RefusedFile] = []
        follower = StateFollower(log, files_in(tmp_path), refused.append)
        assert dump_stores(follower.advance()) == replayed_dump(log.all_lines)
        assert refused


def test_a_line_that_is_followed_is_hashed_with_it_and_read_once() -> None:
    log = log_of(40)
    follower = StateFollower(log)
    follower.advance(30)
    follower.log_hash(0)
    log.read = 0
    follower.advance(40)
    assert follower.log_hash(0) == sha256(b"".join(map(encode_line, log.all_lines))).hexdigest()
    assert follower.line_digests(0) == b"".join(line_digest(encode_line(line)) for line in log.all_lines)
    assert log.read == 10


def test_the_hash_of_the_log_is_that_of_its_lines_and_costs_only_what_is_new() -> None:
    log = log_of(40)
    follower = StateFollower(log)
    for through in (0, 3, 17, 17, 30, 40):
        follower.advance(through)
        for after in (0, max(through - 1, 0) // STEP * STEP):
            lines = log.all_lines[after:through]
            assert follower.log_hash(after) == sha256(b"".join(map(encode_line, lines))).hexdigest()
    log.read = 0
    assert follower.log_hash(0) == follower.log_hash(0)
    assert log.read == 0
