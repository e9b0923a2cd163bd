"""What is appended is committed by the event loop while the disk is quick, by the thread otherwise; in order always."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite.file import LedgerFile
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.writing import disk_pace
from lifebus_broker.ledger.sqlite.writing.commit_queue import LOOP_ROWS, WAKE_S
from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace
from lifebus_broker.ledger.sqlite.writing.writer import Writer
from lifebus_broker.ports import AppendResult, NewRecord, Record, Refusal, StoredReceipt
from lifebus_contract.codec import decode_receipt
from support.broker_process import until
from support.crash.commit_ways import LOOP, THREAD
from support.crash.disks import Disk
from support.effort import effort
from support.patience import PATIENCE_S
from support.receipts import append, entry, every_receipt, keyed, recorded

SEEDS = effort(10, 500)
_NUMBERS = count()


class NotingDisk(Disk):
    """Notes which thread syncs the write-ahead log."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        super().__init__(f"noting-{next(_NUMBERS)}")

    def check(self, call: str, path: str) -> None:
        if call == "sync" and path.endswith("-wal"):
            self.threads.append(threading.current_thread().name)


class Box:
    """A ledger, its disk and what it published, commit by commit."""

    def __init__(self, ledger: SqliteLedger, disk: NotingDisk, commits: list[list[int]]) -> None:
        self.ledger, self.disk, self.commits = ledger, disk, commits

    def committers(self) -> set[str]:
        """Return who synced since the last time that this was asked."""
        names, self.disk.threads = self.disk.threads, []
        return {THREAD if name == "lifebus-ledger" else LOOP for name in names}


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[Box]:
    disk, commits = NotingDisk(), list[list[int]]()

    def committed(stored: list[StoredReceipt]) -> None:
        commits.append([one.position for one in stored])

    ledger = await SqliteLedger.open(tmp_path / "ledger.db", vfs=disk.name, committed=committed)
    disk.threads.clear()
    try:
        yield Box(ledger, disk, commits)
    finally:
        await ledger.aclose()
        disk.unregister()


@asynccontextmanager
async def busy_thread(ledger: SqliteLedger) -> AsyncIterator[None]:
    """The thread uses the file inside the block, as it does in a checkpoint."""
    go_on, begun = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    working = asyncio.ensure_future(ledger._write(wait))
    try:
        await until(begun.is_set)
        # as if the thread did it by itself: the queue knows of nothing that it would have to wait for
        ledger._commits._in_thread = 0
        yield
    finally:
        ledger._commits._in_thread = 1 + ledger._commits._in_thread
        go_on.set()
        await working


@pytest.fixture(autouse=True)
def roomless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread gives the log no room: at the start it would be at the file, and the loop could not commit."""
    monkeypatch.setattr(LedgerFile, "synced_log", None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskPace, "is_quick", True)


@pytest.mark.usefixtures("quick")
async def test_what_one_turn_of_the_loop_brings_is_one_commit_of_the_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answers: list[AppendResult] = []
        notes: list[list[Record] | Refusal] = []
        for number in range(5):
            assert box.ledger.append([entry(number)], answers.extend) is None
            assert box.ledger.journal.append([NewRecord("a", b"n")], notes.append) is None
        assert answers == [], "nothing is answered before the appends have returned"
        await until(lambda: len(answers) == 5)
        assert len(notes) == 5
        assert box.commits == [[1, 2, 3, 4, 5]]
        assert box.committers() == {LOOP}


@pytest.mark.usefixtures("quick")
async def test_the_thread_is_woken_once_for_many_commits_of_the_loop_and_not_while_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken, due = list[Writer](), list[tuple[float, Callable[[], None]]]()

    def wake(writer: Writer) -> None:
        woken.append(writer)

    def call_later(delay: float, callback: Callable[[], None]) -> None:
        due.append((delay, callback))

    monkeypatch.setattr(Writer, "wake", wake)
    async with opened(tmp_path) as box:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "call_later", call_later)
            for number in range(3):
                await recorded(box.ledger, [entry(number)])
            assert [delay for delay, _ in due] == [WAKE_S], "once for three commits"
            assert woken == []
            due.pop()[1]()
            assert len(woken) == 1
            await recorded(box.ledger, [entry(3)])
        assert [delay for delay, _ in due] == [WAKE_S], "again for the fourth"
        assert box.committers() == {LOOP}


async def test_whether_a_session_is_new_is_told_at_once_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as box:
        monkeypatch.setattr(DiskPace, "is_quick", True)
        await recorded(box.ledger, [entry(1)])
        assert (box.ledger.is_new(("codex", "s1")), box.ledger.is_new(("codex", "other"))) == (False, True)
        async with busy_thread(box.ledger):
            assert not box.ledger.is_new(("codex", "other"))
        await until(lambda: box.ledger.is_new(("codex", "other")))  # the thread lets go of the file a little later
        monkeypatch.setattr(DiskPace, "is_quick", False)
        assert not box.ledger.is_new(("codex", "other"))


@pytest.mark.usefixtures("quick")
async def test_more_than_the_loop_takes_at_once_goes_to_the_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await recorded(box.ledger, keyed(range(LOOP_ROWS)))
        assert box.committers() == {LOOP}
        await recorded(box.ledger, keyed(range(1_000, 1_001 + LOOP_ROWS)))
        assert box.committers() == {THREAD}


@pytest.mark.usefixtures("quick")
async def test_what_many_appends_bring_in_one_turn_is_committed_by_the_loop_in_pieces(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answers: list[AppendResult] = []
        for number in range(2 * LOOP_ROWS + 1):
            assert box.ledger.append([entry(number)], answers.extend) is None
        await until(lambda: len(answers) == 2 * LOOP_ROWS + 1)
        assert [len(commit) for commit in box.commits] == [LOOP_ROWS, LOOP_ROWS, 1]
        assert box.committers() == {LOOP}


@pytest.mark.usefixtures("quick")
async def test_the_thread_takes_over_all_that_waits_in_its_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answers: list[AppendResult] = []
        async with busy_thread(box.ledger):
            for number in range(LOOP_ROWS + 2):
                assert box.ledger.append([entry(number)], answers.extend) is None
            await until(lambda: not box.ledger._commits._waiting)
            assert answers == []
        await until(lambda: len(answers) == LOOP_ROWS + 2)
        assert [one.stored and one.stored.position for one in answers] == list(range(1, LOOP_ROWS + 3))
        stored = await every_receipt(box.ledger)
        assert [decode_receipt(one.receipt).event_id for one in stored] == [
            f"evt_{number:06d}" for number in range(LOOP_ROWS + 2)
        ]
        assert box.committers() == {THREAD}


@pytest.mark.usefixtures("quick")
async def test_the_loop_never_waits_for_the_thread_which_takes_over_what_comes_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answers: list[AppendResult] = []
        async with busy_thread(box.ledger):
            assert box.ledger.append([entry(1)], answers.extend) is None
            await until(lambda: not box.ledger._commits._waiting)
            assert answers == []
        await until(lambda: len(answers) == 1)
        assert box.committers() == {THREAD}
        await recorded(box.ledger, [entry(2)])
        assert box.committers() == {LOOP}


async def test_a_disk_that_is_slow_on_average_is_left_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as box:
        # No disk is so quick, so that it stays as slow as it began.
        monkeypatch.setattr(disk_pace, "QUICK_S", 1e-9)
        for number in range(5):
            await recorded(box.ledger, [entry(number)])
        assert box.committers() == {THREAD}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_positions_and_answers_have_the_order_of_the_appends_whoever_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(DiskPace, "is_quick", property(lambda _: chance.random() < 0.8))
    async with opened(tmp_path) as box:
        ledger, numbers, answered = box.ledger, count(), list[int]()
        positions: list[int] = []
        tasks: list[asyncio.Future[Any]] = []
        made = 0

        def acknowledge(number: int, results: list[AppendResult]) -> None:
            answered.append(number)
            positions.extend(result.stored.position for result in results if result.stored)

        for _ in range(60):
            match chance.randrange(8):
                case 0:
                    tasks.append(asyncio.ensure_future(ledger._write(lambda store: store.checkpoint())))
                case 1:
                    await asyncio.sleep(0)
                case 2:
                    await append(ledger, [])
                case _:
                    many = chance.choice([1, 1, 2, 40, LOOP_ROWS + 1])
                    number, made = made, made + 1
                    batch = [entry(n, key=f"k{n}") for n in (next(numbers) for _ in range(many))]
                    while ledger.append(batch, partial(acknowledge, number)) is not None:
                        await append(ledger, [])
        await asyncio.gather(*tasks)
        await until(lambda: len(answered) == made)
        assert answered == list(range(made))
        assert positions == list(range(1, next(numbers) + 1))
        assert [one for commit in box.commits for one in commit] == positions
        assert await ledger.verify() == []


@pytest.mark.parametrize(
    ("waits", "is_quick"),
    [
        pytest.param([], False, id="not known yet"),
        pytest.param([0.0002] * 64, True, id="quick"),
        pytest.param([0.0002] * 200 + [0.02], True, id="one slow sync makes no slow disk"),
        pytest.param([0.0002] * 64 + [0.002] * 32, False, id="slow on average"),
        pytest.param([0.0002] * 64 + [0.002] * 32 + [0.0002] * 64, True, id="quick again"),
        pytest.param([0.0002] * 64 + [5.0], False, id="a stall"),
    ],
)
def test_a_disk_counts_as_quick_by_the_average_of_the_newest_waits(waits: list[float], is_quick: bool) -> None:
    pace = DiskPace()
    for wait in waits:
        pace.note(wait)
    assert pace.is_quick is is_quick


def test_long_waits_of_the_thread_say_nothing_about_the_disk_and_short_ones_count() -> None:
    pace = DiskPace()
    for _ in range(200):
        pace.note_contended(0.2)  # as long as the interpreter's lock was held by others
        pace.note_contended(0.0005)
    assert pace.is_quick
    slow = DiskPace()
    for _ in range(200):
        slow.note_contended(0.0011)
    assert not slow.is_quick
