"""Writes to the store: a thread takes what is queued, commits it, reports, and stops at the first I/O error.

Group commit without waiting: a transaction holds what has queued up during the one before (docs/ledger.md D1).  The
event loop gets one report a transaction.  A full disk pauses writing until a probe succeeds; any other error of the
database ends the thread, because what reached the disk is unknown (docs/ledger.md D3).  The loop may commit by itself
while the thread does nothing (`commit_now`): the same transaction, under the same lock, as final in its errors.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from lifebus_broker.ledger.batching import COMMIT_ROWS, COMMIT_WEIGHT, Batch, emitter_key_of, key_of
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.refusals import BUSY, DISK_FULL
from lifebus_broker.ledger.sqlite.schema import Execute, busy_timeout, executor
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace
from lifebus_broker.ledger.sqlite.writing.maintenance import Maintenance, Room, Surplus
from lifebus_broker.ports import (
    AppendResult,
    DamagedReceipt,
    Known,
    NewReceipt,
    NewRecord,
    Record,
    Refusal,
    StoredReceipt,
)

T = TypeVar("T")


class PendingReceipts(Struct, frozen=True):
    """One append of receipts that waits for its transaction."""

    receipts: Sequence[NewReceipt]
    done: Callable[[list[AppendResult]], None]
    weight: int

    @property
    def count(self) -> int:
        """How many receipts it holds."""
        return len(self.receipts)


class PendingRecords(Struct, frozen=True):
    """Records that wait for their transaction, and when they were taken."""

    records: Sequence[NewRecord]
    at_epoch_s: int
    done: Callable[[list[Record] | Refusal], None]
    weight: int

    @property
    def count(self) -> int:
        """How many records it holds."""
        return len(self.records)


class Task(Struct, frozen=True):
    """Something else to do between two transactions; `done` gets the result or the exception."""

    run: Callable[[Store], Any]
    done: Callable[[Any], None]


PendingAppend = PendingReceipts | PendingRecords
"""An append that waits for its transaction, with what is called once that is committed."""

Results = list[tuple[PendingAppend, Any]]
"""What became of each append of a commit: what its `done` takes."""

Work = PendingAppend | Task

_Waited = Callable[[float], None]
"""Gets for how many seconds a commit waited."""


class _Order(Enum):
    """What the thread is told beside work: to end, or to see what is to be done beside appends."""

    END = 0
    WAKE = 1


class Reports(Struct, frozen=True):
    """Where the thread reports to; each is called in the thread and hands over to the event loop.

    `committed` gets the results and the newly stored receipts, `writable` whether the disk takes writes, `finished` the
    result of a task, `failed` what ended the thread, `damaged` the damaged receipts that keys stand for.
    """

    committed: Callable[[Results, list[StoredReceipt]], None]
    writable: Callable[[bool], None]
    finished: Callable[[Task, Any], None]
    failed: Callable[[BaseException], None]
    damaged: Callable[[list[DamagedReceipt]], None]


def refused(pending: PendingAppend, refusal: Refusal) -> Any:
    """Return what the `done` of an append takes when nothing of it was written."""
    return [AppendResult(refusal=refusal)] * pending.count if isinstance(pending, PendingReceipts) else refusal


class Writer:
    """Runs `store` in its own thread, from `start` until `stop` or the first error.

    `room` measures its file system, `surplus` says what a file that bounds itself holds too much, and `log` is the path
    of a log that gets room (`Maintenance`).  `pace` is how long commits wait for the disk, whoever makes them.
    """

    def __init__(
        self, store: Store, reports: Reports, room: Room, surplus: Surplus | None = None, log: str | None = None
    ) -> None:
        self._store = store
        self._maintenance = Maintenance(store, room, surplus=surplus, log=log)
        self._reports = reports
        self.pace = DiskPace()
        self._queue: SimpleQueue[Work | _Order] = SimpleQueue()
        self._using = threading.Lock()  # who holds it may use the store
        self._broken = False
        self._rows_now = 0  # committed by the loop since the thread looked
        self._held: Work | None = None
        self._stopping = False
        # not written to until a probe succeeds, where the disk was full at the start already
        self._full = store.is_full
        self._writable = True
        self._thread = threading.Thread(target=self._run, name="lifebus-ledger", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def bound(self, keep: int, spare: int) -> None:
        """Keep the write-ahead log small beside `keep` bytes, and leave `spare` bytes of the file system free."""
        self._maintenance.bound(keep, spare)

    def submit(self, work: Work) -> None:
        """Queue an append or a task; never waits."""
        self._queue.put(work)

    def stop(self) -> None:
        """Let the thread end after what is queued, and wait for that; blocks."""
        self._queue.put(_Order.END)
        self._thread.join()

    def abandon(self) -> list[Work]:
        """Let the thread end as soon as it can, and return what it has not begun."""
        left: list[Work] = [] if self._held is None else [self._held]
        with suppress(Empty):
            while True:
                work = self._queue.get_nowait()
                if not isinstance(work, _Order):
                    left.append(work)
        # wakes the thread where it waits for the queue
        self._queue.put(_Order.END)
        return left

    def commit_now(self, appends: list[PendingAppend]) -> tuple[Results, list[StoredReceipt]] | None:
        """Commit the appends where this is called; None, and nothing is done, where that would wait or be refused.

        Raises:
            Exception: what ends the thread as well: it is not known what reached the disk.
        """
        # tried and never waited for: the thread may be in the middle of a checkpoint
        if not self._using.acquire(blocking=False):
            return None
        try:
            if self._broken or self._full or self._maintenance.low_space:
                return None
            with busy_timeout(self._store.connection):
                found = self._write(appends, self.pace.note)
        except (apsw.FullError, apsw.BusyError):
            return None  # nothing was written: the thread tries it again, and may wait
        except BaseException:
            self._broken = True
            raise
        finally:
            self._using.release()
        # lost where the thread looks just now, which then sees the next commit
        self._rows_now += sum(pending.count for pending in appends)
        return found

    def wake(self) -> None:
        """Have the thread see what `commit_now` wrote: what it does beside appends depends on that."""
        self._queue.put(_Order.WAKE)

    def look_now(self, look: Callable[[Execute], T]) -> T | None:
        """Return what `look` finds in the file where this is called; None where that would wait, or fails."""
        if not self.pace.is_quick or not self._using.acquire(blocking=False):
            return None
        try:
            return None if self._broken else look(executor(self._store.connection))
        except apsw.Error:  # whoever has to know reads it on a connection of its own, and says what is wrong
            return None
        finally:
            self._using.release()

    @contextmanager
    def _exclusively(self) -> Generator[None]:
        """Use the store inside the block; after an error that leaves it, nobody does any more."""
        with self._using:
            # the loop's own commit may have failed meanwhile
            if self._broken:
                raise _BrokenError
            try:
                yield
            except BaseException:
                self._broken = True
                raise

    def _run(self) -> None:
        try:
            self._report()  # a disk that was full at the start is known before anybody asks
            while not self._stopping:
                self._turn()
        except _BrokenError:  # reported by who met the error
            return
        except Exception as fault:  # noqa: BLE001  whatever it is, nothing more may be acknowledged
            self._reports.failed(fault)

    def _turn(self) -> None:
        """Do the next thing."""
        # maintenance is asked how long to wait, so that its pieces run while nothing is queued
        work = self._take(self._maintenance.timeout(full=self._full))
        rows, self._rows_now = self._rows_now, 0
        if isinstance(work, Task):
            with self._exclusively():
                self._do(work)
        elif work is not None:
            appends = self._gather(work)
            rows += sum(pending.count for pending in appends)
            with self._exclusively():
                self._commit(appends)
        self._maintenance.measure()
        self._report()
        act = None if self._stopping else self._maintenance.next_task(rows, full=self._full)
        if act is not None:
            with self._exclusively():
                self._guard(act)

    def _take(self, timeout: float | None) -> Work | None:
        """Return the next work, None when there is none in time or the thread has to stop."""
        # what did not fit the transaction before comes first
        held, self._held = self._held, None
        if held is not None:
            return held
        try:
            work = self._queue.get(timeout=timeout) if timeout != 0 else self._queue.get_nowait()
        except Empty:
            return None
        if isinstance(work, _Order):
            self._stopping = self._stopping or work is _Order.END
            return None
        return work

    def _gather(self, first: PendingAppend) -> list[PendingAppend]:
        """Return the first append and those that have queued up behind it, within the bounds of a transaction."""
        appends, rows, weight = [first], first.count, first.weight
        while rows < COMMIT_ROWS and weight < COMMIT_WEIGHT:
            work = self._take(0)
            # a task keeps its place in the queue: what was submitted before it is committed before it
            if work is None or isinstance(work, Task):
                self._held = work
                break
            appends.append(work)
            rows += work.count
            weight += work.weight
        return appends

    def _commit(self, appends: list[PendingAppend]) -> None:
        """Commit the appends in one transaction and report them; refuse them where the disk is full."""
        # refused without a try: a full disk may take small commits, and would then fail in the middle of a large one
        if self._full or self._maintenance.low_space:
            self._refuse(appends, DISK_FULL)
            return
        try:
            # two errors leave the file as it was; after any other nobody knows what reached the disk
            # nothing is reported before this returns: then it is durable
            results, stored = self._write(appends, self.pace.note_contended)
        except apsw.FullError:
            self._set_full(True)
            self._refuse(appends, DISK_FULL)
        except apsw.BusyError:
            self._refuse(appends, BUSY)
        else:
            self._reports.committed(results, stored)

    def _write(self, appends: list[PendingAppend], waited: _Waited) -> tuple[Results, list[StoredReceipt]]:
        """Write the appends in one transaction; returns when it is durable."""
        try:
            # tombstones are looked up beforehand, because no constraint of the table of rows catches them
            tombstones = self._store.tombstones
            return self._attempt(appends, tombstones.find(_keys(appends)) if tombstones.exist else {}, waited)
        except apsw.ConstraintError:  # a known key: rare, because the router reads it first
            known = self._store.lookup(_keys(appends))
            if damaged := [found for _, found in known.values() if isinstance(found, DamagedReceipt)]:
                self._reports.damaged(damaged)
            return self._attempt(appends, known, waited)

    def _attempt(
        self, appends: list[PendingAppend], known: Mapping[str, Known], waited: _Waited
    ) -> tuple[Results, list[StoredReceipt]]:
        store = self._store
        # receipts and records of one transaction succeed or fail together
        batch = Batch(
            store.tip_of, head=store.head, newest_second=store.newest_second, known=known, numbered=store.numbered
        )
        records = RecordBatch(store.records.tip_of)
        results: Results = []
        try:
            for pending in appends:
                if isinstance(pending, PendingReceipts):
                    results.append((pending, batch.add(pending.receipts)))
                else:
                    results.append((pending, records.add(pending.records, pending.at_epoch_s)))
            # what this thread computes is no wait for the disk
            began = time.perf_counter() - time.thread_time()
            store.write(batch, records if records.values else None)
            waited(time.perf_counter() - time.thread_time() - began)
        # the receipts belong to their callers: a number that was rolled back must not stay on them
        except BaseException:
            batch.rollback()
            raise
        return results, batch.stored

    def _refuse(self, appends: list[PendingAppend], refusal: Refusal) -> None:
        # through the same report as commits: answers reach the event loop in the order of the queue
        self._reports.committed([(pending, refused(pending, refusal)) for pending in appends], [])

    def _do(self, task: Task) -> None:
        try:
            result = task.run(self._store)
        except (apsw.FullError, apsw.BusyError) as fault:
            result = fault
        except Exception as fault:  # this thread ends, so the task's caller must not wait for it
            self._reports.finished(task, fault)
            raise
        self._reports.finished(task, result)

    def _guard(self, act: Callable[[], Any]) -> None:
        """Do something that is not an append; it shows as well whether the disk takes writes."""
        try:
            act()
        except apsw.FullError:
            self._set_full(True)
        except apsw.BusyError:
            return
        else:
            self._set_full(False)

    def _set_full(self, full: bool) -> None:
        self._full = full
        self._report()

    def _report(self) -> None:
        writable = not (self._full or self._maintenance.low_space)
        if writable != self._writable:
            self._writable = writable
            self._reports.writable(writable)


class _BrokenError(Exception):
    """The store is not used any more, after an error that was reported already."""


def _keys(appends: Sequence[PendingAppend]) -> list[str]:
    keys: list[str] = []
    receipts = chain.from_iterable(pending.receipts for pending in appends if isinstance(pending, PendingReceipts))
    for receipt, digest in receipts:
        if digest is not None and receipt.idempotency_key is not None:
            keys.append(key_of(receipt.client_id, receipt.adapter_id, receipt.idempotency_key))
            further = emitter_key_of(receipt)
            if further is not None:
                keys.append(further)
    return keys
