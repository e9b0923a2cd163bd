"""Decide what one transaction writes into the journal: number the records of each stream.

Nothing here changes what is committed: a batch keeps the changed tips to itself until its transaction has succeeded.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from lifebus_broker.ledger.refusals import OVERSIZED, unwritable_record
from lifebus_broker.ports import NewRecord, Record, RecordStream, Refusal
from lifebus_broker.state.stream_digests import NO_LINK, link_after

MAX_RECORD_BYTES: Final = 1024 * 1024
"""Most bytes of one record's body."""

MAX_QUEUED_RECORDS: Final = 4096
"""Most records that wait for a commit; one more append is refused as busy."""

MAX_QUEUED_RECORD_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of bodies that wait for a commit."""

RECORD_COLUMNS: Final = 5
"""How many values a drafted record has in `RecordBatch.values`."""

_MAX_NAME_BYTES: Final = 1024
_TIME_BYTES: Final = 8


class StreamTip(Struct, frozen=True):
    """Where a stream of records stands; `id` is its number in the file.

    `size` is the bytes of the bodies it keeps.  `link` is that of its newest record, `floor_link` that of its newest
    dropped one, which the first kept one continues.
    """

    id: int
    head: int = 0
    floor: int = 0
    size: int = 0
    link: bytes = NO_LINK
    floor_link: bytes = NO_LINK

    def as_stream(self, name: str) -> RecordStream:
        """Return the tip as readers of the journal see it."""
        return RecordStream(name, self.head, self.floor, self.size)


def record_link(previous: bytes, at_epoch_s: int, body: bytes) -> bytes:
    """Return the link of a record: sha256(previous ‖ its second in 8 bytes ‖ body)."""
    return link_after(previous + at_epoch_s.to_bytes(_TIME_BYTES, signed=True), body)


def check_records(records: Sequence[NewRecord]) -> Refusal | None:
    """Return why these records can never be written in one append, None when they can."""
    if len(records) > MAX_QUEUED_RECORDS or sum(len(record.body) for record in records) > MAX_QUEUED_RECORD_BYTES:
        return OVERSIZED
    for record in records:
        try:
            # a lone surrogate has no UTF-8 form
            size = len(record.stream.encode())
        except UnicodeError:
            size = 0
        if not 0 < size <= _MAX_NAME_BYTES:
            return unwritable_record("the name of its stream is empty, too long or no text")
        if len(record.body) > MAX_RECORD_BYTES:
            return unwritable_record(f"its body is larger than {MAX_RECORD_BYTES} bytes")
    return None


class RecordBatch:
    """The records of one transaction, built append by append; `tip_of` returns the committed tip of a stream.

    `values` is the flat list of bindings of the rows: id, number, at_epoch_s, body, link.
    """

    def __init__(self, tip_of: Callable[[str], StreamTip]) -> None:
        self.values: list[object] = []
        self.tips: dict[str, StreamTip] = {}
        self.bytes = 0
        self._tip_of = tip_of

    def add(self, records: Sequence[NewRecord], at_epoch_s: int) -> list[Record]:
        """Draft one append; the records hold once the transaction is committed."""
        return [self._assign(record.stream, record.body, at_epoch_s) for record in records]

    def _assign(self, stream: str, body: bytes, at_epoch_s: int) -> Record:
        tip = self.tips.get(stream) or self._tip_of(stream)
        number = tip.head + 1
        # the link covers the time as well: a record cannot be moved in time unnoticed
        link = record_link(tip.link, at_epoch_s, body)
        self.tips[stream] = StreamTip(tip.id, number, tip.floor, tip.size + len(body), link, tip.floor_link)
        self.values += (tip.id, number, at_epoch_s, body, link)
        self.bytes += len(body)
        return Record(stream, number, at_epoch_s, body)
