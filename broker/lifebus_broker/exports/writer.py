"""Write a ledger down as text, line by line."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Protocol

from lifebus_broker.exports.lines import (
    Counts,
    End,
    Header,
    HeadLine,
    RecordLine,
    StreamLine,
    TombstoneLine,
    encode,
    encode_base,
)
from lifebus_broker.ledger.log import LogSource, encode_line


class ExportSource(LogSource, Protocol):
    """A log, and what a ledger has beside it.  Every method blocks: run it in a thread."""

    @property
    def epoch(self) -> str:
        """The history that it is of."""
        ...

    def heads(self) -> Iterator[HeadLine]:
        """Return the streams of receipts of which something was pruned, by adapter and session."""
        ...

    def tombstones(self) -> Iterator[TombstoneLine]:
        """Return the keys whose receipts were pruned, by key."""
        ...

    def journal(self) -> Iterator[StreamLine | RecordLine]:
        """Return the streams of the journal by name, each before its kept notes."""
        ...


def write_export(source: ExportSource, reducer: int, write: Callable[[bytes], object]) -> End:
    """Write the whole export, and return its last line; `reducer` is the version of the reducers that made the base."""
    tally = _Tally(write)
    tally.put(encode(Header(epoch=source.epoch, floor=source.floor, head=source.head, reducer=reducer)))
    base = source.base()
    if base is not None:
        tally.put(encode_base(base), "base")
    for head in source.heads():
        tally.put(encode(head), "head")
    for tombstone in source.tombstones():
        tally.put(encode(tombstone), "tombstone")
    for line in source.lines(source.floor, source.head):
        tally.put(encode_line(line), "log")
    for item in source.journal():
        tally.put(encode(item), "stream" if isinstance(item, StreamLine) else "note")
    return tally.end()


class _Tally:
    """Writes lines, counts them and hashes them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._hash = sha256()
        self._counts = dict.fromkeys(Counts.__struct_fields__, 0)

    def put(self, data: bytes, kind: str | None = None) -> None:
        """Write a line."""
        self._write(data)
        self._hash.update(data)
        if kind is not None:
            self._counts[kind] += 1

    def end(self) -> End:
        """Write the last line."""
        end = End(counts=Counts(**self._counts), sha256=self._hash.hexdigest())
        self._write(encode(end))
        return end
