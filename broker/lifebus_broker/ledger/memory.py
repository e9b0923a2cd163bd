"""A ledger without a disk: it orders and deduplicates while the process lives, and promises nothing more."""

import asyncio
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import anyio.lowlevel
from msgspec import Struct

from lifebus_broker.ledger.dropped import Dropped
from lifebus_broker.ledger.log import LogLine
from lifebus_broker.ledger.memory_journal import MemoryJournal
from lifebus_broker.ledger.refusals import CLOSED, PRUNED, conflicting, unrecordable
from lifebus_broker.ports import EMITTER, AppendResult, NewReceipt, Page, Query, Record, Refusal, StoredReceipt
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState, head_of
from lifebus_broker.state.stream_digests import NO_LINK, StreamKey, link_after
from lifebus_contract import Receipt, encode_json
from lifebus_contract.views import LedgerStatus, SessionHead

MAX_ROWS: Final = 100_000
"""Rows that are kept for readers; older ones fall below the floor."""

MAX_KEYS: Final = 200_000
"""Idempotency keys that are remembered; the oldest is forgotten first."""

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of receipts that are kept for readers."""


class _Kept(Struct, frozen=True):
    """A row that readers may still ask for, and what its line in the log says beside it."""

    row: StoredReceipt
    receipt: Receipt
    digest: bytes | None
    link: bytes

    def as_line(self) -> LogLine:
        digest = None if self.digest is None else self.digest.hex()
        return LogLine(self.row.position, digest, self.link.hex(), self.row.receipt)


class MemoryLedger:
    """Implements `ports.Ledger` in memory: `durable` is false, every `sequence` is null (docs/contract.md 6.3).

    It is a `log.LogSource` of what it keeps as well.  A floor that moved because there was no more room has no base.

    Duplicates are recognised for the life of the process, within the newest `max_keys` keys.  `committed` is
    called on the event loop with the new rows of an append, after its `done`.
    """

    def __init__(
        self,
        *,
        entropy: Callable[[int], bytes] = os.urandom,
        committed: Callable[[list[StoredReceipt]], None] | None = None,
        max_rows: int = MAX_ROWS,
        max_keys: int = MAX_KEYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._epoch = entropy(16).hex()
        self._committed = committed
        self._rows: deque[_Kept] = deque()
        self._links: OrderedDict[StreamKey, bytes] = OrderedDict()
        self._base: bytes | None = None
        self._keys: OrderedDict[tuple[str, str, str], tuple[bytes, int]] = OrderedDict()
        self._stories: OrderedDict[tuple[str, str], SessionState] = OrderedDict()
        self._max_rows, self._max_keys = max_rows, max_keys
        self._head = self._floor = self._bytes = 0
        self._dropped = Dropped(max_rows)
        self._closed = False
        self._journal = MemoryJournal(clock)

    @property
    def epoch(self) -> str:
        """The random id of this process's history, as 32 hex digits."""
        return self._epoch

    @property
    def durable(self) -> bool:
        """False: nothing survives the process."""
        return False

    @property
    def head(self) -> int:
        """The position of the newest row, 0 when there is none."""
        return self._head

    @property
    def floor(self) -> int:
        """The position of the newest dropped row, 0 while all are kept."""
        return self._floor

    @property
    def journal(self) -> MemoryJournal:
        """The side log, which lives as long as the process."""
        return self._journal

    def append(self, entries: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None]) -> Refusal | None:
        """Record the entries at once; `done` is called in the loop's next turn (ports.Ledger.append)."""
        if self._closed:
            return CLOSED
        results = [self._record(entry) for entry in entries]
        self._trim()
        asyncio.get_running_loop().call_soon(self._deliver, results, done)
        return None

    async def find(self, scopes: Sequence[tuple[str, str, str]]) -> list[tuple[bytes, StoredReceipt | None] | None]:
        """Return the stored digest and row of each key (ports.Ledger.find)."""
        known = [self._keys.get(scope) for scope in scopes]
        return [None if found is None else (found[0], self._row_at(found[1])) for found in known]

    async def read(self, query: Query) -> Page:
        """Return rows that are still kept (ports.Ledger.read)."""
        if query.after < self._floor and self._dropped.concerns(query):
            return self._page((), self._floor, complete=False, snapshot_required=True)
        rows: list[StoredReceipt] = []
        size = 0
        for kept in islice(self._rows, max(query.after - self._floor, 0), None):
            row = kept.row
            if not _matches(query, row, kept.receipt):
                continue
            size += len(row.receipt)
            if rows and (size > query.max_bytes or len(rows) >= query.limit):
                return self._page(tuple(rows), rows[-1].position, complete=False)
            rows.append(row)
        return self._page(tuple(rows), max(query.after, self._head), complete=True)

    async def sessions(self, session: tuple[str, str] | None = None) -> list[SessionHead]:
        """Return the heads of all sessions, newest last, or of one."""
        found = self._stories.values() if session is None else [self._stories.get(session)]
        heads = [None if story is None else head_of(story) for story in found]
        return [head for head in heads if head is not None]

    async def verify(self, *, tail: int | None = None) -> list[str]:  # noqa: ARG002  there is no chain to check
        """Check that positions have no holes; memory has no chain and no stored fold."""
        positions = [kept.row.position for kept in self._rows]
        expected = list(range(self._floor + 1, self._head + 1))
        return [] if positions == expected else ["positions are not contiguous"]

    async def prune(self, keep_after: int, base: bytes) -> int:
        """Drop rows up to a position; their keys stay (ports.Ledger.prune)."""
        if min(keep_after, self._head) > self._floor:
            while self._rows and self._rows[0].row.position <= keep_after:
                self._drop_oldest()
            self._base = base
        return self._floor

    def base(self) -> bytes | None:
        """Return what the last `prune` brought, None where rows were dropped since (log.LogSource.base)."""
        return self._base

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        """Return the lines of the rows that are kept now (log.LogSource.lines)."""
        for kept in self._rows.copy():
            if after < kept.row.position <= through:
                yield kept.as_line()

    def notes(self, prefix: str) -> Iterator[Record]:
        """Return the notes that are kept now (log.LogSource.notes)."""
        return self._journal.notes(prefix)

    def status(self) -> LedgerStatus:
        """Return how the ledger is."""
        return LedgerStatus(
            backend="memory",
            durability="none",
            epoch=self._epoch,
            head=self._head,
            floor=self._floor,
            writable=not self._closed,
            queued=0,
            size_bytes=self._bytes,
            library="memory",
        )

    async def aclose(self) -> None:
        """Answer what was taken, and refuse later appends."""
        self._closed = True
        self._journal.close()
        await anyio.lowlevel.checkpoint()

    def _record(self, entry: NewReceipt) -> AppendResult:
        """Record one entry, or find what its key stands for."""
        receipt = entry.receipt
        scope = None
        if receipt.idempotency_key is not None and entry.digest is not None:
            scope = (receipt.client_id, receipt.adapter_id, receipt.idempotency_key)
            known = self._keys.get(scope)
            if known is not None:
                return self._known(scope[2], known, entry.digest)
        try:
            text = encode_json(receipt)
        except (UnicodeError, ValueError) as fault:
            return unrecordable(fault)
        self._head += 1
        if scope is not None and entry.digest is not None:
            self._keys[scope] = (entry.digest, self._head)
            emitter = receipt.telemetry_summary.get(EMITTER)
            if isinstance(emitter, str):
                self._keys.setdefault((emitter, *scope[1:]), (entry.digest, self._head))
        return AppendResult(stored=self._keep(receipt, text, entry.digest if scope is not None else None))

    def _known(self, key: str, known: tuple[bytes, int], digest: bytes) -> AppendResult:
        if known[0] != digest:
            return conflicting(key)
        row = self._row_at(known[1])
        return PRUNED if row is None else AppendResult(stored=row, replayed=True)

    def _keep(self, receipt: Receipt, text: bytes, digest: bytes | None) -> StoredReceipt:
        row = StoredReceipt(
            position=self._head,
            adapter_id=receipt.adapter_id,
            harness_session_id=receipt.harness_session_id,
            sequence=None,
            receipt=text,
        )
        stream = (receipt.adapter_id, receipt.harness_session_id)
        link = self._links[stream] = link_after(self._links.pop(stream, NO_LINK), text)
        self._rows.append(_Kept(row, receipt, digest, link))
        self._bytes += len(text)
        if receipt.harness_session_id is not None:
            key = (receipt.adapter_id, receipt.harness_session_id)
            story = self._stories.pop(key, None) or SessionState(adapter_id=key[0], harness_session_id=key[1])
            apply_receipt(story, self._head, receipt)
            self._stories[key] = story
        return row

    def _trim(self) -> None:
        """Keep every store within its bound, the oldest going first."""
        while len(self._rows) > self._max_rows or self._bytes > MAX_BYTES:
            self._drop_oldest()
        while len(self._keys) > self._max_keys:
            self._keys.popitem(last=False)
        while len(self._stories) > self._max_rows:
            self._stories.popitem(last=False)
        while len(self._links) > self._max_rows:
            self._links.popitem(last=False)

    def _drop_oldest(self) -> None:
        row = self._rows.popleft().row
        self._floor, self._base = row.position, None
        self._dropped.note(row)
        self._bytes -= len(row.receipt)

    def _row_at(self, position: int) -> StoredReceipt | None:
        return self._rows[position - self._floor - 1].row if position > self._floor else None

    def _deliver(self, results: list[AppendResult], done: Callable[[list[AppendResult]], None]) -> None:
        """Acknowledge, then publish (docs/ledger.md D1)."""
        done(results)
        new = [result.stored for result in results if result.stored is not None and not result.replayed]
        if new and self._committed is not None:
            self._committed(new)

    def _page(
        self, rows: tuple[StoredReceipt, ...], next_: int, *, complete: bool, snapshot_required: bool = False
    ) -> Page:
        return Page(
            epoch=self._epoch,
            rows=rows,
            next=next_,
            head=self._head,
            floor=self._floor,
            complete=complete,
            snapshot_required=snapshot_required,
        )


def _matches(query: Query, row: StoredReceipt, receipt: Receipt) -> bool:
    return (
        (query.adapter_id is None or row.adapter_id == query.adapter_id)
        and (query.session is None or (row.adapter_id, row.harness_session_id) == query.session)
        and (query.event is None or receipt.event is query.event)
        and (query.status is None or receipt.status is query.status)
        and (query.since_epoch_s is None or receipt.at_epoch_s >= query.since_epoch_s)
    )
