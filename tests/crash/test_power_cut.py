"""A power cut at any moment loses nothing that was acknowledged, and leaves a sound ledger (docs/ledger.md D1)."""

import asyncio
import random
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from lifebus_broker.ledger.batching import Batch, key_of
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.schema import Durability
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ports import AppendResult, NewRecord
from lifebus_contract import LifebusError
from support.crash.disks import ForgetfulDisk
from support.effort import effort
from support.patience import PATIENCE_S
from support.receipts import entry

EPOCH = "0123456789abcdef" * 2
SEEDS = effort(200, 5_000)
"""A multiple of ten: one case has ten of them."""
WAY_SEEDS = effort(50, 1_000)
"""The same, of whole ledgers."""
NOTES = "SELECT number, body FROM notes"


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "POINT_EVERY", 8)
    monkeypatch.setattr(sqlite_store, "PRUNE_STEP", 4)


def work(store: Store, chance: random.Random, acknowledged: dict[str, bytes]) -> None:
    """Do what a writer does until the power goes; note what has been committed."""
    for _ in range(12):
        first = store.head + 1
        entries = [
            entry(n, key=f"k{n}", harness_session_id=chance.choice(["s1", "s2", None]))
            for n in range(first, first + chance.choice([1, 2, 5, 20]))
        ]
        batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
        answers = batch.add(entries)
        notes = RecordBatch(store.records.tip_of) if chance.random() < 0.5 else None
        written = notes.add([NewRecord("a", b"n%d" % n) for n in range(first, first + 3)], 0) if notes else []
        store.write(batch, notes)
        acknowledged |= {f"note {note.number}": note.body for note in written}
        acknowledged |= {f"k{n}": answer.stored.receipt for n, answer in enumerate(answers, first) if answer.stored}
        if chance.random() < 0.2:
            store.checkpoint()
        if chance.random() < 0.1:
            store.prune_to(store.head // 3, b"base")
        if chance.random() < 0.3:
            store.prune_step()
        if chance.random() < 0.2:
            store.drop_many({"a": store.records.tip_of("a").floor + 2})


def run_until_cut(
    directory: Path,
    cut_at: int,
    chance: random.Random,
    acknowledged: dict[str, bytes],
    *,
    durability: Durability = "full",
    lies: bool = False,
) -> Path:
    """Work in `directory` until the power goes; return a directory with what is left."""
    disk = ForgetfulDisk(directory.as_posix(), cut_at, lies=lies)
    disk.load(directory)
    store = None
    try:
        store = Store.open(directory / "ledger.db", epoch=EPOCH, durability=durability, vfs=disk.name)
        work(store, chance, acknowledged)
    except apsw.Error:
        assert disk.is_cut
    left = directory.with_name(f"{directory.name}x")
    disk.leave(chance, left)
    disk.repair()
    if store is not None:
        store.close()
    disk.unregister()
    return left


def survivors(path: Path) -> dict[str, bytes]:
    """Return the receipts by key and the notes by number, what was dropped as empty bytes, read with plain SQL."""
    with closing(apsw.Connection(str(path))) as connection:

        def select(statement: str, table: str) -> list[Any]:
            """Return what is in a table, nothing where a format has no such table."""
            return connection.execute(statement).fetchall() if connection.table_exists(None, table) else []

        found = select("SELECT key, receipt FROM keys LEFT JOIN rows USING (position)", "keys")
        notes = {f"note {number}": body for number, body in select(NOTES, "notes")}
        for (floor,) in select("SELECT floor FROM note_streams", "note_streams"):
            notes |= {f"note {number}": b"" for number in range(1, floor + 1)}
        tombstones = {f"buried {stone.hex()}": b"" for (stone,) in select("SELECT key FROM tombstones", "tombstones")}
    return notes | tombstones | {key.split("\x1f")[2]: receipt or b"" for key, receipt in found}


def missing(path: Path, acknowledged: dict[str, bytes]) -> list[str]:
    left = survivors(path) if path.exists() and path.stat().st_size else {}
    return [
        key
        for key, receipt in acknowledged.items()
        if left.get(key, left.get(tombstone_of(key), b"?")) not in (receipt, b"")
    ]


def tombstone_of(key: str) -> str:
    """Return the name of what is left of a key whose receipt was pruned."""
    return f"buried {sha256(key_of('alice', 'codex', key).encode()).digest()[:16].hex()}"


@pytest.mark.parametrize("tens", range(SEEDS // 10))
def test_nothing_acknowledged_is_lost_by_two_power_cuts_in_a_row(tmp_path: Path, tens: int) -> None:
    for seed in range(tens * 10, tens * 10 + 10):
        (tmp_path / str(seed)).mkdir()
        lose_power_twice(tmp_path / str(seed), seed)


def lose_power_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    directory = tmp_path / "a"
    directory.mkdir()
    acknowledged: dict[str, bytes] = {}
    for _ in range(2):
        cut_at = chance.randrange(1, 150)
        directory = run_until_cut(directory, cut_at, chance, acknowledged)
        assert missing(directory / "ledger.db", acknowledged) == []
    path = directory / "ledger.db"
    store = Store.open(path, epoch=EPOCH)
    while store.prune_step():
        pass
    assert verify(path) == []
    assert store.head >= max((int(key[1:]) for key in acknowledged if key[0] == "k"), default=0)
    store.close()


@pytest.mark.usefixtures("commit_way")
@pytest.mark.parametrize("tens", range(WAY_SEEDS // 10))
async def test_nothing_that_a_ledger_acknowledged_is_lost_whichever_way_it_commits(tmp_path: Path, tens: int) -> None:
    for seed in range(tens * 10, tens * 10 + 10):
        chance = random.Random(seed)
        directory = tmp_path / str(seed)
        directory.mkdir()
        disk = ForgetfulDisk(directory.as_posix(), chance.randrange(1, 120))
        acknowledged = await record_until_cut(directory / "ledger.db", disk, chance)
        left = tmp_path / f"{seed}x"
        disk.leave(chance, left)
        disk.repair()
        disk.unregister()
        path = left / "ledger.db"
        assert missing(path, acknowledged) == []
        Store.open(path, epoch=EPOCH).close()
        assert verify(path) == []


async def record_until_cut(path: Path, disk: ForgetfulDisk, chance: random.Random) -> dict[str, bytes]:
    """Append to a ledger until the power goes; return what was acknowledged until it knew."""
    acknowledged: dict[str, bytes] = {}
    faults: list[Exception] = []
    told = asyncio.Event()

    def acknowledge(answers: list[AppendResult]) -> None:
        acknowledged.update((f"k{one.stored.position}", one.stored.receipt) for one in answers if one.stored)
        told.set()

    def fail(fault: Exception) -> None:
        faults.append(fault)
        told.set()

    try:
        ledger = await SqliteLedger.open(path, vfs=disk.name, failed=fail)
    except LifebusError:
        return acknowledged
    numbers = count(1)
    while not faults:
        told.clear()
        for _ in range(chance.choice([1, 3])):
            batch = [entry(n, key=f"k{n}") for n in (next(numbers) for _ in range(chance.choice([1, 5])))]
            assert ledger.append(batch, acknowledge) is None
        async with asyncio.timeout(PATIENCE_S):
            await told.wait()
    await ledger.aclose()
    return acknowledged


@pytest.mark.parametrize("weakness", [{"durability": "relaxed"}, {"lies": True}], ids=["relaxed", "lies"])
def test_the_test_notices_a_ledger_that_does_not_sync_and_a_disk_that_lies(
    tmp_path: Path, weakness: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    lost = 0
    for seed in range(20):
        chance = random.Random(seed)
        directory = tmp_path / f"n{seed}"
        directory.mkdir()
        acknowledged: dict[str, bytes] = {}
        left = run_until_cut(directory, 90, chance, acknowledged, **weakness)
        found: list[str] = list(acknowledged)
        with suppress(apsw.Error):  # a disk that lies may leave no database at all
            found = missing(left / "ledger.db", acknowledged)
        lost += len(found)
    assert lost > 0
    record_property("lost, as it must be", lost)
