"""The named consumers of a broker: created, found, reset, evicted, and read back from the journal.

See docs/consuming.md.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from lifebus_broker.consumers.consumer import Consumer
from lifebus_broker.consumers.filters import describe_filter
from lifebus_broker.consumers.journal import dead_letter_stream, record_stream
from lifebus_broker.ledger.records import pages_of
from lifebus_broker.ports import Ledger, Query, Record, StoredReceipt
from lifebus_broker.state.consumer_state import ConsumerState, reduce_consumer
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, StateConflict
from lifebus_contract.consumers import ConsumerSettings, DeadLetter

MAX_CONSUMERS: Final = 256
"""Most named consumers of a broker."""

_SHOWN: Final = 64
_DEAD_LETTERS: Final = msgspec.msgpack.Decoder(DeadLetter)


class ConsumerTable:
    """The named consumers, by name.  `now` is the monotonic clock in seconds; `tasks` owns their writing."""

    def __init__(self, ledger: Ledger, tasks: TaskGroup, now: Callable[[], float]) -> None:
        self._ledger, self._tasks, self._now = ledger, tasks, now
        self._consumers: dict[str, Consumer] = {}
        self._making: set[str] = set()

    async def load(self) -> None:
        """Read every consumer from the journal.

        Raises:
            LifebusError: the journal cannot be read, or holds records that this program does not know.
        """
        prefix = record_stream("")
        for stream in await self._ledger.journal.streams(prefix):
            # A stream whose records were all dropped is that of an evicted consumer.
            records = await self._records(stream.stream) if stream.head > stream.floor else []
            name = stream.stream.removeprefix(prefix)
            try:
                state = reduce_consumer(records)
            except msgspec.DecodeError as fault:
                detail = f"the notes of cursor `{name[:64]}` cannot be read: {fault}; did a newer lifebus write it?"
                raise InternalError(detail, code="ledger_damaged") from fault
            if state is not None:
                self._consumers[name] = self._build(name, state, len(records))

    def all(self) -> list[Consumer]:
        """Return the consumers by name."""
        return [self._consumers[name] for name in sorted(self._consumers)]

    def find(self, name: str) -> Consumer | None:
        """Return the consumer of this name, None if there is none."""
        return self._consumers.get(name)

    def require(self, name: str) -> Consumer:
        """Return the consumer of this name.

        Raises:
            InvalidRequest: there is none.
        """
        consumer = self._consumers.get(name)
        if consumer is None:
            import difflib  # noqa: PLC0415  only where a name is wrong

            near = difflib.get_close_matches(name[:_SHOWN], self._consumers, n=1)
            meant = f"; did you mean `{near[0]}`?" if near else "; `lifebus clients` lists them"
            raise InvalidRequest(f"there is no consumer `{name[:_SHOWN]}`{meant}", code="no_cursor")
        return consumer

    async def open(
        self, name: str, settings: ConsumerSettings | None, *, client_id: str, epoch: str | None, after: int | None
    ) -> Consumer:
        """Return the consumer of this name; a new one starts after a position, or at the head without one.

        Without settings a known one keeps its own; settings without a filter leave it its filter.

        Raises:
            StateConflict: it has another filter than the one given.
            BrokerBusy: there are too many consumers, or this one is being made right now.
            LifebusError: it cannot be made durable now.
        """
        consumer = self._consumers.get(name)
        if consumer is None:
            position = self._ledger.head if after is None else min(after, self._ledger.head)
            state = ConsumerState(
                settings=settings or ConsumerSettings(),
                client_id=client_id,
                epoch=epoch or self._ledger.epoch,
                scanned=position,
            )
            return await self._make(name, state)
        if settings is not None:
            await consumer.configure(_under_its_filter(name, consumer.deliveries.settings, settings))
        return consumer

    async def position_at(self, epoch_s: int) -> int:
        """Return the position before the first receipt as late as `epoch_s`."""
        after = self._ledger.status().floor
        while True:
            page = await self._ledger.read(Query(after=after, limit=1, since_epoch_s=epoch_s))
            if page.stored:
                return page.stored[0].position - 1
            if page.complete or page.next <= after:
                return page.head
            after = page.next

    async def skip_pruned(self) -> list[str]:
        """Move consumers past pruned receipts that were not for them; return the names of those with a gap."""
        for consumer in self.all():
            await consumer.skip_pruned()
        return [consumer.name for consumer in self.all() if consumer.gap is not None]

    async def reset(self, name: str, after: int) -> Consumer:
        """Have a consumer start again after a position; what it holds now is dropped.

        Raises:
            InvalidRequest: there is none of this name.
            LifebusError: it cannot be made durable now.
        """
        consumer = self.require(name)
        past = consumer.deliveries.state
        scanned = min(after, self._ledger.head)
        await consumer.seek(replace(past, epoch=self._ledger.epoch, scanned=scanned, open={}))
        return consumer

    async def evict(self, name: str) -> None:
        """Delete a consumer, its position and its dead letters.

        Raises:
            InvalidRequest: there is none of this name.
            LifebusError: it cannot be made durable now.
        """
        await self.require(name).end()
        self._consumers.pop(name, None)

    async def dead_letters(self, name: str, after: int, limit: int) -> tuple[list[DeadLetter], bool]:
        """Return up to `limit` dead letters of a number above `after`, and whether these are all.

        Raises:
            InvalidRequest: there is no such consumer.
            LifebusError: the newest ones cannot be made durable now.
        """
        await self.require(name).log.saved()  # those that were just added are in the journal then
        page = await self._ledger.journal.read(dead_letter_stream(name), after, limit)
        dead_letters = [
            replace(_DEAD_LETTERS.decode(note.body), number=note.number, at_epoch_s=note.at_epoch_s)
            for note in page.records
        ]
        return dead_letters, page.complete

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Wake the consumers that wait for the committed receipts; fulfils `fan_out.Listener`."""
        for consumer in self._consumers.values():
            consumer.on_commit(stored)

    async def _make(self, name: str, state: ConsumerState) -> Consumer:
        if name in self._making or len(self._consumers) + len(self._making) >= MAX_CONSUMERS:
            raise BrokerBusy(f"no more than {MAX_CONSUMERS} cursors; evict one, or try again", code="busy")
        self._making.add(name)  # reserved before the await, so that two requests cannot create the same name
        try:
            consumer = self._build(name, state, 0)
            await consumer.seek(state)
            self._consumers[name] = consumer
        finally:
            self._making.discard(name)
        return consumer

    def _build(self, name: str, state: ConsumerState, records: int) -> Consumer:
        return Consumer(name, state, ledger=self._ledger, tasks=self._tasks, now=self._now, records=records)

    async def _records(self, stream: str) -> list[Record]:
        return [record async for page in pages_of(self._ledger.journal, stream) for record in page.records]


def _under_its_filter(name: str, own: ConsumerSettings, given: ConsumerSettings) -> ConsumerSettings:
    """Return the settings that are given, with the filter that the consumer has.

    Raises:
        StateConflict: another filter is given.
    """
    if given.filters and given.filter != own.filter:
        raise StateConflict(
            f"cursor `{name[:64]}` has another filter: {describe_filter(own)}; pass the same filter or none",
            code="other_filter",
        )
    return replace(given, sessions=own.sessions, adapters=own.adapters, events=own.events)
