"""After an I/O error nothing is acknowledged any more; a full disk only pauses writing (docs/ledger.md D3)."""

import asyncio
import shutil
from pathlib import Path

import pytest

from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import MAX_QUEUED, SqliteLedger
from lifebus_broker.ledger.sqlite.writing import maintenance as sqlite_maintenance
from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace
from lifebus_broker.ports import AppendResult, Query, Refusal, StoredReceipt
from lifebus_contract import FailureClass, InternalError, RetryClass
from support.broker_process import until
from support.crash.disks import FaultyDisk, FullDisk, SlowDisk
from support.effort import effort
from support.patience import PATIENCE_S
from support.receipts import append, entry, every_receipt, keyed, recorded

ROUNDS = effort(4, 12)

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # APSW reports injected errors where SQLite swallows them
)


class Run:
    """One run of a ledger on a faulty disk: what was acknowledged before and after it failed."""

    def __init__(self, path: Path, disk: FaultyDisk) -> None:
        self.path, self.disk = path, disk
        self.acknowledged: list[bytes] = []
        self.late: list[bytes] = []
        self.fault: list[Exception] = []
        self._answered = asyncio.Event()

    async def go(self) -> None:
        try:
            ledger = await SqliteLedger.open(self.path, vfs=self.disk.name, failed=self._fail)
        except InternalError as refused:
            self.fault.append(refused)
            return
        for number in range(ROUNDS):
            entries = [entry(number * 3 + n, key=f"k{number * 3 + n}", harness_session_id=f"s{n}") for n in range(3)]
            self._answered.clear()
            if ledger.append(entries, self._acknowledge) is None:
                async with asyncio.timeout(PATIENCE_S):
                    await self._answered.wait()
            if number % 4 == 3:
                await self._read(ledger)
        if self.fault:
            refusal = ledger.append([entry(99)], self._acknowledge)
            assert refusal is not None
            assert refusal.code == "ledger_failed"
            assert not ledger.status().writable
        await ledger.aclose()

    def _acknowledge(self, answers: list[AppendResult]) -> None:
        where = self.late if self.fault else self.acknowledged
        where += [answer.stored.receipt for answer in answers if answer.stored is not None]
        self._answered.set()

    def _fail(self, fault: Exception) -> None:
        self.fault.append(fault)
        self._answered.set()

    async def _read(self, ledger: SqliteLedger) -> None:
        try:
            await ledger.read(Query())
        except InternalError:
            assert self.fault


async def survive(path: Path, acknowledged: list[bytes]) -> None:
    """Open the file on a sound disk: everything acknowledged is there, and it goes on."""
    ledger = await SqliteLedger.open(path)
    stored = await every_receipt(ledger)
    assert [one.receipt for one in stored][: len(acknowledged)] == acknowledged
    await recorded(ledger, [entry(1000)])
    await ledger.aclose()
    assert verify(path) == []


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
@pytest.mark.parametrize("kind", ["write", "sync", "read", "truncate"])
@pytest.mark.usefixtures("commit_way")
async def test_nothing_is_acknowledged_after_the_nth_call_failed(
    tmp_path: Path, kind: str, sticky: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_maintenance, "CHECKPOINT_BYTES", 40_000)
    monkeypatch.setattr(sqlite_store, "POINT_EVERY", 8)
    failures = 0
    for number in range(1, 400):
        path = tmp_path / f"{number}.db"
        disk = FaultyDisk(f"{path}-disk", number, sticky=sticky, kinds=(kind,))
        run = Run(path, disk)
        await run.go()
        untouched = not disk.failed
        disk.unregister()
        if untouched:
            break
        failures += 1
        assert run.late == []
        await survive(path, run.acknowledged)
    else:
        pytest.fail("the sweep never came to an end")
    assert untouched
    assert failures > 0 or kind == "truncate"
    assert len(run.acknowledged) == ROUNDS * 3


@pytest.mark.usefixtures("commit_way")
async def test_a_full_disk_refuses_writes_serves_reads_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_maintenance, "_MEASURE_S", 0.02)
    disk = FullDisk("full-disk")
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name)
    stored = await recorded(ledger, keyed(range(10)))
    for round_ in range(5):
        disk.room = round_ * 3000
        refused = await fill(ledger, 1000 * (round_ + 1))
        assert refused.failure_class is FailureClass.TRANSPORT_ERROR
        assert refused.retry_class is RetryClass.SAFE_RETRY
        assert refused.code == "disk_full"
        assert not ledger.status().writable
        at_once = ledger.append([entry(1)], lambda _: None)
        assert at_once is not None
        assert at_once.code == "disk_full"
        stored = await every_receipt(ledger)
        disk.room = None
        await writable(ledger)
        stored += await recorded(ledger, keyed([2_000 + round_], harness_session_id=f"new{round_}"))
    assert await every_receipt(ledger) == stored
    assert await ledger.verify() == []
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("commit_way")
async def test_a_start_on_a_full_disk_after_an_unclean_stop_reads_refuses_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_maintenance, "_MEASURE_S", 0.02)
    path = tmp_path / "ledger.db"
    ledger = await SqliteLedger.open(path)
    stored = [one for n in range(20) for one in await recorded(ledger, [entry(n, harness_session_id=f"s{n}")])]
    # killed: copied while it is open, with a write-ahead log that no checkpoint has moved into the file
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed, ignore=shutil.ignore_patterns("killed"))
    await ledger.aclose()
    disk = FullDisk("full-at-the-start")
    disk.room = 0
    ledger = await SqliteLedger.open(killed / "ledger.db", vfs=disk.name)
    assert await every_receipt(ledger) == stored
    assert (await ledger.verify()) == []
    await until(lambda: not ledger.status().writable)
    refused = ledger.append([entry(100)], lambda _: None)
    assert refused is not None
    assert refused.code == "disk_full"
    disk.room = None
    await writable(ledger)
    stored += await recorded(ledger, [entry(200)])
    assert await every_receipt(ledger) == stored
    await ledger.aclose()
    disk.unregister()
    assert verify(killed / "ledger.db") == []


@pytest.mark.usefixtures("commit_way")
async def test_a_file_that_may_not_grow_refuses_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_maintenance, "_MEASURE_S", 0.02)
    ledger = await SqliteLedger.open(tmp_path / "ledger.db")
    await recorded(ledger, keyed(range(100)))
    connection = ledger._file.store.connection
    connection.pragma("max_page_count", connection.pragma("page_count"))
    assert (await fill(ledger, 1000)).code == "disk_full"
    head = ledger.head
    assert len(await every_receipt(ledger)) == head
    connection.pragma("max_page_count", 1_000_000)
    await writable(ledger)
    (stored,) = await recorded(ledger, [entry(5000)])
    assert stored.position == head + 1
    assert stored.sequence == head + 1
    assert await ledger.verify() == []
    await ledger.aclose()


@pytest.mark.usefixtures("commit_way")
async def test_sequences_taken_back_by_a_full_disk_are_null_again(tmp_path: Path) -> None:
    disk = FullDisk("null-again")
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name)
    disk.room = 0
    made = entry(1)
    (answer,) = await append(ledger, [made])
    assert answer.refusal is not None
    assert made.receipt.sequence is None
    disk.room = None
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("by_thread")
async def test_nothing_is_acknowledged_before_the_log_is_synced(tmp_path: Path) -> None:
    disk = SlowDisk("slow-ack")
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name)
    disk.gate.clear()
    answers: list[AppendResult] = []
    ledger.append([entry(1)], answers.extend)
    await asyncio.to_thread(disk.waiting.wait, 10)
    assert answers == []
    assert ledger.head == 0
    assert (await ledger.read(Query())).stored == ()
    disk.gate.set()
    await append(ledger, [])
    assert len(answers) == 1
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("by_thread")
async def test_nothing_is_published_before_the_log_is_synced(tmp_path: Path) -> None:
    disk = SlowDisk("slow-publish")
    published: list[StoredReceipt] = []
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name, committed=published.extend)
    disk.gate.clear()
    ledger.append([entry(1)], lambda _: None)
    await asyncio.to_thread(disk.waiting.wait, 10)
    assert published == []
    disk.gate.set()
    await append(ledger, [])
    assert [one.position for one in published] == [1]
    await ledger.aclose()
    disk.unregister()


async def test_the_loop_acknowledges_and_publishes_after_the_sync_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskPace, "is_quick", True)
    disk = SlowDisk("slow-loop")
    seen: list[object] = []
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name, committed=seen.extend)
    disk.gate.clear()
    before: list[list[object]] = []

    def look() -> None:
        """Look while the loop itself waits for the disk."""
        assert disk.waiting.wait(PATIENCE_S)
        before.append([*seen, ledger.head])
        disk.gate.set()

    looking = asyncio.create_task(asyncio.to_thread(look))
    await asyncio.sleep(0)
    stored = await recorded(ledger, [entry(1)])
    await looking
    assert before == [[0]]
    assert seen == stored
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("commit_way")
async def test_a_failed_sync_is_the_end_although_the_next_one_would_succeed(tmp_path: Path) -> None:
    disk = FaultyDisk("one-bad-sync", 1_000_000, sticky=False, kinds=("sync",))
    faults: list[Exception] = []
    answers: list[AppendResult] = []
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name, failed=faults.append)
    disk.left = 1
    assert ledger.append([entry(1)], answers.extend) is None
    await until(lambda: bool(faults or answers))
    assert answers == []
    assert disk.failed == 1
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("by_thread")
async def test_readers_do_not_wait_for_a_writer_that_waits_for_the_disk(tmp_path: Path) -> None:
    disk = SlowDisk("slow-read")
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name)
    stored = await recorded(ledger, keyed(range(5)))
    disk.gate.clear()
    ledger.append([entry(9)], lambda _: None)
    await asyncio.to_thread(disk.waiting.wait, 10)
    async with asyncio.timeout(PATIENCE_S):
        assert list((await ledger.read(Query())).stored) == stored
        assert len(await ledger.sessions()) == 1
        assert (await ledger.find([("alice", "codex", "k000001")]))[0] is not None
    disk.gate.set()
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("by_thread")
async def test_a_full_queue_refuses_at_once_and_takes_again_when_it_has_drained(tmp_path: Path) -> None:
    disk = SlowDisk("slow-queue")
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name)
    disk.gate.clear()
    answers: list[AppendResult] = []
    taken = 0
    while (refusal := ledger.append([entry(taken + n) for n in range(64)], answers.extend)) is None:
        taken += 64
    assert (refusal.code, refusal.retry_class) == ("busy", RetryClass.SAFE_RETRY)
    assert taken == MAX_QUEUED
    assert ledger.status().queued == taken
    disk.gate.set()
    await until(lambda: not ledger.status().queued)
    assert len(answers) == taken
    await recorded(ledger, [entry(9999)])
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("by_thread")
async def test_what_was_never_written_is_refused_and_what_was_being_written_stays_unanswered(tmp_path: Path) -> None:
    disk = SlowDisk("slow-broken")
    faults: list[Exception] = []
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name, failed=faults.append)
    disk.gate.clear()
    answers: dict[int, list[AppendResult]] = {}
    ledger.append([entry(1)], lambda results: answers.update({1: results}))
    await asyncio.to_thread(disk.waiting.wait, 10)
    ledger.append([entry(2)], lambda results: answers.update({2: results}))
    pruning = asyncio.create_task(ledger.prune(1, b"{}"))
    await asyncio.sleep(0)
    disk.broken = True
    disk.gate.set()
    ended, _ = await asyncio.wait((pruning,), timeout=PATIENCE_S)
    assert ended
    with pytest.raises(InternalError, match="stopped"):
        await pruning
    assert [answer.refusal and answer.refusal.code for answer in answers[2]] == ["ledger_failed"]
    assert 1 not in answers
    assert len(faults) == 1
    with pytest.raises(InternalError, match="not open"):
        await ledger.prune(1, b"{}")
    await ledger.aclose()
    disk.unregister()


@pytest.mark.usefixtures("commit_way")
async def test_a_reader_that_meets_an_error_stops_the_acknowledgements_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, keyed(range(300)))
    await ledger.aclose()
    disk = FaultyDisk("bad-read", 1_000_000, sticky=True, kinds=("read",))
    faults: list[Exception] = []
    answers: list[AppendResult] = []
    ledger = await SqliteLedger.open(path, vfs=disk.name, failed=faults.append)
    disk.left = 1
    with pytest.raises(InternalError, match="cannot be read"):
        await every_receipt(ledger, after=1)
    assert len(faults) == 1
    refusal = ledger.append([entry(1)], answers.extend)
    assert refusal is not None
    assert refusal.code == "ledger_failed"
    await ledger.aclose()
    assert answers == []
    disk.unregister()


async def fill(ledger: SqliteLedger, first: int) -> Refusal:
    """Append until the disk is full; return the refusal."""
    for number in range(first, first + 900):
        (answer,) = await append(ledger, [entry(number, key=f"f{number}")])
        if answer.refusal is not None:
            return answer.refusal
    pytest.fail("the disk never became full")


async def writable(ledger: SqliteLedger) -> None:
    """Wait until the ledger takes writes."""
    await until(lambda: ledger.status().writable)
