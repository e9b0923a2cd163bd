"""The records of one stream of the journal, each checked against its link as it is read (docs/ledger.md D6)."""

from collections.abc import Iterator
from typing import Final

import apsw

from lifebus_broker.ledger.log import LinkedRecord
from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ledger.sqlite.schema import Execute, executor, snapshot
from lifebus_broker.ports import Record

_PIECE: Final = 1024
_PIECE_BYTES: Final = 4 * 1024 * 1024
_TIP: Final = "SELECT stream, floor, floor_link, head, link FROM note_streams WHERE id = ?"
_RECORDS: Final = "SELECT number, at_epoch_s, body, link FROM notes WHERE id = ? AND number > ? ORDER BY number LIMIT ?"
_STREAMS: Final = "SELECT id, stream FROM note_streams WHERE stream >= ? ORDER BY stream"


class BrokenChain(Exception):
    """A record of a stream does not follow from those before it; the text names it and says what is wrong."""


class RecordChain:
    """The kept records of the stream with this id, in order.  `through` is the number of the last one that followed.

    What is appended meanwhile may come as well, and what is dropped meanwhile is left out.
    """

    def __init__(self, connection: apsw.Connection, stream: int) -> None:
        self._connection, self._stream = connection, stream
        self.through, self._link = -1, b""

    def __iter__(self) -> Iterator[LinkedRecord]:
        """Yield each record once it is known that its link follows.

        Raises:
            BrokenChain: a record is missing, was changed or put in, or the chain does not end as its stream says.
        """
        more = True
        while more:
            # One moment a piece: between two of them the write-ahead log can be reset.
            with snapshot(self._connection) as execute:
                piece, more = self._piece(execute)
            yield from piece

    def _piece(self, execute: Execute) -> tuple[list[LinkedRecord], bool]:
        """Return some records as of one moment, and whether more may follow."""
        found = execute(_TIP, (self._stream,)).fetchone()
        if found is None:  # it was removed meanwhile, which only one without records is
            return [], False
        name, floor, floor_link, head, link = found
        # Where the stream begins, or behind what was dropped meanwhile.
        if self.through < floor:
            self.through, self._link = floor, floor_link
        piece: list[LinkedRecord] = []
        size = 0
        for number, at, body, stored in executor(self._connection)(_RECORDS, (self._stream, self.through, _PIECE)):
            if number != self.through + 1:
                raise BrokenChain(f"note {self.through + 1}: is missing")
            if record_link(self._link, at, body) != stored:
                raise BrokenChain(f"note {number}: link (hash chain) does not match")
            self.through, self._link = number, stored
            piece.append(LinkedRecord(Record(name, number, at, body), stored))
            size += len(body)
            if size > _PIECE_BYTES:
                return piece, True
        if len(piece) == _PIECE:
            return piece, True
        if (self.through, self._link) != (head, link):
            raise BrokenChain(f"note {self.through + 1}: the chain does not end as its stream says")
        return piece, False


def streams_with_ids(connection: apsw.Connection, prefix: str = "") -> list[tuple[int, str]]:
    """Return the id and name of each stream whose name begins with `prefix`, by name."""
    with snapshot(connection) as execute:
        return [(number, name) for number, name in execute(_STREAMS, (prefix,)) if name.startswith(prefix)]
