"""One named consumer at work: receipts out of the ledger, acknowledgements into the journal (docs/consuming.md)."""

from collections.abc import Callable, Collection, Sequence

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.consumers.deliveries import Deliveries
from lifebus_broker.consumers.filters import any_may_pass, passes, queries_of_parts, query_after
from lifebus_broker.consumers.journal import ConsumerLog
from lifebus_broker.ports import Ledger, Query, StoredReceipt
from lifebus_broker.state.consumer_state import CursorState
from lifebus_contract import StateConflict
from lifebus_contract.consumers import ConsumerInfo, ConsumerSettings, DeadLetter, Lost

_log = structlog.get_logger("lifebus.consumer_admin")


class FetchResult(Struct, frozen=True):
    """What one fetch got: receipts with the number of their try, or what is lost; nothing where time was up."""

    epoch: str
    items: tuple[tuple[StoredReceipt, int], ...] = ()
    lost: Lost | None = None


class Consumer:
    """A named consumer.  `now` is the monotonic clock in seconds; `tasks` owns the writing of its notes.

    `log` is what of it survives a restart, `deliveries` how it stands now.
    """

    def __init__(
        self,
        name: str,
        state: CursorState,
        *,
        ledger: Ledger,
        tasks: TaskGroup,
        now: Callable[[], float],
        notes: int = 0,
    ) -> None:
        self.name = name
        self.deliveries = Deliveries(state)
        self.log = ConsumerLog(name, ledger.journal, tasks, lambda: self.deliveries, notes)
        self._ledger, self._now = ledger, now
        self._one = anyio.Lock()
        self._changed = anyio.Event()
        self._turn = self._fetching = 0

    async def fetch(self, limit: int, wait_s: float) -> FetchResult:
        """Return up to `limit` receipts as soon as there are any, nothing after `wait_s` seconds.

        A later fetch ends an earlier one that still waits.
        """
        turn, end = self._take_turn(), self._now() + wait_s
        self._fetching += 1
        try:
            async with self._one:
                while turn == self._turn:
                    changed, now = self._changed, self._now()
                    dealt, more = await self._deal(turn, limit)
                    if dealt.items or dealt.lost is not None or self._now() >= end:
                        return dealt
                    if not more:
                        await self._wait(changed, now, end)
        finally:
            self._fetching -= 1
        return FetchResult(self.deliveries.epoch)

    async def acknowledge(self, epoch: str, positions: Sequence[int], through: int) -> int:
        """Settle positions, or all up to one; return how many were open, once that is durable.

        What is lost is acknowledged by its `until` and the present epoch.

        Raises:
            StateConflict: the positions are of another history.
            LifebusError: it cannot be made durable now; ask again.
        """
        lost = self.lost
        if lost is not None and (epoch, through) == (lost.epoch, lost.until):
            self._cross(lost)
            settled = 0
        elif epoch != self.deliveries.epoch:
            raise StateConflict(f"cursor `{self.name}` is in another history; fetch again", code="epoch_changed")
        else:
            settled = self.deliveries.settle(positions, through)
        self.stir()
        await self.log.saved()
        return settled

    def put_back(self, epoch: str, positions: Sequence[int], delay: float | None) -> int:
        """Take receipts back to hand them out again, after a delay in seconds or the usual pause; return how many.

        Raises:
            StateConflict: the positions are of another history.
        """
        if epoch != self.deliveries.epoch:
            raise StateConflict(f"cursor `{self.name}` is in another history; fetch again", code="epoch_changed")
        back = self.deliveries.put_back(positions, self._now(), delay)
        self.stir()
        return back

    def give_back(self, unseen: Collection[int]) -> None:
        """The consumer has left: nothing is handed to it any more, and what it held is due at once.

        What it has not looked at does not count as tried.
        """
        self._take_turn()
        self.deliveries.give_back(unseen)

    async def place(self, state: CursorState) -> None:
        """Go on from another state, durably; what is out belongs to the past.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._take_turn()
        self.deliveries = Deliveries(state)
        self.log.rewrite()
        await self.log.saved()

    async def tune(self, settings: ConsumerSettings) -> None:
        """Take other settings with the same filter, durably.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        if settings != self.deliveries.settings:
            self.deliveries.settings = settings
            self.log.rewrite()
            self.stir()
            await self.log.saved()

    async def end(self) -> None:
        """Forget everything, durably.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._take_turn()
        await self.log.end()

    @property
    def lost(self) -> Lost | None:
        """What this consumer can never get and has not acknowledged; after `look_back`, only what was for it."""
        status, deliveries = self._ledger.status(), self.deliveries
        after, state_at = deliveries.position, status.floor if self._ledger.durable else None
        if status.epoch != deliveries.epoch:
            return Lost(epoch=status.epoch, after=after, until=status.floor, reason="epoch_changed", state_at=state_at)
        if after < status.floor:
            return Lost(epoch=status.epoch, after=after, until=status.floor, reason="pruned", state_at=state_at)
        return None

    async def look_back(self) -> None:
        """Go on behind what the ledger has dropped, if nothing of it was for this consumer."""
        lost, deliveries = self.lost, self.deliveries
        if lost is None or lost.reason != "pruned" or deliveries.open:
            return
        for query in queries_of_parts(deliveries.settings, deliveries.scanned):
            if (await self._ledger.read(query)).snapshot_required:
                return
        if deliveries is self.deliveries:
            deliveries.scan_to(lost.until)

    def describe(self, *, attached: bool) -> ConsumerInfo:
        """Return how it stands."""
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
            lost=self.lost is not None,
        )

    def note(self, rows: Sequence[StoredReceipt]) -> None:
        """Wake a fetch that waits, if one of the new rows may be for it."""
        if self._fetching and any_may_pass(rows, self.deliveries.settings):
            self.stir()

    def stir(self) -> None:
        """Have a fetch that waits look again."""
        self._changed.set()
        self._changed = anyio.Event()

    def _take_turn(self) -> int:
        self._turn += 1
        self.stir()
        return self._turn

    async def _wait(self, changed: anyio.Event, now: float, end: float) -> None:
        """Wait until something changed, something gets due after `now`, or the end."""
        due = self.deliveries.next_due(now)
        until = end if due is None else min(end, due)
        with anyio.move_on_after(max(until - self._now(), 0.001)):
            await changed.wait()

    async def _deal(self, turn: int, limit: int) -> tuple[FetchResult, bool]:
        """Hand out what can be handed out now; say as well whether there is more to look at."""
        await self.look_back()
        deliveries, lost = self.deliveries, self.lost
        if turn != self._turn or lost is not None:
            return FetchResult(deliveries.epoch, lost=lost), False
        deliveries.expire(self._now())
        await self._bury(turn)
        items = await self._again(turn, limit)
        room = min(deliveries.room(self._now()), limit - len(items))
        more = False
        if room > 0 and turn == self._turn and deliveries.scanned < self._ledger.head:
            fresh, more = await self._fresh(turn, room)
            items += fresh
        if turn != self._turn:
            return FetchResult(deliveries.epoch), False
        self.log.save_soon()
        return FetchResult(deliveries.epoch, tuple(items)), more

    async def _fresh(self, turn: int, room: int) -> tuple[list[tuple[StoredReceipt, int]], bool]:
        """Hand out receipts that were not handed out before."""
        deliveries = self.deliveries
        page = await self._ledger.read(query_after(deliveries.settings, deliveries.scanned, room))
        if page.snapshot_required or turn != self._turn:
            return [], page.snapshot_required
        wanted = [row for row in page.rows if passes(row, deliveries.settings)]
        now = self._now()
        items = [(row, deliveries.give(row.position, now)) for row in wanted]
        deliveries.scan_to(page.next)
        return items, not page.complete

    async def _again(self, turn: int, limit: int) -> list[tuple[StoredReceipt, int]]:
        """Hand out once more what is due."""
        due = self.deliveries.due(self._now(), limit)
        if not due:
            return []
        rows = await self._rows(due)
        if turn != self._turn:
            return []
        now = self._now()
        return [(row, self.deliveries.give(row.position, now)) for row in rows]

    async def _bury(self, turn: int) -> None:
        """Make dead letters of what was tried often enough; they are saved in one write with the progress."""
        exhausted = self.deliveries.exhausted()
        if not exhausted:
            return
        found = {row.position: row.receipt for row in await self._rows(exhausted)}
        if turn != self._turn:
            return
        for position in exhausted:
            tries = self.deliveries.bury(position)
            letter = DeadLetter(
                epoch=self.deliveries.epoch, position=position, tries=tries, receipt=found.get(position)
            )
            self.log.bury(letter)
            _log.warning("dead_letter", cursor=self.name, position=position, tries=tries)

    async def _rows(self, positions: Sequence[int]) -> list[StoredReceipt]:
        """Return the rows at these positions, in order, as far as one look at the ledger or two finds them."""
        wanted, rows = set(positions), list[StoredReceipt]()
        for position in positions:
            if position in wanted:
                page = await self._ledger.read(Query(after=position - 1, limit=len(positions)))
                rows += [row for row in page.rows if row.position in wanted]
                wanted -= {position, *(row.position for row in page.rows)}
        return rows

    def _cross(self, lost: Lost) -> None:
        """Go on behind what is lost."""
        if lost.reason == "pruned":
            self.deliveries.skip(lost.until)
            return
        past = self.deliveries.state
        self._take_turn()
        self.deliveries = Deliveries(msgspec.structs.replace(past, epoch=lost.epoch, scanned=lost.until, open={}))
        self.log.rewrite()
