"""A ledger file as the source of an export: its log, and what it has beside it (docs/ledger.md, "The export").

Read from a copy that nobody writes, so that all of it is of one moment.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from lifebus_broker.exports.lines import HeadLine, RecordLine, StreamLine, TombstoneLine, text_of
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.store import Store

_HEADS: Final = """
SELECT s.adapter_id, s.harness_session_id, s.first_position, s.started_at_epoch_s, b.position, b.sequence, b.at_epoch_s,
  b.event, b.status, b.ended, b.open_frames, b.harness_sequence, b.link
FROM bases b JOIN streams s USING (stream) ORDER BY s.adapter_id, s.harness_session_id"""
_TOMBSTONES: Final = "SELECT digest, key, pruned_at_epoch_s FROM tombstones ORDER BY key"
_STREAMS: Final = "SELECT id, floor, head, floor_link, stream FROM note_streams ORDER BY stream"
_NOTES: Final = "SELECT at_epoch_s, body, link, number FROM notes WHERE id = ? AND number > ? ORDER BY number"


class SqliteExport(SqliteLog):
    """Implements `exports.writer.ExportSource` on a ledger file that is not written meanwhile."""

    def heads(self) -> Iterator[HeadLine]:
        """Return the streams of receipts of which something was pruned."""
        with self._reading():
            for found in self._execute(_HEADS):
                yield _head(*found)

    def tombstones(self) -> Iterator[TombstoneLine]:
        """Return the keys whose receipts were pruned."""
        with self._reading():
            for digest, key, pruned in self._execute(_TOMBSTONES):
                yield TombstoneLine(digest=digest.hex(), key=key.hex(), pruned_at_epoch_s=pruned)

    def journal(self) -> Iterator[StreamLine | RecordLine]:
        """Return the streams of the journal, each before its kept notes."""
        with self._reading():
            for stream, floor, head, floor_link, name in self._execute(_STREAMS).fetchall():
                yield StreamLine(floor=floor, head=head, link=floor_link.hex(), stream=name)
                for at, body, link, number in self._execute(_NOTES, (stream, floor)):
                    yield RecordLine(at_epoch_s=at, body=text_of(body), link=link.hex(), number=number, stream=name)


def _head(adapter: str, session: str, first: int, since: int, position: int, *row: Any) -> HeadLine:
    """Return what `_HEADS` selects as a line."""
    sequence, at, event, status, ended, frames, harness_sequence, link = row
    return HeadLine(
        adapter_id=adapter,
        at_epoch_s=at,
        ended=bool(ended),
        event=event,
        first_position=first,
        harness_sequence=harness_sequence,
        link=link.hex(),
        open_frames=() if frames is None else msgspec.json.decode(frames, type=tuple[str, ...]),
        position=position,
        sequence=sequence,
        session=session,
        started_at_epoch_s=since,
        status=status,
    )


def finish_pruning(path: Path) -> None:
    """Bring a copy up to date with this program's format, and drop what lies below its floor; blocks.

    Raises:
        apsw.Error: it cannot be read or written.
        InternalError: it is no ledger that this program knows.
    """
    store = Store.open(path, epoch="")
    with closing(store):
        while store.prune_step():
            continue
