"""What is dropped gives its disk back, beside the appends; and where the disk gets short, appends wait for room."""

import asyncio
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.sqlite import ledger as sqlite_module
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.usage import bytes_on_disk
from lifebus_broker.ledger.sqlite.writing import maintenance as sqlite_maintenance
from lifebus_broker.ports import Query
from support.broker_process import until
from support.patience import PATIENCE_S
from support.receipts import append, entry, every_receipt, keyed, recorded

MIB = 1_048_576
SLACK = 2 * MIB
"""What stays beside what is kept: a MiB of free pages, and the write-ahead log of the last appends."""


async def fill(ledger: SqliteLedger, first: int, many: int) -> None:
    for start in range(first, first + many, 500):
        await recorded(ledger, keyed(range(start, start + 500), harness_run_id="r" * 200))


async def settled(path: Path, limit: int) -> None:
    """Wait until the files take no more than this."""
    await until(lambda: bytes_on_disk(path) <= limit)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("reading", [False, True], ids=["alone", "beside a reader"])
async def test_what_is_dropped_gives_its_disk_back(path: Path, reading: bool) -> None:
    ledger = await SqliteLedger.open(path)
    other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) if reading else None
    await fill(ledger, 0, 8_000)
    full = bytes_on_disk(path)
    if other is not None:
        assert other.execute("SELECT count(*) FROM rows").get == 8_000
    await ledger.prune(7_000, b"base")
    await settled(path, full // 8 + SLACK)
    assert len(await every_receipt(ledger, after=7_000)) == 1_000
    if other is not None:
        assert other.execute("SELECT count(*) FROM rows").get == 1_000
        other.close()
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_a_reader_that_does_not_let_go_holds_up_the_disk_and_nobody_else(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await fill(ledger, 0, 4_000)
    other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    held = other.execute("BEGIN; SELECT position FROM rows")
    assert next(held) == (1,)
    await ledger.prune(3_500, b"base")
    async with asyncio.timeout(PATIENCE_S):
        while ledger._file.store.pruned < 3_500:
            await recorded(ledger, [entry(9_000 + ledger.head, key=f"n{ledger.head}")])
    assert sum(1 for _ in held) == 3_999, "it sees what was there when it began"
    other.close()
    await settled(path, bytes_on_disk(path) // 2)
    await ledger.aclose()


async def test_a_file_that_is_pruned_while_it_is_written_stays_near_its_limit(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await fill(ledger, 0, 3_000)
    ledger.bound(keep=16 * MIB, spare=0)
    limit = bytes_on_disk(path) + 8 * MIB
    largest = 0
    for start in range(3_000, 15_000, 500):
        await fill(ledger, start, 500)
        await ledger.prune(ledger.head - 3_000, b"base")
        largest = max(largest, bytes_on_disk(path))
    assert largest < limit, "beside what is kept: 4 MiB of write-ahead log, and what is being deleted"
    await ledger.aclose()


async def test_an_interrupted_return_goes_on_after_the_next_open(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await fill(ledger, 0, 6_000)
    await ledger.prune(5_500, b"base")
    await ledger.aclose()
    full = bytes_on_disk(path)
    ledger = await SqliteLedger.open(path)
    await settled(path, min(full, 2 * MIB))
    await ledger.aclose()


async def test_appends_are_refused_while_the_disk_is_short_and_go_on_when_there_is_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 100 * MIB
    monkeypatch.setattr(sqlite_module, "room_on", lambda _: (free, 10_000 * MIB))
    monkeypatch.setattr(sqlite_maintenance, "_MEASURE_S", 0.01)
    ledger = await SqliteLedger.open(path)
    ledger.bound(keep=0, spare=64 * MIB)
    await recorded(ledger, keyed(range(10)))
    free = 63 * MIB
    async with asyncio.timeout(PATIENCE_S):
        while ledger.status().writable:
            await append(ledger, [])
    refusal = ledger.append([entry(99)], lambda _: None)
    assert refusal is not None
    assert refusal.code == "disk_full"
    assert len((await ledger.read(Query())).stored) == 10, "reading goes on"
    assert await ledger.prune(5, b"base") == 5, "and so does what makes room"
    free = 64 * MIB
    await until(lambda: ledger.status().writable)
    await recorded(ledger, keyed([11]))
    await ledger.aclose()


def test_the_room_on_a_disk_is_what_its_user_may_have(tmp_path: Path) -> None:
    free, total = sqlite_maintenance.room_on(tmp_path)
    assert 0 < free < total
