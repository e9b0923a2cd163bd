"""A key is never free: whatever moment the power goes while receipts are pruned, its content is not recorded twice."""

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.batching import Batch, key_of
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ports import NewReceipt, is_same_content
from support.crash.disks import ForgetfulDisk
from support.effort import TORTURE, effort
from support.receipts import DIGEST, OTHER_DIGEST, entry

EPOCH = "0123456789abcdef" * 2
ROWS = 12
FLOOR = 9
KEYS = [key_of(client, "codex", f"k{number}") for number in range(ROWS) for client in ("alice", "reporter")]


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "PRUNE_STEP", 4)


def filled(path: Path) -> Path:
    """A ledger of receipts, each under two keys: the client's, and that of who reported the event."""
    store = Store.open(path, epoch=EPOCH)
    write(store, [entry(n, key=f"k{n}", telemetry_summary={"emitter": "reporter"}) for n in range(ROWS)])
    store.close()
    return path


def write(store: Store, entries: list[NewReceipt]) -> None:
    batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
    batch.add(entries)
    store.write(batch)


def prune(store: Store, floor: int) -> None:
    """What retention does, with what goes on beside it."""
    store.prune_to(floor, b"base", 100)
    for number in count():
        if not store.prune_step():
            break
        if number == 1:
            write(store, [entry(900, key="k900")])
            store.checkpoint()
    stones = [stone for (stone,) in store.connection.execute("SELECT key FROM tombstones ORDER BY key LIMIT 3")]
    store.remove_tombstones(stones, 100)
    store.checkpoint()


def cut(content: bytes, directory: Path, at: int, chance: random.Random) -> tuple[bool, Path]:
    """Prune until the power goes; say whether it did, and where the files are as they are found afterwards."""
    directory.mkdir()
    disk = ForgetfulDisk(directory.as_posix(), at)
    path = directory / "ledger.db"
    path.write_bytes(content)
    disk.load(directory)
    store = None
    try:
        store = Store.open(path, epoch=EPOCH, vfs=disk.name)
        prune(store, FLOOR)
    except apsw.Error:
        if not disk.is_cut:
            raise
    was_cut = disk.is_cut
    found = directory.with_name(f"{directory.name}x")
    found.mkdir()
    for name, left in disk.image(chance).items():
        if not name.endswith("-shm"):
            (found / name).write_bytes(left)
    disk.repair()
    if store is not None:
        store.close()
    disk.unregister()
    return was_cut, found / "ledger.db"


def assert_every_key_is_known(store: Store) -> None:
    known = store.lookup(KEYS)
    assert set(known) == set(KEYS)
    for digest, _ in known.values():
        assert is_same_content(digest, DIGEST)
        assert not is_same_content(digest, OTHER_DIGEST)


def cuts() -> Iterator[tuple[int, int]]:
    """Every other moment, or under torture every one, with many ways in which what was not synced may be left."""
    for at in count(1, 1 if TORTURE else 2):
        for seed in range(effort(1, 20)):
            yield at, seed


def test_a_power_cut_at_any_step_of_pruning_leaves_every_key_known(tmp_path: Path) -> None:
    moments, content = 0, filled(tmp_path / "ledger.db").read_bytes()
    for at, seed in cuts():
        was_cut, path = cut(content, tmp_path / f"{at}-{seed}", at, random.Random(seed * 1000 + at))
        if not was_cut:
            break
        moments += 1
        store = Store.open(path, epoch=EPOCH)
        assert_every_key_is_known(store)
        while store.prune_step():
            assert_every_key_is_known(store)
        assert_every_key_is_known(store)
        assert verify(path) == []
        store.close()
    assert moments > 20


def test_the_keys_of_pruned_receipts_are_compact_tombstones_until_they_expire(tmp_path: Path) -> None:
    store = Store.open(filled(tmp_path / "ledger.db"), epoch=EPOCH)
    store.prune_to(FLOOR, b"base", 100)
    while store.prune_step():
        pass
    ((kept,),) = store.connection.execute("SELECT count(*) FROM keys")
    ((count_, smallest, largest),) = store.connection.execute(
        "SELECT count(*), min(length(key) + length(digest)), max(length(key) + length(digest)) FROM tombstones"
    )
    assert (kept, count_, smallest, largest) == (2 * (ROWS - FLOOR), 2 * FLOOR, 24, 24)
    stones = [stone for (stone,) in store.connection.execute("SELECT key FROM tombstones")]
    store.remove_tombstones(stones, 100)
    assert_every_key_is_known(store)
    store.remove_tombstones(stones, 101)
    assert len(store.lookup(KEYS)) == 2 * (ROWS - FLOOR)
    assert not store.tombstones.exist
    store.close()


def test_a_damaged_tombstone_is_seen(tmp_path: Path) -> None:
    store = Store.open(filled(tmp_path / "ledger.db"), epoch=EPOCH)
    store.prune_to(1, b"base", 100)
    store.prune_step()
    store.connection.execute("UPDATE tombstones SET digest = zeroblob(8)")
    with pytest.raises(apsw.CorruptError, match="tombstone"):
        store.lookup(KEYS[:1])
    store.close()
