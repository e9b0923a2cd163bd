"""The journal keeps the same promises whether its file is kept or not; what only a kept one does is here as well."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.record_batch import MAX_QUEUED_RECORDS
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Ledger, NewRecord, Record, Refusal
from support.contract_suites.journal_suite import AT, JournalContract, Open, every_record, noted
from support.crash.disks import FaultyDisk, FullDisk, SlowDisk
from support.integration.following import until
from support.receipts import entry, keyed, recorded


def stands() -> float:
    return AT + 0.9


class TestUnkeptJournal(JournalContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[Ledger]:
            async with aclosing(await open_unkept(tmp_path, clock=stands)) as ledger:
                yield ledger

        return open_it


class TestSqliteJournal(JournalContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[Ledger]:
            ledger = await SqliteLedger.open(tmp_path / "ledger.db", clock=stands)
            try:
                yield ledger
            finally:
                await ledger.aclose()

        return open_it


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def test_notes_come_back_and_count_on_after_the_file_was_closed(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    written = await noted(ledger.journal, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("a", b"4"))
    await ledger.journal.drop("a", 1)
    await ledger.aclose()
    ledger = await SqliteLedger.open(path)
    assert await every_record(ledger.journal, "a") == [written[2], written[3]]
    (new, other) = await noted(ledger.journal, ("a", b"5"), ("c", b"6"))
    assert (new.number, other.number) == (4, 1)
    assert await every_record(ledger.journal, "b") == [written[1]]
    assert await ledger.verify() == []
    await ledger.aclose()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("DELETE FROM notes WHERE number = 3", "`a`: note 3: is missing"),
        ("DELETE FROM notes WHERE number = 5", "`a`: note 5: the newest note is not the head"),
        ("DELETE FROM notes WHERE number = 2", "`a`: note 2: the oldest note does not follow the floor"),
        ("UPDATE notes SET body = x'32' WHERE number = 3", "`a`: note 3: link"),
        ("UPDATE notes SET body = '1' WHERE number = 3", "`a`: note 3: cannot be read"),
        ("UPDATE notes SET at_epoch_s = 1 WHERE number = 4", "`a`: note 4: link"),
        ("INSERT INTO notes VALUES (77, 1, 1, 'x', x'')", "`?`: note 1: notes are missing, or belong to no stream"),
        ("UPDATE note_streams SET head = 9", "`a`: note 9: the newest note is not the head"),
        ("UPDATE note_streams SET bytes = 3", "`a`: note 2: notes are missing"),
        ("UPDATE note_streams SET stream = 'b'", "note_streams: what is known of `1` is not what was written"),
        ("UPDATE notes SET link = zeroblob(32) WHERE number = 5", "another link than its stream"),
    ],
)
async def test_verifying_notices_a_damaged_journal(path: Path, damage: str, expected: str) -> None:
    ledger = await SqliteLedger.open(path)
    await noted(ledger.journal, *[("a", b"1")] * 5)
    await ledger.journal.drop("a", 1)
    await ledger.aclose()
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    found = verify(path)
    assert found
    assert expected in found[0]


async def test_a_full_queue_of_notes_is_busy_and_keeps_no_receipt_out(path: Path) -> None:
    disk = SlowDisk("slow-notes")
    ledger = await SqliteLedger.open(path, vfs=disk.name)
    disk.gate.clear()
    answers: list[list[Record] | Refusal] = []
    taken = 0
    while (refusal := ledger.journal.append([NewRecord("a", b"1")] * 64, answers.append)) is None:
        taken += 64
    assert (refusal.code, taken) == ("busy", MAX_QUEUED_RECORDS)
    assert ledger.status().queued == taken
    assert ledger.append([entry(1)], lambda _: None) is None
    disk.gate.set()
    await recorded(ledger, [entry(2)])
    assert len(answers) == taken // 64
    assert ledger.status().queued == 0
    await ledger.aclose()
    disk.unregister()


async def test_a_full_disk_refuses_notes_and_leaves_the_others_alone(path: Path) -> None:
    disk = FullDisk("full-notes")
    ledger = await SqliteLedger.open(path, vfs=disk.name)
    await noted(ledger.journal, ("a", b"1"))
    disk.room = 0
    answer: asyncio.Future[list[Record] | Refusal] = asyncio.get_running_loop().create_future()
    assert ledger.journal.append([NewRecord("a", b"2")], answer.set_result) is None
    refusal = await answer
    assert isinstance(refusal, Refusal)
    assert refusal.code == "disk_full"
    later = ledger.journal.append([NewRecord("a", b"2")], lambda _: None)
    assert later is not None
    assert later.code == "disk_full"
    assert [note.number for note in await every_record(ledger.journal, "a")] == [1]
    disk.room = None
    await until(lambda: ledger.status().writable)
    (note,) = await noted(ledger.journal, ("a", b"3"))
    assert note.number == 2
    await ledger.aclose()
    disk.unregister()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # APSW reports injected errors
async def test_after_an_error_of_the_disk_no_note_is_acknowledged(path: Path) -> None:
    disk = FaultyDisk("broken-notes", 1_000_000, sticky=True)
    faults: list[Exception] = []
    ledger = await SqliteLedger.open(path, vfs=disk.name, failed=faults.append)
    await noted(ledger.journal, ("a", b"1"))
    disk.left = 1
    answers: list[list[Record] | Refusal] = []
    assert ledger.journal.append([NewRecord("a", b"2")], answers.append) is None
    await until(lambda: faults)
    refusal = ledger.journal.append([NewRecord("a", b"3")], answers.append)
    assert refusal is not None
    assert (refusal.code, answers) == ("ledger_failed", [])
    await ledger.aclose()
    disk.unregister()
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, keyed([1]))
    assert (await noted(ledger.journal, ("a", b"4")))[0].number in (2, 3)
    assert await ledger.verify() == []
    await ledger.aclose()
