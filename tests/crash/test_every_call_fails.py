"""Each system call that SQLite makes fails once, or from then on, in everything that a ledger does.

The Nth call of a kind, for every N until a run survives untouched: while a write-ahead log is recovered, at appends,
notes, checkpoints, pruning and reading.  Nothing is acknowledged after the failure, and what was is there afterwards.
"""

import asyncio
import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite import schema as sqlite_schema
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.writing import maintenance as sqlite_maintenance
from lifebus_broker.ports import AppendResult, NewRecord, Query
from lifebus_contract import LifebusError
from support.crash.disks import FaultyDisk
from support.crash.ledger_file import read_ledger
from support.crash.system_calls import CALLS as SYSTEM_CALLS
from support.crash.system_calls import FailingCall
from support.effort import TORTURE, effort
from support.patience import PATIENCE_S
from support.receipts import append, entry, every_receipt, keyed, recorded

ERRORS = {"open": errno.EMFILE, "pwrite64": errno.EFBIG}
"""The error of a call, where it is not EIO."""
CALLS = ("sync", "delete", *(call for call in SYSTEM_CALLS if TORTURE or call != "fcntl"))
"""A failed lock costs SQLite ten seconds of trying again."""
MANY = ("fstat", "pread64", "pwrite64")
"""The calls that are made often: in a short run only every 13th of them fails."""
BEFORE = 24

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_maintenance, "CHECKPOINT_BYTES", 20_000)
    monkeypatch.setattr(sqlite_store, "POINT_EVERY", 8)
    monkeypatch.setattr(sqlite_store, "PRUNE_STEP", 4)
    monkeypatch.setattr(sqlite_schema, "_BUSY_MS", 20)


class Run:
    """One run on a disk whose call fails: what was acknowledged, and what came after the ledger had failed."""

    def __init__(self, path: Path, vfs: str | None) -> None:
        self.path, self.vfs = path, vfs
        self.stored: list[bytes] = []
        self.notes: list[bytes] = []
        self.late = 0
        self.faults: list[Exception] = []
        self.refused = 0
        self._answered = asyncio.Event()

    async def go(self) -> None:
        """Recover the log, then do everything that a ledger does; every step may fail, none may hang."""
        try:
            ledger = await SqliteLedger.open(self.path, failed=self._fail, vfs=self.vfs)
        except LifebusError:
            self.refused += 1
            return
        async with asyncio.timeout(effort(round(PATIENCE_S), 600)):
            for number in range(3):
                keys = [entry(100 + number * 2 + n, key=f"n{number}{n}", harness_session_id=f"s{n}") for n in range(2)]
                await self._ask(lambda done, keys=keys: ledger.append(keys, done), ledger, self._take_rows)  # type: ignore[misc]
                notes = [NewRecord("a", b"%d" % number * 3000)]
                await self._ask(
                    lambda done, notes=notes: ledger.journal.append(notes, done),  # type: ignore[misc]
                    ledger,
                    self._take_notes,
                )
                await self._try(ledger.prune(BEFORE // 3 * (number + 1) // 2, b"base"))
                await self._try(ledger.read(Query(after=BEFORE)))
            await self._try(ledger.journal.drop("a", 1))
            await ledger.aclose()

    async def _ask(
        self, ask: Callable[[Callable[[Any], None]], object], ledger: SqliteLedger, take: Callable[[Any], None]
    ) -> None:
        """Append something and wait for its answer, or for the end of the ledger."""

        def done(answer: Any) -> None:
            self.late += bool(self.faults) and not _refused(answer)
            take(answer)
            self._answered.set()

        self._answered.clear()
        self.refused += ask(done) is not None
        if not self.faults and not self.refused:
            await self._answered.wait()

    def _fail(self, fault: Exception) -> None:
        self.faults.append(fault)
        self._answered.set()

    def _take_rows(self, answers: list[AppendResult]) -> None:
        self.refused += _refused(answers)
        self.stored += [answer.stored.receipt for answer in answers if answer.stored]

    def _take_notes(self, answer: Any) -> None:
        self.refused += _refused(answer)
        self.notes += [note.body for note in answer] if isinstance(answer, list) else []

    async def _try(self, work: Any) -> None:
        try:
            await work
        except LifebusError:
            self.refused += 1


def _refused(answer: Any) -> bool:
    """Whether what `done` got is a refusal."""
    return not isinstance(answer, list) or any(isinstance(one, AppendResult) and one.refusal for one in answer)


@contextmanager
def failing(call: str, number: int, *, sticky: bool) -> Iterator[tuple[FailingCall | FaultyDisk, str | None]]:
    """Have the call fail inside the block; yield what fails, and the VFS to use."""
    if call in SYSTEM_CALLS:
        fault = FailingCall(call, number, ERRORS.get(call, errno.EIO), sticky=sticky)
        with fault.installed():
            yield fault, None
    else:
        disk = FaultyDisk(f"every-{call}-{number}", number, sticky=sticky, kinds=(call,))
        yield disk, disk.name
        disk.unregister()


async def prepared(directory: Path) -> Path:
    """Return a copy of a ledger as a killed process leaves it: its newest rows are in the write-ahead log."""
    directory.mkdir()  # noqa: ASYNC240  a test's own directory
    ledger = await SqliteLedger.open(directory / "live.db")
    for first in range(0, BEFORE, 6):
        await recorded(ledger, keyed(range(first, first + 6)))
    for suffix in ("", "-wal"):
        shutil.copy(directory / f"live.db{suffix}", directory / f"ledger.db{suffix}")
    await ledger.aclose()
    return directory / "ledger.db"


async def survive(run: Run, before: list[bytes], scratch: Path) -> None:
    """Open the file on a sound disk: everything acknowledged is there, verifies, and it goes on."""
    ledger = await SqliteLedger.open(run.path)
    floor = ledger.status().floor
    stored = [one.receipt for one in await every_receipt(ledger, after=floor)]
    known = before + run.stored
    assert stored[: len(known) - floor] == known[floor:]
    kept = [note.body for note in (await ledger.journal.read("a")).records]
    assert [body for body in run.notes if body not in kept] in ([], run.notes[:1])
    await append(ledger, [entry(999)])
    assert await ledger.verify() == []
    await ledger.aclose()
    assert verify(run.path) == []


@pytest.mark.usefixtures("commit_way")
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
@pytest.mark.parametrize("call", CALLS)
async def test_nothing_is_acknowledged_or_lost_when_the_nth_system_call_fails(
    tmp_path: Path, call: str, sticky: bool, record_property: Callable[[str, object], None]
) -> None:
    template = await prepared(tmp_path / "template")
    before = [one.receipt for one in read_ledger(template, tmp_path / "scratch")]
    assert len(before) == BEFORE
    failures = 0
    for number in count(1, 13 if call in MANY and not TORTURE else 1):
        path = tmp_path / f"{number}" / "ledger.db"
        path.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{template}{suffix}", f"{path}{suffix}")
        with failing(call, number, sticky=sticky) as (fault, vfs):
            run = Run(path, vfs)
            await run.go()
        assert run.late == 0
        await survive(run, before, tmp_path / "scratch")
        if not fault.failed:
            break
        failures += 1
    assert (len(run.stored), len(run.notes), run.refused, run.faults) == (6, 3, 0, [])
    record_property("errors", failures)
