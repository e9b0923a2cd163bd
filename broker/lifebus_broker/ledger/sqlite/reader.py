"""Queries on the ledger file: pages of rows, keys and session heads, each in one short read transaction.

Filters are applied to what the receipts say, and never to the columns: a changed column would hide a row in silence.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
from msgspec import Struct

from lifebus_broker.ledger.batching import key_of, state_from
from lifebus_broker.ledger.sqlite import statements as sql
from lifebus_broker.ledger.sqlite.checks.sound_rows import COLUMNS as ROW_COLUMNS
from lifebus_broker.ledger.sqlite.checks.sound_rows import missing_rows, row_filter, sound
from lifebus_broker.ledger.sqlite.checksums import checksum
from lifebus_broker.ledger.sqlite.schema import MARK_EVERY, executor, open_reader
from lifebus_broker.ledger.sqlite.tombstones import find_tombstones
from lifebus_broker.ports import DamagedReceipt, Known, Page, Query, StoredReceipt
from lifebus_contract import LifecycleEvent, ReceiptStatus
from lifebus_contract.views import SessionHead

SCAN_ROWS: Final = 4_096
"""Most rows that one page scans; with filters it may find fewer than asked for, or none.

Each costs about 5 µs, in which lookups of keys wait.
"""

_MAX_LIMIT: Final = 4096

_HEADS: Final = """
WITH newest(stream, position) AS (
  SELECT stream, max(position) FROM (
    SELECT stream, position FROM tips WHERE {which} UNION ALL SELECT stream, position FROM bases WHERE {which}
    UNION ALL SELECT stream, position FROM rows
      WHERE position > (SELECT value FROM meta WHERE key = 'pointed') AND {which})
  GROUP BY stream),
heads AS (
  SELECT r.* FROM newest n CROSS JOIN (SELECT {columns} FROM rows) r ON r.position = n.position
  UNION ALL
  SELECT b.* FROM newest n CROSS JOIN (SELECT {columns} FROM bases) b
    ON b.stream = n.stream AND b.position = n.position)
SELECT s.adapter_id, s.harness_session_id, h.sequence, s.first_position, h.position, h.event, h.status,
  s.started_at_epoch_s, h.at_epoch_s, h.ended, h.open_frames, h.harness_sequence
FROM heads h JOIN streams s USING (stream)
WHERE s.harness_session_id <> '' ORDER BY h.position"""
_COLUMNS: Final = "stream, position, sequence, at_epoch_s, event, status, ended, open_frames, harness_sequence"
_ALL_HEADS: Final = _HEADS.format(which="true", columns=_COLUMNS)
_ONE_HEAD: Final = _HEADS.format(
    which="stream = (SELECT stream FROM streams WHERE adapter_id = :adapter AND harness_session_id = :session)",
    columns=_COLUMNS,
)

_WALK: Final = f"""
WITH RECURSIVE walk(position, previous) AS (
  SELECT position, previous FROM rows WHERE position = :last AND position > :start
  UNION ALL
  SELECT r.position, r.previous FROM walk w JOIN rows r ON r.position = w.previous
  WHERE w.previous > :start AND w.previous < w.position)
SELECT {ROW_COLUMNS} FROM walk w CROSS JOIN rows r ON r.position = w.position ORDER BY r.position"""  # noqa: S608  our own names
_SCAN: Final = f"""
SELECT {ROW_COLUMNS} FROM rows r
WHERE r.position > :start AND r.position <= :last ORDER BY r.position"""  # noqa: S608  our own names

_NEWEST: Final = """
SELECT max(position) FROM (SELECT position FROM tips WHERE stream = ?1
  UNION ALL SELECT position FROM rows
    WHERE position > (SELECT value FROM meta WHERE key = 'pointed') AND stream = ?1)"""

_SECOND: Final = "SELECT second, position, checksum FROM seconds WHERE second >= ? ORDER BY second LIMIT 1"
_LOST: Final = """
SELECT EXISTS (SELECT 1 FROM bases WHERE position > :start AND stream IN (SELECT stream FROM streams WHERE {which}))
  OR EXISTS (SELECT 1 FROM rows WHERE position > max(:start, :pruned) AND position <= :floor
    AND stream IN (SELECT stream FROM streams WHERE {which}))"""
_LOST_OF_SESSION: Final = _LOST.format(which="adapter_id = :adapter AND harness_session_id = :session")
_LOST_OF_ADAPTER: Final = _LOST.format(which="adapter_id = :adapter")


class _Found(Struct):
    """What a page found: its rows, how far it looked, and what it did not return."""

    rows: list[StoredReceipt]
    next: int
    damaged: tuple[DamagedReceipt, ...] = ()


class Reader:
    """Owns the read-only connection.  Every method blocks and may raise `apsw.Error`; one at a time."""

    def __init__(self, path: Path, *, vfs: str | None = None, numbered: bool = True) -> None:
        """Open the file; unless `numbered`, session heads have no sequence."""
        self._numbered = numbered
        self.connection = open_reader(path, vfs=vfs)
        self._execute = executor(self.connection)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def find(self, scopes: Sequence[tuple[str, str, str]]) -> list[Known | None]:
        """Return digest and row of each (client_id, adapter_id, idempotency_key)."""
        keys = [key_of(*scope) for scope in scopes]
        with self._snapshot() as meta:
            known = sql.known(self._execute, keys, meta.floor)
            if meta.pruned:
                # tombstones have a table of their own, which is empty until something was pruned
                known |= find_tombstones(self._execute, [key for key in keys if key not in known])
        return [known.get(key) for key in keys]

    def sessions(self, session: tuple[str, str] | None) -> list[SessionHead]:
        """Return the heads of all sessions in the order of their newest rows, or of one."""
        if session is None:
            return [self._head(found) for found in self._execute(_ALL_HEADS).fetchall()]
        names = {"adapter": session[0], "session": session[1]}
        return [self._head(found) for found in self._execute(_ONE_HEAD, names).fetchall()]

    def _head(self, found: Sequence[Any]) -> SessionHead:
        """Return what `_HEADS` selects as a head; what its receipt says, where that is sound, and not its columns."""
        adapter, session, sequence, first, last, event, status, started, at, *folded = found
        # Read to its end: a statement that is left in the middle holds the file as it is now for every later read.
        values = self._execute(sql.ROW, (last,)).fetchall()
        row = sound(values[0]) if values else None
        if isinstance(row, tuple):
            facts = row[0]
            event, status, at = facts.event, facts.status, facts.at_epoch_s
            sequence = facts.sequence or sequence
        return _head((adapter, session, sequence, first, last, event, status, started, at, *folded), self._numbered)

    def page(self, query: Query) -> Page:
        """Return one page of rows, each checked against its link; what is damaged is named instead."""
        with self._snapshot() as meta:
            start = query.after
            if query.since_epoch_s is not None:
                start = max(start, self._first_since(query.since_epoch_s, meta.head) - 1)
            # within the snapshot: a prune between asking and reading would leave a silent gap
            if start < meta.floor:
                if self._is_lost(query, start, meta):
                    return meta.page((), meta.floor, complete=False, snapshot_required=True)
                start = meta.floor
            found = None if query.session is None else self._walk(query, query.session, start, meta.head)
            if found is None:
                # bounded: a filter that matches nothing must not scan the whole file in one transaction
                found = self._scan(query, start, max(start, min(start + SCAN_ROWS, meta.head)))
        complete = found.next >= meta.head
        return meta.page(tuple(found.rows), found.next, complete=complete, damaged=found.damaged)

    @contextmanager
    def _snapshot(self) -> Generator["_Meta"]:
        """One read transaction, in which everything is as of one moment."""
        self._execute("BEGIN")
        try:
            meta = dict(self._execute("SELECT key, value FROM meta").fetchall())
            head = self._execute("SELECT max(position) FROM rows").fetchone()[0] or 0
            yield _Meta(meta["epoch"], max(head, meta["floor"]), meta["floor"], meta["pruned"])
        finally:
            if self.connection.in_transaction:  # some errors end it by themselves
                self._execute("ROLLBACK")

    def _is_lost(self, query: Query, start: int, meta: "_Meta") -> bool:
        """Whether a receipt of the session or adapter asked for was dropped after `start`; any, where none is named."""
        names: dict[str, object] = {"start": start, "floor": meta.floor, "pruned": meta.pruned}
        if query.session is not None:
            names |= {"adapter": query.session[0], "session": query.session[1]}
            return bool(self._execute(_LOST_OF_SESSION, names).fetchone()[0])
        if query.adapter_id is not None:
            return bool(self._execute(_LOST_OF_ADAPTER, names | {"adapter": query.adapter_id}).fetchone()[0])
        return True

    def _first_since(self, second: int, head: int) -> int:
        """Return the position before which no receipt is of `second` or a later one."""
        row = self._execute(_SECOND, (second,)).fetchone()
        if row is None:
            return head + 1
        # an entry that is not what was written would hide rows: then all of them are looked at
        return int(row[1]) if checksum(row[0], row[1]) == row[2] else 1

    def _walk(self, query: Query, session: tuple[str, str], start: int, head: int) -> _Found | None:
        """Return rows of one session, found by what each row says of the one before it.

        None where that does not come out: then every row from `start` on has to be looked at.
        """
        last, newest = self._reach(session, start, query.limit)
        walked = self._execute(_WALK, {"start": start, "last": last}).fetchall()
        if (walked[-1][0] if walked else start) != max(last, start):
            return None  # what a mark or a pointer leads to is not there
        found = _Found([], max(start, head if newest else last))
        page = _PageBuilder(query)
        for values in walked:
            row = sound(values)
            # the link says that the row before it is the right one, and so that none is missing between the two
            if isinstance(row, DamagedReceipt) or (row[0].adapter_id, row[0].harness_session_id) != session:
                return None
            if page.is_wanted(row[0]) and not page.take(row[1]):
                return _Found(page.rows, page.rows[-1].position)
        found.rows = page.rows
        return found

    def _reach(self, session: tuple[str, str], start: int, limit: int) -> tuple[int, bool]:
        """Return the position of a receipt of the session some `limit` receipts on, and whether it is the newest."""
        found = self._execute("SELECT stream FROM streams WHERE adapter_id = ? AND harness_session_id = ?", session)
        row = found.fetchone()
        if row is None:
            return start, True
        # one more on each side: the page may begin and end between two marks
        marks = min(limit, _MAX_LIMIT) // MARK_EVERY + 2
        statement = "SELECT position FROM marks WHERE stream = ? AND position > ? ORDER BY position LIMIT ?"
        positions = self._execute(statement, (row[0], start, marks)).fetchall()
        if len(positions) == marks:
            return positions[-1][0], False
        newest = self._execute(_NEWEST, (row[0],)).fetchone()[0]
        return start if newest is None else newest, True

    def _scan(self, query: Query, start: int, last: int) -> _Found:
        """Return the rows after `start` that are asked for; up to `last` every row is looked at."""
        page, damaged = _PageBuilder(query), list[DamagedReceipt]()
        following = start + 1
        for values in self._execute(_SCAN, {"start": start, "last": last}):
            if values[0] != following:
                damaged.append(missing_rows(following, values[0] - 1))
            row = sound(values)
            if isinstance(row, DamagedReceipt):
                damaged.append(row)
            if damaged and not query.past_damage:
                return _Found(page.rows, damaged[0].position - 1, damaged=tuple(damaged[:1]))
            following = values[0] + 1
            if not isinstance(row, DamagedReceipt) and page.is_wanted(row[0]) and not page.take(row[1]):
                return _Found(page.rows, values[0] - 1, damaged=tuple(damaged))
        if following <= last:
            damaged.append(missing_rows(following, last))
            last = last if query.past_damage else following - 1
        return _Found(page.rows, last, damaged=tuple(damaged))


class _PageBuilder:
    """The rows of a page, within the bounds of its query."""

    def __init__(self, query: Query) -> None:
        self.rows: list[StoredReceipt] = []
        self.is_wanted = row_filter(query)
        self._limit, self._room = min(query.limit, _MAX_LIMIT), query.max_bytes

    def take(self, row: StoredReceipt) -> bool:
        """Add a row; return False where it belongs to the next page."""
        self._room -= len(row.receipt)
        # at least one row, however large: an empty page would not lead on
        if self.rows and (self._room < 0 or len(self.rows) >= self._limit):
            return False
        self.rows.append(row)
        return True


class _Meta(Struct, frozen=True):
    """What a page says about the ledger."""

    epoch: str
    head: int
    floor: int
    pruned: int

    def page(
        self,
        stored: tuple[StoredReceipt, ...],
        next_: int,
        *,
        complete: bool,
        snapshot_required: bool = False,
        damaged: tuple[DamagedReceipt, ...] = (),
    ) -> Page:
        return Page(
            epoch=self.epoch,
            stored=stored,
            next=next_,
            head=self.head,
            floor=self.floor,
            complete=complete,
            snapshot_required=snapshot_required,
            damaged=damaged,
        )


def _head(found: Sequence[Any], numbered: bool) -> SessionHead:
    """Return what `_HEADS` selects as a head."""
    adapter, session, sequence, first, last, event, status, started, at, *folded = found
    try:
        last_event, last_status = LifecycleEvent(event), ReceiptStatus(status)
    except ValueError as fault:
        raise apsw.CorruptError(f"row {last}: {fault}") from None
    state = state_from(*folded)
    return SessionHead(
        adapter_id=adapter,
        harness_session_id=session,
        sequence=sequence if numbered else 0,
        receipts=sequence,
        first_position=first,
        last_position=last,
        last_event=last_event,
        last_status=last_status,
        started_at_epoch_s=started,
        last_at_epoch_s=at,
        ended=state.ended,
        open_frames=state.open_frames,
        harness_sequence=state.harness_sequence,
    )
