"""The transactions on a ledger file: everything the writer thread does to the disk, one method each.

A receipt's row carries the fold of its session up to it, so a session's head is committed with the receipt.
Only the pointer from a stream to its newest row trails behind: it is written every `POINT_EVERY` rows, in the
transaction of a commit and together with the position up to which it holds; boot reads the rows after that.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

import apsw

from lifebus_broker.ledger.batching import Batch, Tip, state_from
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.sqlite import statements as sql
from lifebus_broker.ledger.sqlite.checks.sound_rows import sound
from lifebus_broker.ledger.sqlite.format import create, set_meta
from lifebus_broker.ledger.sqlite.records import RecordTable
from lifebus_broker.ledger.sqlite.schema import Durability, busy_timeout, executor, open_writer
from lifebus_broker.ledger.sqlite.tombstones import Tombstones
from lifebus_broker.ledger.sqlite.watermark import HighWaterMark, Watermark
from lifebus_broker.ports import Known
from lifebus_broker.state.stream_digests import StreamKey

POINT_EVERY: Final = 16_384
"""Rows after which the pointers to the newest rows are written; boot reads at most about as many."""

MAX_TIPS: Final = 32_768
"""Streams that may go on whose tips are kept in memory."""

PRUNE_STEP: Final = 256
"""How many rows go in one piece, so that appends need not wait long."""

_LONG_FRAMES: Final = 8_192
_LONGEST_FRAMES: Final = 16_384
"""Frames of 4 KiB in a write-ahead log that is cut off when nothing is to be done, and in one cut off at once."""

_READER_MS: Final = 200
"""How long it is waited then for readers that began before."""

_PROBE_BYTES: Final = 262_144
_FRAME_BYTES: Final = 4096
_VACUUM_PAGES: Final = 128
_SPARE_PAGES: Final = 256
_INCREMENTAL: Final = 2


class Store:
    """Owns the writing connection.  Every method may raise `apsw.Error`; after one nothing has changed.

    `head` is the newest committed position, `floor` the newest dropped one, `pruned` the newest deleted one;
    `size_bytes` is how large the file was at the last checkpoint; `records` are the tables of the journal, `tombstones`
    that of pruned keys.  `is_full` says that there was no room for a checkpoint when the file was opened,
    `has_free_pages` that it has pages to give back, `wal_is_long` that the write-ahead log can be cut off once nothing
    else is to be done.
    """

    def __init__(
        self, connection: apsw.Connection, epoch: str, watermark: HighWaterMark | None = None, *, numbered: bool = True
    ) -> None:
        """Read what is in the file, or create it with this epoch; the `watermark` records every commit.

        Unless `numbered`, receipts get no sequence; their places in their sessions are counted all the same.

        Raises:
            InternalError: the file is of another format.
        """
        self.connection, self._watermark = connection, watermark
        self.numbered = numbered
        self._execute = executor(connection)
        # before anything is read: an older format lacks columns that are read here
        create(connection, epoch)
        meta = dict(self._all("SELECT key, value FROM meta"))
        self.epoch: str = meta["epoch"]
        self.floor: int = meta["floor"]
        self.pruned: int = meta["pruned"]
        newest = self._one("SELECT max(position) FROM rows")
        self.head: int = max(newest[0] or 0, self.floor)
        self.newest_second: int = self._one("SELECT max(second) FROM seconds")[0] or 0
        self._next_stream: int = (self._one("SELECT max(stream) FROM streams")[0] or 0) + 1
        self.has_free_pages = self.wal_is_long = self.is_full = False
        self._frames = 0
        self._log_limit: int | None = None
        self._tips: dict[StreamKey, Tip] = {}
        self._unchecked: set[StreamKey] = set()  # tips that the start took up, and that no receipt has continued yet
        self._unpointed: dict[int, int] = {}
        self._pointed: int = meta["pointed"]
        self._pruned_at: int = meta.get("pruned_at", self.newest_second)
        self.records = RecordTable(self._execute)
        self.tombstones = Tombstones(self._execute)
        self._load_tail()
        self._count_free_pages()
        self.size_bytes = self._size()
        self._record_watermark()
        try:
            self.checkpoint()
        except apsw.FullError:  # a full disk can be read: what an unclean stop left in the log is read from there
            self.is_full = True

    @classmethod
    def open(cls, path: Path, *, epoch: str, durability: Durability = "full", vfs: str | None = None) -> Self:
        """Open the file unchecked, or create it with this epoch, and without a watermark.

        Raises:
            InternalError: the file is of another format.
        """
        connection = open_writer(path, durability=durability, vfs=vfs)
        try:
            return cls(connection, epoch)
        except BaseException:
            connection.close()
            raise

    @property
    def wal_bytes(self) -> int:
        """About how much is in the write-ahead log since the last checkpoint."""
        return self._frames * _FRAME_BYTES

    def tip_of(self, place: StreamKey) -> Tip:
        """Return the newest committed receipt of a stream; a new stream gets its number.

        Raises:
            apsw.CorruptError: what the stream's next receipt continues is not what was written.
        """
        tip = self._tips.get(place)
        if tip is not None and place in self._unchecked:
            self._check(tip)
            self._unchecked.discard(place)
        if tip is None:
            found = self._one(sql.STREAM, of := (place[0], place[1] or "")) and self._one(sql.TIP, of)
            if found is None:
                tip = Tip(self._next_stream)
                self._next_stream += 1
            else:
                *values, astray = found
                if astray is not None or not values[1]:  # it holds a receipt, or it would not be there
                    raise apsw.CorruptError(
                        f"row {astray or 0}: the pointer of stream {values[0]} is not as the rows say"
                    )
                tip = _tip(values)
                self._check(tip)
            self._tips[place] = tip
        return tip

    def _check(self, tip: Tip) -> None:
        """Check what the next receipt of a stream continues, once in a process: a false number would come twice.

        Raises:
            apsw.CorruptError: it is not what was written.
        """
        found = self._one(sql.ROW, (tip.position,))
        row = None if found is None else sound(found)
        # What is left of a pruned one has a checksum.  One that is damaged is named where it is read, and its session
        # goes on.
        if isinstance(row, tuple) and row[0].sequence not in (None, tip.sequence):
            raise apsw.CorruptError(f"row {tip.position}: sequence does not match")

    def lookup(self, keys: Iterable[str]) -> dict[str, Known]:
        """Return what the keys stand for, where they are known."""
        wanted = list(keys)
        # tombstones first: of a key that is in both, the live receipt counts
        return self.tombstones.find(wanted) | sql.known(self._execute, wanted, self.floor)

    def write(self, batch: Batch, records: RecordBatch | None = None) -> None:
        """Commit receipts and notes together; a key that is known already raises `apsw.ConstraintError`."""
        if not batch.stored and records is None:
            return
        # one statement is a transaction of its own: BEGIN and COMMIT around it would cost two calls more
        due = batch.head - self._pointed >= POINT_EVERY
        if (
            records is not None
            or due
            or batch.streams
            or batch.seconds
            or batch.aliases
            or len(batch.stored) > sql.WIDEST
        ):
            with self._transaction():
                sql.insert_all(self._execute, sql.NEW_STREAM, 6, batch.streams)
                sql.insert_all(self._execute, sql.NEW_SECOND, 3, batch.seconds)
                sql.insert_rows(self._execute, batch.values)
                sql.insert_all(self._execute, sql.NEW_KEY, 3, batch.aliases)
                if due:
                    self._point(batch)
                if records is not None:
                    self.records.write(records)
        else:
            sql.insert_rows(self._execute, batch.values)
        self._accept(batch)
        if records is not None:
            self.records.accept(records.tips)
            self._frames += 4 + (records.bytes + 16 * len(records.values)) // _FRAME_BYTES
        self._record_watermark()

    def prune_to(self, keep_after: int, base: bytes, at_epoch_s: int = 0) -> int:
        """Move the floor, keep `base` with it and return it; `prune_step` then deletes what lies below.

        Tombstones will bear the second `at_epoch_s`.
        """
        floor = min(keep_after, self.head)
        if floor <= self.floor:
            return self.floor
        with self._transaction():
            set_meta(self._execute, floor=floor, pruned_at=at_epoch_s)
            self._execute(sql.DROP_BASE)
            self._execute(sql.KEEP_BASE, (floor, base, sha256(base).digest()))
            # the newest second below the floor stays: it says how old the first kept row is at most
            self._execute(sql.DROP_SECONDS, (floor, floor))
        self.floor, self._pruned_at = floor, at_epoch_s
        self._record_watermark()
        return floor

    def prune_step(self, pieces: int = 1) -> bool:
        """Delete up to so many times `PRUNE_STEP` rows below the floor; say if any are left.

        The heads of their streams are kept, and of their keys the tombstones.
        """
        # the floor was committed before: a kill between two pieces leaves rows that nobody is promised
        last = min(self.pruned + pieces * PRUNE_STEP, self.floor)
        if last > self.pruned:
            span = (self.pruned, last)
            with self._transaction():
                has_added = self.tombstones.add(*span, self._pruned_at)
                # heads are kept before their rows go; all of it is one transaction
                for statement in (sql.KEEP_BASES, sql.DROP_MARKS, sql.DROP_ROWS):
                    self._execute(statement, span)
                set_meta(self._execute, pruned=last)
            self.pruned = last
            self.tombstones.exist |= has_added
            self._frames += last - span[0]
            if last == self.floor:
                self._count_free_pages()
        return self.pruned < self.floor

    def vacuum(self) -> None:
        """Give some of the free pages back to the file system; `has_free_pages` says whether there are more of them."""
        self._all(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        self._frames += 2 * _VACUUM_PAGES
        self._count_free_pages()

    def truncate_wal(self, wait_ms: int = 0) -> None:
        """Move the write-ahead log into the file and cut it off; `apsw.BusyError` says that a reader needs it now."""
        with busy_timeout(self.connection, wait_ms):
            # a reader that began earlier makes this fail at once or after the wait, and changes nothing
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._frames, self.wal_is_long = 0, False
        self.size_bytes = self._size()

    def shrink_memory(self) -> None:
        """Drop the pages that are kept for the next writes: the system has most of them too."""
        self._all("PRAGMA shrink_memory")

    def remove_tombstones(self, stones: Sequence[bytes], before_epoch_s: int) -> None:
        """Remove tombstones that bear a second before this one."""
        with self._transaction():
            self.tombstones.remove(stones, before_epoch_s)
        self.tombstones.refresh()
        self._frames += len(stones)

    def forget_tombstones(self, before_epoch_s: int) -> None:
        """Remove every tombstone that bears a second before this one, in one transaction."""
        with self._transaction():
            self.tombstones.forget(before_epoch_s)
        self.tombstones.refresh()

    def remove_streams(self, prefix: str, known: int) -> bool:
        """Remove a piece of the streams without notes, but for the newest ones; return whether there was one."""
        with self._transaction():
            gone = self.records.remove_empty(prefix, known)
        self._frames += 3 + len(gone)
        return self.records.forget(gone)

    def drop_many(self, throughs: Mapping[str, int]) -> dict[str, int]:
        """Drop a piece of the oldest notes of streams, each up to a number, at once; return what is left to drop."""
        with self._transaction():
            tips = self.records.drop_all(throughs)
        self.records.accept(tips)
        self._record_watermark()
        self._frames += 3 + len(tips)
        return {
            stream: through
            for stream, through in throughs.items()
            if stream not in tips or tips[stream].floor < min(through, tips[stream].head)
        }

    def checkpoint(self, wal_bytes: int | None = None) -> None:
        """Move the write-ahead log into the file, as far as no reader needs it.

        With readers at every moment the log never begins anew: one that became too long waits for them, they are short.
        The file of a log that is begun anew is cut off at `wal_bytes`, from now on.
        """
        if wal_bytes is not None and wal_bytes != self._log_limit:
            self._all(f"PRAGMA journal_size_limit = {wal_bytes}")
            self._log_limit = wal_bytes
        # passive: neither readers nor the next commit wait for it
        frames, _ = self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._frames = 0
        self.size_bytes = self._size()
        self.wal_is_long |= frames > _LONG_FRAMES
        if frames > _LONGEST_FRAMES:
            with suppress(apsw.BusyError):
                self.truncate_wal(_READER_MS)

    def probe(self) -> None:
        """Find out whether the disk takes writes again, by writing and removing something of some size."""
        self.checkpoint()
        # large enough that the file has to grow: a free page would prove nothing
        self._execute(sql.PROBE, (_PROBE_BYTES,))
        self._execute("DELETE FROM meta WHERE key = 'probe'")

    def close(self, *, failed: bool = False) -> None:
        """Close the file, moving the write-ahead log into it, unless the disk `failed`: then it stays as it is."""
        if self._watermark is not None:
            self._watermark.close()
        # after an I/O error a checkpoint could write a damaged log into a sound file
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(failed))
        self.connection.close()

    def _record_watermark(self) -> None:
        """Record how far the file is; it is durable by now."""
        if self._watermark is not None:
            mark = Watermark(self.epoch, self.head, self.floor, self.records.written, self.records.dropped)
            self._watermark.record(mark)

    def _accept(self, batch: Batch) -> None:
        """The batch is committed: its tips are the tips now."""
        self._tips.update(batch.tips)
        if batch.head - self._pointed >= POINT_EVERY:
            self._pointed = batch.head
            # tips may be forgotten only now: until then a restart could not find them without this process
            self._unpointed.clear()
            self._forget()
        else:
            for tip in batch.tips.values():
                self._unpointed[tip.stream] = tip.position
        self.head, self.newest_second = batch.head, batch.newest_second
        self._frames += 4 + (batch.bytes + len(batch.stored) * 256) // _FRAME_BYTES

    def _forget(self) -> None:
        """Forget the tips of sessions that ended, and the oldest beyond the bound; all of them are pointed to."""
        self._tips = {place: tip for place, tip in self._tips.items() if not tip.state.ended}
        for place in list(self._tips)[: max(len(self._tips) - MAX_TIPS, 0)]:
            del self._tips[place]

    def _point(self, batch: Batch) -> None:
        """Write where the newest rows are."""
        newest = self._unpointed | {tip.stream: tip.position for tip in batch.tips.values()}
        sql.insert_all(self._execute, sql.POINT, 2, list(chain.from_iterable(newest.items())))
        set_meta(self._execute, pointed=batch.head)

    def _load_tail(self) -> None:
        """Read the tips that no pointer leads to yet."""
        for adapter, session, *rest in self._all(sql.TAIL_TIPS, (self._pointed,)):
            tip = _tip(rest)
            self._tips[adapter, session or None] = tip
            self._unchecked.add((adapter, session or None))
            self._unpointed[tip.stream] = tip.position

    def _count_free_pages(self) -> None:
        """Find out whether there are free pages to give back; a file of an older format keeps them."""
        # files of older formats were made without it; to turn it on later, the whole file must be rewritten
        vacuums = self._all("PRAGMA auto_vacuum") == [(_INCREMENTAL,)]
        was, self.has_free_pages = (
            self.has_free_pages,
            vacuums and self._all("PRAGMA freelist_count")[0][0] > _SPARE_PAGES,
        )
        self.wal_is_long |= was and not self.has_free_pages

    def _size(self) -> int:
        return int(self._one("PRAGMA page_count")[0] * self._one("PRAGMA page_size")[0])

    def _one(self, statement: str, values: tuple[object, ...] = ()) -> Any:
        return next(iter(self._all(statement, values)), None)

    def _all(self, statement: str, values: tuple[object, ...] = ()) -> list[Any]:
        return list(self._execute(statement, values))

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """One transaction; whatever is raised inside takes it back."""
        # the write lock at once: a transaction that began as a reader could fail half-way with SQLITE_BUSY
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            # some errors of SQLite have rolled back by themselves
            if self.connection.in_transaction:
                self._execute("ROLLBACK")
            raise


def _tip(found: Sequence[Any]) -> Tip:
    """Return what `TIP` or `TAIL_TIPS` selects as a tip."""
    stream, position, sequence, link, *state = found
    return Tip(stream, position, sequence, link, state_from(*state), state[1])
