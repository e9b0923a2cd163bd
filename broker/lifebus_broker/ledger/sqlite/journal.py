"""The journal of the durable ledger: records through the same writer thread, acknowledged after the commit."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import apsw

from lifebus_broker.ledger.lookups import Lookups
from lifebus_broker.ledger.record_batch import MAX_QUEUED_RECORD_BYTES, MAX_QUEUED_RECORDS, check_records
from lifebus_broker.ledger.refusals import BUSY
from lifebus_broker.ledger.sqlite.records import read_all, read_heads, read_kept_streams, read_page, read_streams
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.writing.writer import PendingRecords
from lifebus_broker.ports import NewRecord, Record, RecordPage, RecordStream, Refusal

_NOTE_WEIGHT = 64
"""What a record weighs beside its body, in bytes of a transaction."""


class SqliteJournal:
    """Implements `ports.Journal` for its ledger, which lends what it does itself.

    `refusal` returns why nothing is taken now, `submit` queues for the writer thread, `write` has it do something
    between two transactions, `query` runs something on the reading connection.  `queued` counts waiting records: they
    have bounds of their own, so that a flood of them keeps no receipt out.
    """

    def __init__(
        self,
        *,
        refusal: Callable[[], Refusal | None],
        submit: Callable[[PendingRecords], None],
        write: Callable[[Callable[[Store], Any]], Awaitable[Any]],
        query: Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]],
        clock: Callable[[], float],
    ) -> None:
        self._refusal, self._submit, self._write, self._query, self._clock = refusal, submit, write, query, clock
        self._heads: Lookups[str, int] = Lookups(lambda streams: query(partial(read_heads, streams=streams)))
        self.queued = self._queued_bytes = 0

    def append(self, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        """Queue one atomic append of records (ports.Journal.append)."""
        refusal = self._refusal() or check_records(records)
        if refusal is not None:
            return refusal
        count, size = len(records), sum(len(record.body) for record in records)
        # bounds of its own: a flood of records must not keep receipts out
        if self.queued + count > MAX_QUEUED_RECORDS or self._queued_bytes + size > MAX_QUEUED_RECORD_BYTES:
            return BUSY
        self.queued += count
        self._queued_bytes += size
        settle = partial(self._settle, count, size, done)
        self._submit(PendingRecords(records, int(self._clock()), settle, size + count * _NOTE_WEIGHT))
        return None

    async def read(self, stream: str, after: int = 0, limit: int = 256, max_bytes: int = 262_144) -> RecordPage:
        """Return committed records of a stream (ports.Journal.read)."""
        page: RecordPage = await self._query(lambda connection: read_page(connection, stream, after, limit, max_bytes))
        return page

    async def read_all(
        self, prefix: str, after: tuple[str, int] = ("", 0), limit: int = 4_096, max_bytes: int = 1_048_576
    ) -> list[Record]:
        """Return committed records of many streams (ports.Journal.read_all)."""
        ask = partial(read_all, prefix=prefix, after=after, limit=limit, max_bytes=max_bytes)
        records: list[Record] = await self._query(ask)
        return records

    async def heads(self, streams: Sequence[str]) -> list[int]:
        """Return the newest number of each stream (ports.Journal.heads)."""
        return await self._heads.find(streams)

    async def streams(self, prefix: str = "", *, kept: bool = False) -> list[RecordStream]:
        """Return the streams whose name begins with `prefix` (ports.Journal.streams)."""
        read = read_kept_streams if kept else read_streams
        streams: list[RecordStream] = await self._query(partial(read, prefix=prefix))
        return streams

    async def drop(self, stream: str, through: int) -> int:
        """Drop records piece by piece, each in a transaction of its own (ports.Journal.drop)."""
        while True:
            # each piece waits its turn in the writer's queue: appends go on between two of them
            floor, more = await self._write(partial(_drop, stream, through))
            if not more:
                return int(floor)

    async def drop_all(self, throughs: Mapping[str, int], known: tuple[str, int] | None = None) -> None:
        """Drop records of many streams, a bounded number in each transaction (ports.Journal.drop_all)."""
        left = dict(throughs)
        while left:
            left = await self._write(partial(_drop_many, left))
        while known is not None and await self._write(partial(_remove_streams, *known)):
            pass

    def _settle(
        self, count: int, size: int, done: Callable[[list[Record] | Refusal], None], result: list[Record] | Refusal
    ) -> None:
        self.queued -= count
        self._queued_bytes -= size
        done(result)


def _drop(stream: str, through: int, store: Store) -> tuple[int, bool]:
    left = store.drop_many({stream: through})
    return store.records.tip_of(stream).floor, bool(left)


def _remove_streams(prefix: str, known: int, store: Store) -> bool:
    return store.remove_streams(prefix, known)


def _drop_many(throughs: Mapping[str, int], store: Store) -> dict[str, int]:
    return store.drop_many(throughs)
