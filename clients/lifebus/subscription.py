"""Receipts as an async iterator that misses none without saying so (docs/wire-protocol.md, "Joining without a hole").

Join: subscribe, wait for a marker that proves the stream live, then fetch the backfill from the cursor, then go live.
Whatever the live stream loses, the view notices and the ledger fills.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, Literal, TypeVar, cast

import msgspec

from lifebus._internal.answers import decode_recorded
from lifebus._internal.connection import Connection
from lifebus._internal.follower import Follower
from lifebus._internal.following.gaps import GapGate, OnGap
from lifebus._internal.following.short_names import SessionName, whole_name
from lifebus._internal.view import Gap, Position, View
from lifebus.state import State, fetch_state
from lifebus_contract import InvalidRequest, Receipt
from lifebus_contract.facts.selections import tells_of_canary, tells_of_failure, tells_of_wait
from lifebus_contract.views import SessionHead
from lifebus_transports.framing.frames import ALL_TOPIC, BEACON_TOPIC, session_topic
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.reads import Backfill, BackfillPage, Beacon, SessionsQuery, WireReceipt
from lifebus_transports.messages.state import StatePage
from lifebus_transports.messages.status import BrokerStatus

Since = Position | int | datetime | str | None
"""Where a subscription starts: a cursor, a position, a time, ``"start"``, or None for what comes from now on."""

T_co = TypeVar("T_co", bound=Receipt | Gap, covariant=True)

_MAX_READY: Final = 4_096
_receipts = msgspec.msgpack.Decoder(list[WireReceipt])
_beacons = msgspec.msgpack.Decoder(Beacon)


def selected(
    where: Callable[[Receipt], bool] | None, *, waiting: bool, failed: bool, canaries: bool
) -> Callable[[Receipt], bool] | None:
    """Return the filter that lets through what `where` and each selection let through; None where that is everything.

    See docs/consuming.md, "Selections".
    """
    if not waiting and not failed and canaries:
        return where
    return lambda receipt: (
        (not waiting or tells_of_wait(receipt))
        and (not failed or tells_of_failure(receipt))
        and (canaries or not tells_of_canary(receipt))
        and (where is None or where(receipt))
    )


class Subscription(Follower, Generic[T_co]):
    """An async iterator of `Receipt`, and of `Gap` with ``gaps="yield"``.  Use it from one task at a time.

    `cursor` is the place after the last item returned, or where the subscription started; give it to a later one as
    `since` to continue from there.  It moves past a gap when the gap was reported: when it was returned, when its
    handler has returned, or, if it was raised, when the next item is asked for.  If you leave the ``async for`` early,
    dropping the subscription frees its socket; `aclose` frees it at once.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        session: SessionName | None,
        since: Since,
        where: Callable[[Receipt], bool] | None,
        until_head: bool,
        timeout: float,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> None:
        super().__init__(connection, timeout)
        self.cursor: Position | None = None
        self._session = None if isinstance(session, str) else session
        self._short_name = session if isinstance(session, str) else None
        _check_since(since)
        self._since = since
        self._where = where
        self._until_head = until_head
        self._ready: deque[WireReceipt | Gap] = deque()
        self._view: View | None = None
        self._last: Position | None = None
        self._gate = GapGate(gaps)

    def __aiter__(self) -> "Subscription[T_co]":
        return self

    async def __anext__(self) -> T_co:
        if self._ended:
            raise StopAsyncIteration
        return cast("T_co", await self._gate.next_of(self._next_item, self._leave_gap))

    async def _next_item(self) -> Receipt | Gap:
        if self._ended:
            raise StopAsyncIteration
        view = self._view or await self._join()
        while True:
            while self._ready:
                item = self._take(view, self._ready.popleft())
                if item is not None:
                    return item
            if self._last is not None and view.epoch == self._last.epoch and view.position >= self._last.position:
                await self.aclose()
            if self._ended:
                raise StopAsyncIteration
            await self._more(view)

    async def join(self) -> Position:
        """Begin now instead of with the first item, and return the place after which nothing is missed.

        Raises:
            DeadlineExceeded: the broker does not answer.
            TransportError: the broker's stream does not reach here.
        """
        view = self._view or await self._join()
        return self.cursor or Position(view.epoch, view.position)

    async def state(self) -> State:
        """Return the state that replaces receipts which are gone, and continue exactly after it.

        Call it at a gap; the gap then counts as reported.  If more was dropped meanwhile, the state replaces that as
        well.  A subscription that is already further stays where it is.

        Raises:
            LifebusError: the broker keeps no state, or cannot read it.
        """
        view = self._view or await self._join()
        state = await fetch_state(lambda body: self._read("state", body, StatePage))
        self._gate.leave(self._leave_gap)
        if state.epoch != view.epoch or state.position > view.position:
            view.start_from(state.epoch, state.position)
            self._ready.clear()
            self.cursor = state.cursor
        return state

    def _leave_gap(self, _: Gap) -> None:
        self.cursor = self._gate.cursor

    def _take(self, view: View, item: WireReceipt | Gap) -> Receipt | Gap | None:
        if isinstance(item, Gap):
            self._gate.cursor = Position(view.epoch, view.position if item.until is None else item.until)
            return item
        self.cursor = Position(view.epoch, item.position)
        if self._last is not None and item.position > self._last.position:
            return None
        receipt = decode_recorded(item.receipt)
        if self._session and (receipt.adapter_id, receipt.harness_session_id) != self._session:
            return None
        return receipt if self._where is None or self._where(receipt) else None

    async def _more(self, view: View) -> None:
        """Wait for live receipts, or fetch what is missing."""
        self._open_feed()
        if view.behind:
            await self._refill(view)
        else:
            await self._wait()

    async def _join(self) -> View:
        """Open the feed, prove it live, and place the view where the user wants to start."""
        try:
            status = await self._connection.ask("status", Nothing(), BrokerStatus, timeout=self._timeout)
            # Only a durable ledger gives sequences; without them one session is filtered from everything.
            durable = status.ledger.durability != "none"
            if self._short_name is not None:
                self._session = await whole_name(self._connection, self._short_name, self._timeout)
            session = self._session if durable else None
            await self._subscribe((ALL_TOPIC if session is None else session_topic(*session), BEACON_TOPIC))
            view = View(epoch=status.ledger.epoch, position=0, session=session)
            await self._place(view)
        # Also when cancelled: a half-joined socket would collect messages for nobody.
        except BaseException:
            self._close_feed()
            raise
        self.cursor = Position(view.epoch, view.position)
        self._view = view
        return view

    async def _place(self, view: View) -> None:
        """Set the view's starting position, epoch and session sequence."""
        newest = await self._page(Backfill(after=0, limit=1))
        view.epoch = newest.epoch
        if isinstance(self._since, Position):
            view.epoch, view.position = self._since.epoch, self._since.position
        elif isinstance(self._since, datetime):
            view.position = await self._position_at(int(self._since.timestamp()), newest)
        elif self._since is None:
            view.position = newest.head
        elif self._since != "start":
            view.position = int(self._since)
            if view.position > newest.head:
                raise InvalidRequest(
                    f"the newest position is {newest.head}, {view.position} is not there yet; a time is a datetime",
                    field="since",
                    code="no_position",
                )
        # The head of now: receipts that come while reading do not move the end.
        if self._until_head:
            self._last = Position(newest.epoch, newest.head)
        # Live receipts of one session carry its sequences: the view has to know where they stand.
        if self._session and self._since is None:
            heads = await self._read("sessions", SessionsQuery(session=self._session), list[SessionHead])
            view.sequence = heads[0].sequence if heads else 0
            view.position = heads[0].last_position if heads else view.position
        elif view.position == 0:
            view.sequence = 0

    async def _position_at(self, epoch_s: int, newest: BackfillPage) -> int:
        """Return the position before the first receipt as late as `epoch_s`.

        Where that is the oldest one kept, earlier ones may be gone: 0, from where the ledger answers with a gap.
        """
        after = newest.floor
        while after < newest.head:
            # The ledger searches for the first match itself, so this takes few requests.
            page = await self._page(Backfill(after=after, limit=1, since_epoch_s=epoch_s))
            if page.rows:
                before = page.rows[0].position - 1
                return 0 if before == page.floor else before
            after = page.next
        return after

    async def _refill(self, view: View) -> None:
        """Fetch one page and put what follows into the queue."""
        page = await self._page(view.ask())
        self._ready.extend(view.fill(page))
        # Another history has another end.
        if self._last is not None and page.epoch != self._last.epoch:
            self._last = Position(page.epoch, page.head)

    async def _page(self, query: Backfill) -> BackfillPage:
        return await self._read("backfill", query, BackfillPage)

    def _on_message(self, topic: bytes, epoch: str, body: bytes) -> None:
        if self._view is None:
            return  # the backfill of the join brings it
        if topic == BEACON_TOPIC:
            self._view.note_beacon(_beacons.decode(body))
        else:
            self._offer(self._view, epoch, body)

    def _offer(self, view: View, epoch: str, body: bytes) -> None:
        # Bounded: a slow reader costs the ledger reads, never memory.
        if len(self._ready) >= _MAX_READY:
            view.lose()  # the reader is slow: the ledger is its buffer
        else:
            self._ready.extend(view.offer(epoch, _receipts.decode(body)))


def _check_since(given: object) -> None:
    """Refuse what is no place to start from, which a program without a type checker may give.

    Raises:
        InvalidRequest: it is none; a number of seconds would be taken for a position.
    """
    if isinstance(given, str):
        is_place = given == "start" or given.isdecimal()
    elif isinstance(given, int):
        is_place = given >= 0 and not isinstance(given, bool)
    else:
        is_place = given is None or isinstance(given, Position | datetime)
    if not is_place:
        raise InvalidRequest(
            f'{given!r} is no place to start from: give a cursor, a position, a datetime with its zone, or "start"',
            field="since",
        )
