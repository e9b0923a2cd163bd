"""One named consumer: receipts come from the ledger, acknowledgements go to the journal (docs/consuming.md)."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.consumers.deliveries import DeliveryState
from lifebus_broker.consumers.filters import any_may_pass, passes, queries_of_parts, query_after
from lifebus_broker.consumers.journal import ConsumerLog
from lifebus_broker.ports import Ledger, Query, StoredReceipt
from lifebus_broker.state.consumer_state import ConsumerState
from lifebus_contract import LifebusError, StateConflict
from lifebus_contract.consumers import ConsumerGap, ConsumerInfo, ConsumerSettings, DeadLetter

_log = structlog.get_logger("lifebus.consumers")


_Items: TypeAlias = list[tuple[StoredReceipt, int]]
"""Receipts, each with the number of its try."""


class FetchResult(Struct, frozen=True):
    """What one fetch returned: receipts, each with the number of its try, or a gap; neither when the time was up."""

    epoch: str
    items: tuple[tuple[StoredReceipt, int], ...] = ()
    gap: ConsumerGap | None = None


class Consumer:
    """A named consumer.  `now` is the monotonic clock in seconds; `tasks` owns the writing of its records.

    `deliveries` is its present state, `log` writes what has to survive a restart.
    """

    def __init__(
        self,
        name: str,
        state: ConsumerState,
        *,
        ledger: Ledger,
        tasks: TaskGroup,
        now: Callable[[], float],
        records: int = 0,
    ) -> None:
        self.name = name
        self.deliveries = DeliveryState(state)
        self.log = ConsumerLog(name, ledger.journal, tasks, lambda: self.deliveries, records)
        self._ledger, self._now = ledger, now
        self._fetch_lock = anyio.Lock()
        self._changed = anyio.Event()
        self._turn = self._fetching = 0

    async def fetch(self, limit: int, wait_s: float) -> FetchResult:
        """Return up to `limit` receipts as soon as there are any, nothing after `wait_s` seconds.

        That they are handed out is durable then: the number of a try grows over restarts, too.  A later fetch ends an
        earlier one that still waits.

        Raises:
            LifebusError: it cannot be made durable now; nothing was handed out.
        """
        # Only the newest turn may deliver: whoever fetches again, seeks or leaves takes the turn from a waiting fetch.
        turn, end = self._take_turn(), self._now() + wait_s
        self._fetching += 1
        try:
            async with self._fetch_lock:
                while turn == self._turn:
                    changed, now = self._changed, self._now()  # taken before the fetch, so no change is missed
                    result, more = await self._fetch(turn, limit)
                    if result.items or result.gap is not None or self._now() >= end:
                        return result
                    if not more:
                        await self._wait(changed, now, end)
        finally:
            self._fetching -= 1
        return FetchResult(self.deliveries.epoch)

    async def acknowledge(self, epoch: str, positions: Sequence[int], through: int) -> int:
        """Settle positions, or all up to one; return how many were open, once that is durable.

        A gap is acknowledged by its `until` and the present epoch.

        Raises:
            StateConflict: the positions are of another history.
            LifebusError: it cannot be made durable now; ask again.
        """
        gap = self.gap
        if gap is not None and (epoch, through) == (gap.epoch, gap.until):
            self._skip_gap(gap)
            settled = 0
        elif epoch != self.deliveries.epoch:
            raise StateConflict(f"cursor `{self.name}` is in another history; fetch again", code="epoch_changed")
        else:
            settled = self.deliveries.settle(positions, through)
        self.notify()  # what was settled makes room for more
        await self.log.saved()  # the answer promises that it is durable
        return settled

    def nack(self, epoch: str, positions: Sequence[int], delay: float | None) -> int:
        """Have receipts delivered again, after `delay` seconds or the usual pause; return how many were in flight.

        Raises:
            StateConflict: the positions are of another history.
        """
        if epoch != self.deliveries.epoch:
            raise StateConflict(f"cursor `{self.name}` is in another history; fetch again", code="epoch_changed")
        returned = self.deliveries.nack(positions, self._now(), delay)
        self.notify()
        return returned

    def release(self, unseen: Collection[int]) -> None:
        """Take back what is in flight because the connection has left; it is due at once.

        The try does not count for positions in `unseen`, which the connection never looked at.
        """
        self._take_turn()
        self.deliveries.release(unseen)

    async def seek(self, state: ConsumerState) -> None:
        """Go on from another state, durably; what was in flight under the old one is dropped.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._take_turn()
        self.deliveries = DeliveryState(state)
        self.log.rewrite()
        await self.log.saved()

    async def configure(self, settings: ConsumerSettings) -> None:
        """Replace the settings, durably; the filter has to be the same.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        if settings != self.deliveries.settings:
            self.deliveries.settings = settings
            self.log.rewrite()
            self.notify()
            await self.log.saved()

    async def end(self) -> None:
        """Delete the consumer's state and its dead letters, durably.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._take_turn()
        await self.log.end()

    @property
    def gap(self) -> ConsumerGap | None:
        """The receipts that this consumer can never get and has not acknowledged, None where there are none.

        Call `skip_pruned` first: without it, pruned receipts that the filter excludes count as well.
        """
        status, deliveries = self._ledger.status(), self.deliveries
        after, state_at = deliveries.position, status.floor if self._ledger.capabilities.durable else None
        if status.epoch != deliveries.epoch:
            return ConsumerGap(
                epoch=status.epoch, after=after, until=status.floor, reason="epoch_changed", state_at=state_at
            )
        if after < status.floor:
            return ConsumerGap(epoch=status.epoch, after=after, until=status.floor, reason="pruned", state_at=state_at)
        return None

    async def skip_pruned(self) -> None:
        """Move past a pruned range of the ledger if the filter excludes everything in it."""
        gap, deliveries = self.gap, self.deliveries
        if gap is None or gap.reason != "pruned" or deliveries.open:
            return
        # The ledger knows per session and adapter what it pruned, so each part of the filter is asked on its own.
        for query in queries_of_parts(deliveries.settings, deliveries.scanned):
            if (await self._ledger.read(query)).snapshot_required:
                return
        if deliveries is self.deliveries:  # a seek during the reads put another state in its place
            deliveries.scan_to(gap.until)

    def describe(self, *, attached: bool) -> ConsumerInfo:
        """Return its state as the verbs report it; `attached` says whether a connection consumes it."""
        deliveries, head = self.deliveries, self._ledger.head
        return ConsumerInfo(
            cursor=self.name,
            client_id=deliveries.client_id,
            attached=attached,
            fetching=self._fetching > 0,
            settings=deliveries.settings,
            epoch=deliveries.epoch,
            position=deliveries.position,
            scanned=deliveries.scanned,
            head=head,
            lag=max(head - deliveries.position, 0),
            open=deliveries.open,
            in_flight=deliveries.in_flight,
            dead=deliveries.dead,
            lost=self.gap is not None,
        )

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Wake a waiting fetch if one of the committed receipts may pass the filter."""
        if self._fetching and any_may_pass(stored, self.deliveries.settings):
            self.notify()

    def notify(self) -> None:
        """Wake a waiting fetch."""
        self._changed.set()  # an Event is set once and replaced: whoever waits on the old one wakes
        self._changed = anyio.Event()

    def _take_turn(self) -> int:
        self._turn += 1
        self.notify()
        return self._turn

    async def _wait(self, changed: anyio.Event, now: float, end: float) -> None:
        """Wait until `changed` is set, a delivery gets due after `now`, or `end` is reached."""
        due = self.deliveries.next_due(now)
        until = end if due is None else min(end, due)
        with anyio.move_on_after(max(until - self._now(), 0.001)):
            await changed.wait()

    async def _fetch(self, turn: int, limit: int) -> tuple[FetchResult, bool]:
        """Deliver what can be delivered now; the second value says whether the ledger holds more to scan."""
        await self.skip_pruned()
        deliveries, gap = self.deliveries, self.gap
        if turn != self._turn or gap is not None:
            return FetchResult(deliveries.epoch, gap=gap), False
        deliveries.expire(self._now())
        with self.log.change_under_way():
            items, more = await self._deliver(turn, limit)
        if items:
            items = await self._recorded(turn, deliveries, items)
        else:
            self.log.save_soon()  # nobody waits: what a crash loses here is looked at again
        if turn != self._turn:  # after every await: the turn may have been taken meanwhile
            return FetchResult(deliveries.epoch), False
        return FetchResult(deliveries.epoch, tuple(items)), more

    async def _deliver(self, turn: int, limit: int) -> tuple[_Items, bool]:
        """Hand out up to `limit` receipts, which leave once that is on record; say whether there is more to scan."""
        deliveries, more = self.deliveries, False
        await self._dead_letter(turn)
        items = await self._redeliver(turn, limit)
        room = min(deliveries.room(self._now()), limit - len(items))  # redeliveries go first, new ones fill up
        if room > 0 and turn == self._turn and deliveries.scanned < self._ledger.head:
            try:
                new, more = await self._deliver_new(turn, room)
            except LifebusError:
                if not items:  # what comes again leaves first, and the next fetch is refused
                    raise
            else:
                items += new
        return items, more

    async def _recorded(self, turn: int, deliveries: DeliveryState, items: _Items) -> _Items:
        """Return what may leave now that its tries are durable; what may not is due again, as if never handed out.

        A broker that forgot what it handed out would hand it out again unmarked, even after an acknowledgement, which
        it would take for one of nothing.
        """
        may_leave = False
        try:
            await self.log.saved()
            may_leave = turn == self._turn
        finally:
            if not may_leave:
                deliveries.withdraw((one.position, attempt) for one, attempt in items)
        if not may_leave:
            return []
        # An earlier try may have been settled or refused while this one was written.
        return [(one, attempt) for one, attempt in items if deliveries.is_in_flight(one.position)]

    async def _deliver_new(self, turn: int, room: int) -> tuple[_Items, bool]:
        """Deliver receipts for the first time."""
        deliveries = self.deliveries
        page = await self._ledger.read(query_after(deliveries.settings, deliveries.scanned, room))
        if page.snapshot_required or turn != self._turn:
            return [], page.snapshot_required
        wanted = [one for one in page.stored if passes(one, deliveries.settings)]
        now = self._now()
        items = [(one, deliveries.deliver(one.position, now)) for one in wanted]
        deliveries.scan_to(page.next)
        return items, not page.complete

    async def _redeliver(self, turn: int, limit: int) -> _Items:
        """Deliver what is due once more."""
        due = self.deliveries.due(self._now(), limit)
        if not due:
            return []
        stored = await self._read_at(due)
        if turn != self._turn:
            return []
        now = self._now()
        still_due = set(self.deliveries.due(now, limit))  # not what was settled during the read
        return [(one, self.deliveries.deliver(one.position, now)) for one in stored if one.position in still_due]

    async def _dead_letter(self, turn: int) -> None:
        """Turn receipts that were tried too often into dead letters, saved in one write with the progress."""
        exhausted = self.deliveries.exhausted()
        if not exhausted:
            return
        found = {one.position: one.receipt for one in await self._read_at(exhausted)}
        if turn != self._turn:
            return
        settled = {*exhausted}.difference(self.deliveries.exhausted())  # during the read
        for position in exhausted:
            if position in settled:
                continue
            tries = self.deliveries.give_up(position)
            dead_letter = DeadLetter(
                epoch=self.deliveries.epoch, position=position, tries=tries, receipt=found.get(position)
            )
            self.log.add_dead_letter(dead_letter)
            _log.warning("dead_letter", cursor=self.name, position=position, tries=tries)

    async def _read_at(self, positions: Sequence[int]) -> list[StoredReceipt]:
        """Return the receipts at these positions that the ledger still keeps, in order."""
        wanted, stored = set(positions), list[StoredReceipt]()
        for position in positions:
            if position in wanted:
                # One page often holds the neighbours too, so that few reads are needed for many positions.
                page = await self._ledger.read(Query(after=position - 1, limit=len(positions)))
                stored += [one for one in page.stored if one.position in wanted]
                wanted -= {position, *(one.position for one in page.stored)}
        return stored

    def _skip_gap(self, gap: ConsumerGap) -> None:
        """Go on after the gap, in the present history of the ledger."""
        if gap.reason == "pruned":
            self.deliveries.skip(gap.until)
            return
        past = self.deliveries.state  # of another history: none of its open positions means anything here
        self._take_turn()
        self.deliveries = DeliveryState(msgspec.structs.replace(past, epoch=gap.epoch, scanned=gap.until, open={}))
        self.log.rewrite()
