"""The named consumers of a broker: created, found, reset, evicted, and read back from the journal.

See docs/consuming.md.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from lifebus_broker.consumers.consumer import Consumer
from lifebus_broker.consumers.journal import dead_stream, note_stream
from lifebus_broker.ports import Ledger, Query, Record, StoredReceipt
from lifebus_broker.state.consumer_state import CursorState, fold_cursor
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, StateConflict
from lifebus_contract.consumers import ConsumerSettings, DeadLetter

MAX_CURSORS: Final = 256
"""Most named consumers of a broker."""

_LETTERS: Final = msgspec.msgpack.Decoder(DeadLetter)


class ConsumerTable:
    """The named consumers, by name.  `now` is the monotonic clock; `tasks` owns their writing."""

    def __init__(self, ledger: Ledger, tasks: TaskGroup, now: Callable[[], float]) -> None:
        self._ledger, self._tasks, self._now = ledger, tasks, now
        self._cursors: dict[str, Consumer] = {}
        self._making: set[str] = set()

    async def load(self) -> None:
        """Read every consumer from the journal.

        Raises:
            LifebusError: the journal cannot be read, or says what this program does not know.
        """
        prefix = note_stream("")
        for stream in await self._ledger.journal.streams(prefix):
            notes = await self._notes(stream.stream) if stream.head > stream.floor else []
            name = stream.stream.removeprefix(prefix)
            try:
                state = fold_cursor(notes)
            except msgspec.DecodeError as fault:
                detail = f"the notes of cursor `{name[:64]}` cannot be read: {fault}; did a newer lifebus write it?"
                raise InternalError(detail, code="ledger_damaged") from fault
            if state is not None:
                self._cursors[name] = self._cursor(name, state, len(notes))

    def all(self) -> list[Consumer]:
        """Return the consumers by name."""
        return [self._cursors[name] for name in sorted(self._cursors)]

    def find(self, name: str) -> Consumer | None:
        """Return the consumer of this name, None if there is none."""
        return self._cursors.get(name)

    def require(self, name: str) -> Consumer:
        """Return the consumer of this name.

        Raises:
            InvalidRequest: there is none.
        """
        cursor = self._cursors.get(name)
        if cursor is None:
            raise InvalidRequest(f"there is no cursor `{name[:64]}`; `lifebus clients` lists them", code="no_cursor")
        return cursor

    async def open(
        self, name: str, settings: ConsumerSettings, *, client_id: str, epoch: str | None, after: int | None
    ) -> Consumer:
        """Return the consumer of this name; a new one starts after a position, or at the head without one.

        Raises:
            StateConflict: it has another filter.
            BrokerBusy: there are too many consumers, or this one is being made right now.
            LifebusError: it cannot be made durable now.
        """
        cursor = self._cursors.get(name)
        if cursor is None:
            position = self._ledger.head if after is None else min(after, self._ledger.head)
            state = CursorState(
                settings=settings, client_id=client_id, epoch=epoch or self._ledger.epoch, scanned=position
            )
            return await self._make(name, state)
        if cursor.deliveries.settings.filter != settings.filter:
            raise StateConflict(
                f"cursor `{name[:64]}` exists with another filter; use another name, or evict it", code="other_filter"
            )
        await cursor.tune(settings)
        return cursor

    async def position_at(self, epoch_s: int) -> int:
        """Return the position before the first receipt as late as `epoch_s`."""
        after = self._ledger.status().floor
        while True:
            page = await self._ledger.read(Query(after=after, limit=1, since_epoch_s=epoch_s))
            if page.rows:
                return page.rows[0].position - 1
            if page.complete or page.next <= after:
                return page.head
            after = page.next

    async def look_back(self) -> list[str]:
        """Have those who are behind go on behind what was dropped; return the names that lost something by it."""
        for cursor in self.all():
            await cursor.look_back()
        return [cursor.name for cursor in self.all() if cursor.lost is not None]

    async def reset(self, name: str, after: int) -> Consumer:
        """Have a consumer start again after a position; what it holds now belongs to the past.

        Raises:
            InvalidRequest: there is none of this name.
            LifebusError: it cannot be made durable now.
        """
        cursor = self.require(name)
        past = cursor.deliveries.state
        scanned = min(after, self._ledger.head)
        await cursor.place(replace(past, epoch=self._ledger.epoch, scanned=scanned, open={}))
        return cursor

    async def evict(self, name: str) -> None:
        """Forget a consumer, its place and its dead letters.

        Raises:
            InvalidRequest: there is none of this name.
            LifebusError: it cannot be made durable now.
        """
        await self.require(name).end()
        self._cursors.pop(name, None)

    async def dead_letters(self, name: str, after: int, limit: int) -> tuple[list[DeadLetter], bool]:
        """Return dead letters of a number above `after`, and whether these are all.

        Raises:
            InvalidRequest: there is no such consumer.
            LifebusError: the newest ones cannot be made durable now.
        """
        await self.require(name).log.saved()
        page = await self._ledger.journal.read(dead_stream(name), after, limit)
        letters = [
            replace(_LETTERS.decode(note.body), number=note.number, at_epoch_s=note.at_epoch_s) for note in page.notes
        ]
        return letters, page.complete

    def note(self, rows: Sequence[StoredReceipt]) -> None:
        """Wake those who wait for the new rows; fulfils `fanout.Listener`."""
        for cursor in self._cursors.values():
            cursor.note(rows)

    async def _make(self, name: str, state: CursorState) -> Consumer:
        if name in self._making or len(self._cursors) + len(self._making) >= MAX_CURSORS:
            raise BrokerBusy(f"no more than {MAX_CURSORS} cursors; evict one, or try again", code="busy")
        self._making.add(name)
        try:
            cursor = self._cursor(name, state, 0)
            await cursor.place(state)
            self._cursors[name] = cursor
        finally:
            self._making.discard(name)
        return cursor

    def _cursor(self, name: str, state: CursorState, notes: int) -> Consumer:
        return Consumer(name, state, ledger=self._ledger, tasks=self._tasks, now=self._now, notes=notes)

    async def _notes(self, stream: str) -> list[Record]:
        notes: list[Record] = []
        complete, after = False, 0
        while not complete:
            page = await self._ledger.journal.read(stream, after)
            notes += page.notes
            complete, after = page.complete, page.notes[-1].number if page.notes else page.head
        return notes
