"""The durable ledger: SQLite in WAL mode, one writer thread, acknowledgement after the commit.

See docs/ledger.md, "Durability".
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
import apsw
import structlog

from lifebus_broker.ledger.backends import KEPT, NOT_KEPT
from lifebus_broker.ledger.batching import COMMIT_ROWS, COMMIT_WEIGHT, weight_of
from lifebus_broker.ledger.lookups import Found, Lookups, Scope
from lifebus_broker.ledger.refusals import BUSY, CLOSED, DISK_FULL, FAILED, OVERSIZED
from lifebus_broker.ledger.retention import Limits, PruneDecision
from lifebus_broker.ledger.sqlite import file as sqlite_file
from lifebus_broker.ledger.sqlite import statements as sql
from lifebus_broker.ledger.sqlite.checks.sound_rows import DamagedRow
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.file import UNTRUSTED, LedgerFile, open_file
from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.schema import MISFIT, Durability, check_library
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.tombstones import expired_tombstones
from lifebus_broker.ledger.sqlite.usage import bytes_on_disk, decide_prune
from lifebus_broker.ledger.sqlite.writing.commit_queue import CommitQueue
from lifebus_broker.ledger.sqlite.writing.maintenance import room_on
from lifebus_broker.ledger.sqlite.writing.writer import PendingReceipts, Reports, Results, Task, Writer, refused
from lifebus_broker.ports import (
    AppendResult,
    DamagedReceipt,
    Journal,
    Known,
    LedgerCapabilities,
    NewReceipt,
    Page,
    Query,
    Refusal,
    StoredReceipt,
)
from lifebus_broker.state.sealed import SealedItems
from lifebus_contract import BrokerBusy, InternalError
from lifebus_contract.views import LedgerStatus, SessionHead

MAX_QUEUED: Final = 4096
"""Most receipts that wait for a commit; one more append is refused as busy."""

MAX_QUEUED_WEIGHT: Final = 32 * 1024 * 1024
"""Most estimated bytes that wait for a commit."""

NOT_KEPT_BYTES: Final = 256 * 1024 * 1024
"""About how many bytes of receipts are there at most where nothing is kept; then the oldest go."""

_MAX_DAMAGED: Final = 20
"""Most damaged rows that the log and the status name."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_LOG: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.ledger")


class SqliteLedger:
    """Implements `ports.Ledger` on a file.  Made by `open`, ended by `aclose`."""

    def __init__(
        self,
        file: LedgerFile,
        committed: Callable[[list[StoredReceipt]], None] | None,
        failed: Callable[[Exception], None] | None,
        clock: Callable[[], float],
    ) -> None:
        """Take over an opened file; must run on the event loop.  Use `open`."""
        self._file, self._reader = file, file.reader
        self._publish, self._fault, self._clock = committed, failed, clock
        self._head = file.store.head
        self._loop = asyncio.get_running_loop()
        # the reading connection has one open transaction at a time
        self._one_reader = anyio.CapacityLimiter(1)
        self._lookups: Lookups[Scope, Found] = Lookups(
            lambda scopes: self._in_thread(self._reader.find, scopes, limiter=self._one_reader)
        )
        self._queued = self._weight = 0
        self._closing = False
        self._refusal: Refusal | None = None
        self._damaged: dict[int, str] = {}
        self._writer = Writer(
            file.store,
            Reports(
                committed=lambda results, stored: self._report(self._on_reported, results, stored),
                writable=lambda writable: self._report(self._on_writable, writable),
                finished=lambda task, result: self._report(self._on_finished, task, result),
                failed=lambda fault: self._report(self._on_failed, fault),
                damaged=lambda found: self._report(self._note_damage, found),
            ),
            partial(room_on, file.path.parent),
            None if file.is_kept else partial(decide_prune, file.path, Limits(keep_bytes=NOT_KEPT_BYTES), 0),
            file.synced_log,
        )
        self._commits = CommitQueue(self._writer, committed=self._on_committed, failed=self._on_failed)
        self._journal = SqliteJournal(
            refusal=lambda: self._refusal,
            submit=self._commits.submit,
            write=self._write,
            query=lambda ask: self._in_thread(ask, self._reader.connection, limiter=self._one_reader),
            clock=clock,
        )
        self._writer.start()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        entropy: Callable[[int], bytes] = os.urandom,
        committed: Callable[[list[StoredReceipt]], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        clock: Callable[[], float] = time.time,
        durability: Durability = "full",
        vfs: str | None = None,
    ) -> Self:
        """Open or create the ledger file and check the tail of its chain.

        `committed` gets what each transaction stored, after the `done` of its appends; `failed` gets the error after
        which nothing is acknowledged any more; `clock` stamps notes, in seconds since the epoch.  With
        ``relaxed`` durability a power cut may take the last moments; with ``none`` receipts get no sequence, the oldest
        are dropped at `NOT_KEPT_BYTES`, and the directory of the file is removed at the end.

        Raises:
            InternalError: SQLite is too old, the file cannot be read, is of another format, or its tail is damaged.
        """
        check_library(apsw.sqlite_lib_version())
        file = await open_file(path, epoch=entropy(16).hex(), durability=durability, vfs=vfs)
        return cls(file, committed, failed, clock)

    @property
    def epoch(self) -> str:
        """The random id of this file's history, as 32 hex digits."""
        return self._file.store.epoch

    @property
    def capabilities(self) -> LedgerCapabilities:
        """What this ledger can do beside recording."""
        return KEPT if self._file.is_kept else NOT_KEPT

    @property
    def head(self) -> int:
        """The position of the newest acknowledged row, 0 when there is none."""
        return self._head

    @property
    def newest_epoch_s(self) -> int | None:
        """The latest time of any receipt, in seconds since the epoch; None when there never was one."""
        return self._file.store.newest_second or None

    def is_congested(self) -> bool:
        """Whether more waits than the next two transactions take."""
        return self._queued >= 2 * COMMIT_ROWS or self._weight >= 2 * COMMIT_WEIGHT

    @property
    def journal(self) -> Journal:
        """The side log in the same file."""
        return self._journal

    def append(self, receipts: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None]) -> Refusal | None:
        """Queue one atomic append; `done` is called once it is committed (ports.Ledger.append)."""
        count, weight = len(receipts), weight_of(receipts)
        if self._refusal is not None:
            return self._refusal
        if count > MAX_QUEUED or weight > MAX_QUEUED_WEIGHT:
            return OVERSIZED
        # refused at once: a queue without a bound would only move the wait into memory
        if self._queued + count > MAX_QUEUED or self._weight + weight > MAX_QUEUED_WEIGHT:
            return BUSY
        self._queued += count
        self._weight += weight
        self._commits.submit(PendingReceipts(receipts, done, weight))
        return None

    async def find(self, scopes: Sequence[tuple[str, str, str]]) -> list[Known | None]:
        """Return the stored digest and row of each key (ports.Ledger.find)."""
        found = await self._lookups.find(scopes)
        self._note_damage(known[1] for known in found if known is not None)
        return found

    async def read(self, query: Query) -> Page:
        """Return committed rows (ports.Ledger.read).

        A page scans a bounded number of rows, so with filters it may be empty and yet not `complete`.
        """
        page = await self._in_thread(self._reader.page, query, limiter=self._one_reader)
        self._note_damage(page.damaged)
        # what comes before the damage first: the next page begins at it
        if page.damaged and not query.past_damage and page.next <= query.after:
            raise DamagedRow(page.damaged[0])
        return page

    async def sessions(self, session: tuple[str, str] | None = None) -> list[SessionHead]:
        """Return the heads of all sessions, newest last, or of one."""
        return await self._in_thread(self._reader.sessions, session, limiter=self._one_reader)

    def is_new(self, session: tuple[str, str]) -> bool:
        """Whether no receipt of a session was ever committed (ports.Ledger.is_new)."""
        return self._writer.look_now(lambda execute: execute(sql.STREAM, session).fetchall()) == []

    async def verify(self, *, tail: int | None = None) -> list[str]:
        """Check chain, sequences, keys and heads, of the last `tail` rows or of all; return what is wrong."""
        check = partial(verify, numbered=self._file.is_kept)
        return await self._in_thread(check, self._file.path, tail, self._file.vfs)

    async def prune(self, keep_after: int, base: bytes) -> int:
        """Move the floor; the rows below it are deleted piece by piece between later commits (ports.Ledger.prune)."""
        at = int(self._clock())
        floor: int = await self._write(lambda store: store.prune_to(keep_after, base, at))
        return floor

    async def plan_prune(self, limits: Limits, now_epoch_s: int) -> PruneDecision | None:
        """Return what exceeds the limits now, read on a connection of its own (ports.Ledger.plan_prune)."""
        try:
            return await anyio.to_thread.run_sync(decide_prune, self._file.path, limits, now_epoch_s, self._file.vfs)
        except apsw.Error as fault:  # nothing was written or promised: no reason to stop the ledger
            raise InternalError(f"the ledger cannot be read: {type(fault).__name__}", code="ledger_failed") from fault

    async def usage(self) -> int:
        """Return what the files take together: database, write-ahead log and its index."""
        return await anyio.to_thread.run_sync(bytes_on_disk, self._file.path)

    async def expire(self, before_epoch_s: int) -> None:
        """Forget the keys of receipts that were pruned before a second, in pieces between the commits.

        Raises:
            LifebusError: the ledger is closed, or takes no writes now.
        """
        # found on a reading connection, removed by the writer: a scan of all tombstones would stop appends
        pieces = expired_tombstones(self._file.path, before_epoch_s, self._file.vfs)
        while piece := await self._in_thread(next, pieces, None):
            await self._write(partial(_remove, piece, before_epoch_s))

    def bound(self, *, keep: int, spare: int) -> None:
        """Keep the write-ahead log small beside `keep` bytes (0 is any size), and leave `spare` bytes of the disk free.

        While less than `spare` bytes, and less than 1 %, of the file system are free, appends are refused as on a full
        disk.
        """
        self._writer.bound(keep, spare)

    def new_sealed_items(self) -> SealedItems:
        """Return a file without a name beside this one (ports.Ledger.new_sealed_items)."""
        return self._file.new_sealed_items()

    def open_log(self) -> SqliteLog:
        """Return the log on a connection of its own (ports.Ledger.open_log)."""
        return SqliteLog(self._file.path, self._file.vfs)

    def status(self) -> LedgerStatus:
        """Return how the ledger is, without I/O."""
        return LedgerStatus(
            backend="sqlite" if self._file.is_kept else "memory",
            durability=self._file.durability,
            epoch=self.epoch,
            head=self._head,
            floor=self._file.store.floor,
            writable=self._refusal is None,
            queued=self._queued + self._journal.queued,
            size_bytes=self._file.store.size_bytes,
            library=f"SQLite {apsw.sqlite_lib_version()}",
            lacks=self.capabilities.lacking,
            damaged=tuple(self._damaged[position] for position in sorted(self._damaged)),
        )

    async def aclose(self) -> None:
        """Commit what is queued, then close the file."""
        if self._closing:
            return
        self._closing = True
        self._refusal = FAILED if self._refusal is FAILED else CLOSED
        self._commits.hand_over()
        with anyio.CancelScope(shield=True):
            # the writer first: it commits and answers what is queued
            await anyio.to_thread.run_sync(self._writer.stop)
            await anyio.to_thread.run_sync(self._close, limiter=self._one_reader)

    async def _write(self, run: Callable[[Store], Any]) -> Any:
        """Have the writer thread do something between two transactions."""
        if self._refusal in (CLOSED, FAILED):
            raise InternalError("the ledger is not open", code="closed")
        return await self._commits.run(run)

    def _close(self) -> None:
        """Close both connections, the writing one last, because it tidies up."""
        try:
            self._file.close(failed=self._refusal is FAILED)
        except apsw.Error as fault:  # all that was acknowledged is in the log; the next open finds it there
            _LOG.error("ledger.close_failed", error=type(fault).__name__)
        # after the close, which still writes into the directory
        if not self._file.is_kept:
            import shutil  # noqa: PLC0415  rarely needed, and it brings the compressors along

            shutil.rmtree(self._file.path.parent, ignore_errors=True)

    async def _in_thread(
        self, work: Callable[[*Ts], T], *arguments: *Ts, limiter: anyio.CapacityLimiter | None = None
    ) -> T:
        """Run a query in a worker thread; an error of the file ends the ledger."""
        try:
            return await anyio.to_thread.run_sync(work, *arguments, limiter=limiter)
        # a value that is not of its kind stands in the tables beside the rows, which the writer goes by as well
        except (*UNTRUSTED, *MISFIT) as fault:
            self._on_failed(fault)
            raise InternalError(f"the ledger cannot be read: {type(fault).__name__}", code="ledger_failed") from fault
        except apsw.Error as fault:
            raise BrokerBusy(f"the ledger cannot be read now: {type(fault).__name__}", code="busy") from fault

    def _note_damage(self, found: Iterable[object]) -> None:
        """Say once of each damaged row that it is; one that the next start would refuse ends the ledger now."""
        for one in found:
            if not isinstance(one, DamagedReceipt):
                continue
            if one.position not in self._damaged and len(self._damaged) < _MAX_DAMAGED:
                self._damaged[one.position] = one.detail
                _LOG.error("ledger.row_damaged", position=one.position, through=one.through, detail=one.detail[:200])
            # what is recorded now continues the newest rows: it must not be linked to what is damaged
            if one.position > self._head - sqlite_file.BOOT_TAIL:
                self._on_failed(DamagedRow(one))

    def _report(self, receive: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Hand something from the writer thread to the event loop; ignored when that is closed."""
        # the loop may be closed while the thread still reports
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(receive, *arguments)

    def _on_reported(self, results: Results, stored: list[StoredReceipt]) -> None:
        """Take what the thread committed; only then may what came later be committed by the loop."""
        self._on_committed(results, stored)
        self._commits.returned(len(results))

    def _on_finished(self, task: Task, result: Any) -> None:
        self._commits.returned(1)
        task.done(result)

    def _on_committed(self, results: Results, stored: list[StoredReceipt]) -> None:
        """Acknowledge, then publish (docs/ledger.md D1); never after the disk has failed."""
        # a commit that was reported after the failure is not acknowledged: its disk is not trusted any more
        if self._refusal is FAILED:
            return
        if stored:
            self._head = stored[-1].position
        # the callers come before subscribers, who may answer what they see at once
        self._acknowledge(results)
        if stored and self._publish is not None:
            self._publish(stored)

    def _acknowledge(self, results: Results) -> None:
        """Have each append's caller get its results."""
        for pending, result in results:
            if isinstance(pending, PendingReceipts):
                self._queued -= pending.count
                self._weight -= pending.weight
            _call(pending.done, result)

    def _on_writable(self, writable: bool) -> None:
        _LOG.warning("ledger.writable" if writable else "ledger.disk_full")
        if self._refusal in (None, DISK_FULL):
            self._refusal = None if writable else DISK_FULL

    def _on_failed(self, fault: BaseException) -> None:
        """Stop for good: what is queued is refused; what was being written stays unanswered, as it may be durable."""
        if self._refusal is FAILED:
            return
        _LOG.critical("ledger.failed", error=type(fault).__name__, detail=str(fault)[:200])
        # set first: what the callbacks below submit must be refused
        self._refusal = FAILED
        if self._fault is not None:
            self._fault(fault if isinstance(fault, Exception) else InternalError(repr(fault)))
        for work in (*self._writer.abandon(), *self._commits.take()):
            if isinstance(work, Task):
                work.done(fault)
            else:
                self._acknowledge([(work, refused(work, FAILED))])


def _call(done: Callable[[Any], None], result: Any) -> None:
    """Acknowledge one append; a caller that fails must not keep the others waiting."""
    try:
        done(result)
    except Exception:  # noqa: BLE001  whatever it is, it is not the ledger's
        _LOG.exception("ledger.done_failed")


def _remove(stones: Sequence[bytes], before_epoch_s: int, store: Store) -> None:
    store.remove_tombstones(stones, before_epoch_s)
