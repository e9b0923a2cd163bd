"""The journal's tables: how records are written, dropped and read."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import apsw

from lifebus_broker.ledger.record_batch import RECORD_COLUMNS, RecordBatch, StreamTip
from lifebus_broker.ledger.sqlite.checksums import checksum
from lifebus_broker.ledger.sqlite.schema import Execute, snapshot
from lifebus_broker.ledger.sqlite.statements import insert_all, select_all
from lifebus_broker.ports import Record, RecordPage, RecordStream
from lifebus_broker.state.stream_digests import link_after

DROP_STEP: Final = 1024
"""Most records that one transaction drops, so that appends need not wait long."""

_MAX_TIPS: Final = 32_768
_MAX_LIMIT: Final = 4096
_NEW_NOTE: Final = "INSERT INTO notes VALUES "
_TIPS: Final = "INSERT OR REPLACE INTO note_streams VALUES "
_TIP: Final = "SELECT id, head, floor, bytes, link, floor_link FROM note_streams WHERE stream = ?"
_HEADS: Final = "SELECT stream, head FROM note_streams WHERE stream IN "
_AFTER: Final = "SELECT number, at_epoch_s, body FROM notes WHERE id = ? AND number > ? ORDER BY number LIMIT ?"
_DOOMED: Final = "SELECT coalesce(sum(length(body)), 0) FROM notes WHERE id = ? AND number > ? AND number <= ?"
_LINK: Final = "SELECT link FROM notes WHERE id = ? AND number = ?"
_ALL: Final = (
    "SELECT stream, number, at_epoch_s, body FROM note_streams AS s CROSS JOIN notes AS n ON n.id = s.id"
    " WHERE s.stream >= ?1 AND s.head > s.floor AND n.number > iif(s.stream = ?2, ?3, 0)"
    " ORDER BY s.stream, n.number"
)
_DROP: Final = "DELETE FROM notes WHERE id = ? AND number > ? AND number <= ?"
_EMPTY: Final = (
    "SELECT id, stream, head, link FROM note_streams WHERE stream >= ?1 AND stream < ?1 || char(1114111)"
    " AND head = floor ORDER BY id DESC LIMIT ?2 OFFSET ?3"
)
_KEPT: Final = (
    "SELECT stream, head, floor, bytes FROM note_streams AS s JOIN notes AS n ON n.id = s.id AND n.number = s.head"
    " WHERE s.stream >= ?1 AND s.stream < ?1 || char(1114111) AND s.bytes > 0 ORDER BY n.at_epoch_s DESC, n.rowid DESC"
)
_REMOVE: Final = "DELETE FROM note_streams WHERE id = ?"

REMOVED: Final = "removed"
"""The stream that stands for all that were removed: its numbers are the sums of theirs, its link is over theirs."""


class RecordTable:
    """The writing half, inside the transactions of its store.

    `written` and `dropped` count the committed records of all streams together.
    """

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._tips: dict[str, StreamTip] = {}
        self.written, self.dropped = execute(
            "SELECT coalesce(sum(head), 0), coalesce(sum(floor), 0) FROM note_streams"
        ).fetchone()
        self._next_id: int = (execute("SELECT max(id) FROM note_streams").fetchone()[0] or 0) + 1

    def tip_of(self, stream: str) -> StreamTip:
        """Return the committed tip of a stream; a new one gets its id."""
        tip = self._tips.get(stream)
        if tip is None:
            found = self._execute(_TIP, (stream,)).fetchall()
            tip = StreamTip(*found[0]) if found else StreamTip(self._next_id)
            self._next_id += not found
            self._tips[stream] = tip
        return tip

    def write(self, batch: RecordBatch) -> None:
        """Insert what was drafted; `accept` it after the commit."""
        insert_all(self._execute, _NEW_NOTE, RECORD_COLUMNS, batch.values)
        self._set_tips(batch.tips)

    def drop(self, stream: str, through: int) -> StreamTip:
        """Drop up to `DROP_STEP` of the oldest records up to a number; return the tip to accept after the commit."""
        tip = self.tip_of(stream)
        # bounded, since the writer does nothing else meanwhile
        last = min(through, tip.head, tip.floor + DROP_STEP)
        if last <= tip.floor:
            return tip
        span = (tip.id, tip.floor, last)
        freed: int = self._execute(_DOOMED, span).fetchone()[0]
        floor_link: bytes = self._execute(_LINK, (tip.id, last)).fetchone()[0]
        self._execute(_DROP, span)
        after = StreamTip(tip.id, tip.head, last, tip.size - freed, tip.link, floor_link)
        self._set_tips({stream: after})
        return after

    def drop_all(self, throughs: Mapping[str, int]) -> dict[str, StreamTip]:
        """Drop a piece of many streams, at most about `DROP_STEP` records; return the tips to accept after the commit.

        Streams that are not among them had no turn.
        """
        tips: dict[str, StreamTip] = {}
        left = DROP_STEP
        for stream, through in throughs.items():
            if left <= 0:
                break
            before = self.tip_of(stream)
            tips[stream] = self.drop(stream, through)
            left -= max(1, tips[stream].floor - before.floor)
        return tips

    def remove_empty(self, prefix: str, known: int) -> list[str]:
        """Remove up to `DROP_STEP` streams without records, but for the newest `known`; return their names.

        `forget` them after the commit.
        """
        found = self._execute(_EMPTY, (prefix, DROP_STEP, known)).fetchall()
        if not found:
            return []
        tip = self.tip_of(REMOVED)
        for number, name, head, link in found:
            # What the file has had altogether stays known: the watermark counts it, and nothing goes unnoticed.
            over = link_after(tip.link + link, name.encode())
            tip = StreamTip(tip.id, tip.head + head, tip.floor + head, 0, over, over)
            self._execute(_REMOVE, (number,))
        self._set_tips({REMOVED: tip})
        return [name for _, name, _, _ in found]

    def forget(self, streams: Sequence[str]) -> bool:
        """The transaction is committed: these streams are no more; return whether there is one."""
        for stream in (*streams, REMOVED):
            self._tips.pop(stream, None)
        return bool(streams)

    def accept(self, tips: dict[str, StreamTip]) -> None:
        """The transaction is committed: these are the tips now."""
        for stream, tip in tips.items():
            before = self._tips.get(stream) or tip
            self.written += tip.head - before.head
            self.dropped += tip.floor - before.floor
        self._tips.update(tips)
        # bounded: tips that go are read from the table again
        for stream in list(self._tips)[: max(len(self._tips) - _MAX_TIPS, 0)]:
            del self._tips[stream]

    def _set_tips(self, tips: dict[str, StreamTip]) -> None:
        values = [(tip.id, name, tip.head, tip.floor, tip.size, tip.link, tip.floor_link) for name, tip in tips.items()]
        insert_all(self._execute, _TIPS, 8, [*chain.from_iterable((*each, checksum(*each)) for each in values)])


def read_page(connection: apsw.Connection, stream: str, after: int, limit: int, max_bytes: int) -> RecordPage:
    """Return records of a stream as of one moment (ports.Journal.read_notes)."""
    with snapshot(connection) as execute:
        found = execute(_TIP, (stream,)).fetchone()
        if found is None:
            return RecordPage(records=(), head=0, floor=0, complete=True)
        tip = StreamTip(*found)
        records: list[Record] = []
        size = 0
        for number, at, body in execute(_AFTER, (tip.id, after, max(1, min(limit, _MAX_LIMIT)))):
            size += len(body)
            if records and size > max_bytes:
                break
            records.append(Record(stream, number, at, body))
    last = records[-1].number if records else max(after, tip.head)
    return RecordPage(records=tuple(records), head=tip.head, floor=tip.floor, complete=last >= tip.head)


def read_all(
    connection: apsw.Connection, prefix: str, after: tuple[str, int], limit: int, max_bytes: int
) -> list[Record]:
    """Return records of many streams as of one moment (ports.Journal.read_all)."""
    records: list[Record] = []
    with snapshot(connection) as execute:
        for found in execute(_ALL, (max(prefix, after[0]), *after)):
            max_bytes -= len(found[3])
            is_full = bool(records) and (max_bytes < 0 or len(records) >= limit)
            if is_full or not found[0].startswith(prefix):
                break
            records.append(Record(*found))
    return records


def read_heads(connection: apsw.Connection, streams: Sequence[str]) -> list[int]:
    """Return the newest number of each stream (ports.Journal.heads)."""
    with snapshot(connection) as execute:
        found = dict(select_all(execute, _HEADS, streams))
    return [found.get(stream, 0) for stream in streams]


def read_streams(connection: apsw.Connection, prefix: str) -> list[RecordStream]:
    """Return the streams whose name begins with `prefix` (ports.Journal.note_streams)."""
    streams: list[RecordStream] = []
    statement = "SELECT stream, head, floor, bytes FROM note_streams WHERE stream >= ? ORDER BY stream"
    with snapshot(connection) as execute:
        for found in execute(statement, (prefix,)):
            if not found[0].startswith(prefix):
                break
            streams.append(RecordStream(*found))
    return streams


def read_kept_streams(connection: apsw.Connection, prefix: str) -> list[RecordStream]:
    """Return the streams that keep bytes, the one written last first (ports.Journal.streams)."""
    with snapshot(connection) as execute:
        return [RecordStream(*found) for found in execute(_KEPT, (prefix,))]
