"""The thread that owns the writing connection: takes what is queued, commits it, reports, stops at the first I/O error.

Group commit without waiting: a transaction holds what has queued up during the one before (docs/ledger.md D1).  The
event loop gets one report a transaction.  A full disk pauses writing until a probe succeeds; any other error of the
database ends the thread, because what reached the disk is unknown (docs/ledger.md D3).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import apsw
from msgspec import Struct

from lifebus_broker.ledger.batching import Batch, Known, emitter_key_of, key_of
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.refusals import BUSY, DISK_FULL
from lifebus_broker.ledger.sqlite.maintenance import Maintenance, Room, Surplus
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ports import AppendResult, NewReceipt, NewRecord, Record, Refusal, StoredReceipt

COMMIT_ROWS: Final = 512
"""Rows after which no further append joins a transaction."""

COMMIT_WEIGHT: Final = 1_048_576
"""Estimated bytes after which no further append joins a transaction."""


class ReceiptJob(Struct, frozen=True):
    """One append of receipts that waits for its transaction."""

    receipts: Sequence[NewReceipt]
    done: Callable[[list[AppendResult]], None]
    weight: int

    @property
    def count(self) -> int:
        """How many receipts it holds."""
        return len(self.receipts)


class RecordJob(Struct, frozen=True):
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


Answers = list[tuple[ReceiptJob | RecordJob, Any]]
"""What became of each job of a commit: what its `done` takes."""


_Item = ReceiptJob | RecordJob | Task


class Reports(Struct, frozen=True):
    """Where the thread reports to; each is called in the thread and hands over to the event loop.

    `committed` gets answers and newly stored receipts, `writable` whether the disk takes writes, `finished` the result
    of a task, `failed` what ended the thread.
    """

    committed: Callable[[Answers, list[StoredReceipt]], None]
    writable: Callable[[bool], None]
    finished: Callable[[Task, Any], None]
    failed: Callable[[BaseException], None]


def refused(job: ReceiptJob | RecordJob, refusal: Refusal) -> Any:
    """Return what the `done` of a job takes when nothing of it was written."""
    return [AppendResult(refusal=refusal)] * job.count if isinstance(job, ReceiptJob) else refusal


class Writer:
    """Runs `store` in its own thread, from `start` until `stop` or the first error.

    `room` measures its file system, `surplus` says what a file that bounds itself holds too much (`Maintenance`).
    """

    def __init__(self, store: Store, reports: Reports, room: Room, surplus: Surplus | None = None) -> None:
        self._store = store
        self._maintenance = Maintenance(store, room, surplus=surplus)
        self._reports = reports
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._held: _Item | None = None
        self._stopping = self._full = False
        self._writable = True
        self._thread = threading.Thread(target=self._run, name="lifebus-ledger", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def bound(self, keep: int, spare: int) -> None:
        """Keep the write-ahead log small beside `keep` bytes, and leave `spare` bytes of the file system free."""
        self._maintenance.bound(keep, spare)

    def submit(self, item: _Item) -> None:
        """Queue an append or a task; never waits."""
        self._queue.put(item)

    def stop(self) -> None:
        """Let the thread end after what is queued, and wait for that; blocks."""
        self._queue.put(None)
        self._thread.join()

    def abandon(self) -> list[_Item]:
        """Let the thread end as soon as it can, and return what it has not begun."""
        items: list[_Item] = [] if self._held is None else [self._held]
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    items.append(item)
        # wakes the thread where it waits for the queue
        self._queue.put(None)
        return items

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception as fault:  # noqa: BLE001  whatever it is, nothing more may be acknowledged
            self._reports.failed(fault)

    def _turn(self) -> None:
        """Do the next thing."""
        # maintenance is asked how long to wait, so that its pieces run while nothing is queued
        item = self._take(self._maintenance.timeout(full=self._full))
        rows = 0
        if isinstance(item, Task):
            self._do(item)
        elif item is not None:
            jobs = self._gather(item)
            rows = sum(job.count for job in jobs)
            self._commit(jobs)
        self._maintenance.measure()
        self._report()
        act = None if self._stopping else self._maintenance.next_task(rows, full=self._full)
        if act is not None:
            self._guard(act)

    def _take(self, timeout: float | None) -> _Item | None:
        """Return the next item, None when there is none in time or the thread has to stop."""
        # what did not fit the transaction before comes first
        held, self._held = self._held, None
        if held is not None:
            return held
        try:
            item = self._queue.get(timeout=timeout) if timeout != 0 else self._queue.get_nowait()
        except Empty:
            return None
        if item is None:
            self._stopping = True
        return item

    def _gather(self, first: ReceiptJob | RecordJob) -> list[ReceiptJob | RecordJob]:
        """Return the first append and those that have queued up behind it, within the bounds of a transaction."""
        jobs, rows, weight = [first], first.count, first.weight
        while rows < COMMIT_ROWS and weight < COMMIT_WEIGHT:
            item = self._take(0)
            # a task keeps its place in the queue: what was submitted before it is committed before it
            if item is None or isinstance(item, Task):
                self._held = item
                break
            jobs.append(item)
            rows += item.count
            weight += item.weight
        return jobs

    def _commit(self, jobs: list[ReceiptJob | RecordJob]) -> None:
        """Commit the appends in one transaction and report them; refuse them where the disk is full."""
        # refused without a try: a full disk may take small commits, and would then fail in the middle of a large one
        if self._full or self._maintenance.low_space:
            self._refuse(jobs, DISK_FULL)
            return
        try:
            # two errors leave the file as it was; after any other nobody knows what reached the disk
            answers, stored = self._write(jobs)  # nothing is reported before this returns: then it is durable
        except apsw.FullError:
            self._set_full(True)
            self._refuse(jobs, DISK_FULL)
        except apsw.BusyError:
            self._refuse(jobs, BUSY)
        else:
            self._reports.committed(answers, stored)

    def _write(self, jobs: list[ReceiptJob | RecordJob]) -> tuple[Answers, list[StoredReceipt]]:
        try:
            # tombstones are looked up beforehand, because no constraint of the table of rows catches them
            return self._attempt(jobs, self._store.tombstones.find(_keys(jobs)) if self._store.tombstones.exist else {})
        except apsw.ConstraintError:  # a known key: rare, because the router reads it first
            return self._attempt(jobs, self._store.lookup(_keys(jobs)))

    def _attempt(
        self, jobs: list[ReceiptJob | RecordJob], known: Mapping[str, Known]
    ) -> tuple[Answers, list[StoredReceipt]]:
        store = self._store
        # receipts and records of one transaction succeed or fail together
        batch = Batch(
            store.tip_of, head=store.head, newest_second=store.newest_second, known=known, numbered=store.numbered
        )
        records = RecordBatch(store.records.tip_of)
        answers: Answers = []
        try:
            for job in jobs:
                if isinstance(job, ReceiptJob):
                    answers.append((job, batch.add(job.receipts)))
                else:
                    answers.append((job, records.add(job.records, job.at_epoch_s)))
            store.write(batch, records if records.values else None)
        # the receipts belong to their callers: a number that was rolled back must not stay on them
        except BaseException:
            batch.rollback()
            raise
        return answers, batch.stored

    def _refuse(self, jobs: list[ReceiptJob | RecordJob], refusal: Refusal) -> None:
        # through the same report as commits: answers reach the event loop in the order of the queue
        self._reports.committed([(job, refused(job, refusal)) for job in jobs], [])

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


def _keys(jobs: Sequence[ReceiptJob | RecordJob]) -> list[str]:
    keys: list[str] = []
    receipts = (new for job in jobs if isinstance(job, ReceiptJob) for new in job.receipts)
    for receipt in (new.receipt for new in receipts if new.digest is not None):
        if receipt.idempotency_key is not None:
            keys.append(key_of(receipt.client_id, receipt.adapter_id, receipt.idempotency_key))
            further = emitter_key_of(receipt)
            if further is not None:
                keys.append(further)
    return keys
