"""A ledger that an earlier version wrote opens, verifies and goes on: receipts, keys, consumers, signals."""

import itertools
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from msgspec import Struct

from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.tables import TABLES
from lifebus_broker.signals.log import SignalLog
from lifebus_contract import InternalError
from support.contract_suites.journal_suite import every_record, noted
from support.receipts import append, entry, every_receipt, recorded

HERE = Path(__file__).parent


class Seen(Struct, frozen=True):
    thread: str
    event_type: str = "app_server.error"
    signal: bytes = b"{}"


def written_then(path: Path, version: int) -> Path:
    """Make the file as the version wrote it."""
    connection = apsw.Connection(str(path))
    connection.execute((HERE / f"ledger_format_{version}.sql").read_text("utf-8")).fetchall()
    connection.close()
    return path


@pytest.fixture(params=[1, 2])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return written_then(tmp_path / "ledger.db", request.param)


async def test_it_opens_verifies_and_keeps_counting(old: Path) -> None:
    ledger = await SqliteLedger.open(old)
    head = ledger.head
    assert await ledger.verify() == []
    (stored,) = await recorded(ledger, [entry(900, key="k000900")])
    (again,) = await append(ledger, [entry(1, key="k000001")])
    sequence = {1: 4, 2: 67}[int(ledger.epoch[:2])]
    assert (stored.position, stored.sequence, again.replayed) == (head + 1, sequence, True)
    await noted(ledger.journal, ("a", b"1"))
    await ledger.prune(head, b"base")
    await ledger.aclose()
    ledger = await SqliteLedger.open(old)
    assert [note.body for note in await every_record(ledger.journal, "a")] == [b"1"]
    assert await every_receipt(ledger, after=head) == [stored]
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_it_is_made_of_the_same_tables_as_a_new_one(old: Path, tmp_path: Path) -> None:
    for path in (old, tmp_path / "new.db"):
        await (await SqliteLedger.open(path)).aclose()
        connection = apsw.Connection(str(path))
        found: list[Any] = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        connection.close()
        assert dict(found) == TABLES


async def test_a_consumer_goes_on_where_it_was_and_so_do_the_signals(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(written_then(tmp_path / "ledger.db", 2))
    async with anyio.create_task_group() as tasks:
        table = ConsumerTable(ledger, tasks, itertools.count().__next__)
        await table.load()
        cursor = table.require("mirror")
        assert (cursor.describe(attached=False).scanned, cursor.describe(attached=False).open) == (3, 1)
        dealt = await cursor.fetch(2, 0)
        assert [each.position for each, _ in dealt.items] == [2, 4]
        await cursor.acknowledge(ledger.epoch, [2], 0)
    signals = await SignalLog.open(ledger.journal, epoch=ledger.epoch, keep_bytes=1 << 20)
    assert signals.through("origin") == 4
    await signals.record("origin", 5, "codex", [Seen("t1", signal=b"[5]")])
    page = await signals.read("codex", "t1", 2, 10)
    assert [(one.sequence, one.signal) for one in page.signals] == [(3, b'{"n":3}'), (4, b'{"n":4}'), (5, b"[5]")]
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_its_log_holds_the_digests_of_then(tmp_path: Path) -> None:
    path = written_then(tmp_path / "ledger.db", 2)
    with pytest.raises(InternalError, match="the next start of a broker"):
        SqliteLog(path)
    with pytest.raises(InternalError, match="the next start of a broker"):
        verify(path)
    await (await SqliteLedger.open(path)).aclose()
    with SqliteLog(path) as log:
        assert {line.digest for line in log.lines(0, 67)} == {b"0123456789abcdef".hex()}


async def test_who_claims_to_be_older_than_it_is_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, [entry(1, key="a")])
    await ledger.aclose()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(InternalError):
        await SqliteLedger.open(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    assert verify(path) == []
