"""What a subscription can follow, each as a block that begins it, and ends it whatever happens."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Any, Protocol

import anyio
import msgspec

from lifebus._internal.view import Gap, Position
from lifebus.client import Bus
from lifebus.consumer import Deliveries, Delivery
from lifebus.signals import SignalReceived, Signals
from lifebus.stdio.bodies import ConsumeReceipts, FollowReceipts, FollowSignals
from lifebus.subscription import Subscription
from lifebus_contract import DeadlineExceeded, Receipt
from lifebus_transports.framing.json_lines import verbatim


class FollowSource(Protocol):
    """What has begun.  Keys are those of lines; places are cursors as text."""

    @property
    def items(self) -> AsyncIterator[Any]:
        """What comes."""
        ...

    def place(self) -> dict[str, object]:
        """Return the keys of the place to go on from, after the last item that was noted."""
        ...

    def keys(self, item: Any) -> dict[str, object]:
        """Return the keys of the newest item's line, its place first."""
        ...

    def note(self, item: Any, /) -> None:
        """Note that the newest item was written."""
        ...


def open_source(
    bus: Bus, body: FollowReceipts | FollowSignals | ConsumeReceipts
) -> AbstractAsyncContextManager[FollowSource]:
    """Return the block that follows what the body names; entering it may raise whatever the client library raises."""
    match body:
        case FollowReceipts():
            return _receipts(bus, body)
        case FollowSignals():
            return _signals(bus, body)
        case ConsumeReceipts():
            return _deliveries(bus, body)


@asynccontextmanager
async def _receipts(bus: Bus, body: FollowReceipts) -> AsyncGenerator[FollowSource]:
    following = bus.receipts(session=body.session, since=body.start(), until_head=body.until_head, gaps="yield")
    async with aclosing(following) as items:
        yield _ReceiptSource(items, await items.join())


@asynccontextmanager
async def _signals(bus: Bus, body: FollowSignals) -> AsyncGenerator[FollowSource]:
    following = bus.signals(
        body.signals,
        body.thread,
        since=body.start(),
        last=body.last,
        event=body.event,
        until_head=body.until_head,
        gaps="yield",
    )
    async with aclosing(following) as items:
        yield _SignalSource(items, await items.join())


@asynccontextmanager
async def _deliveries(bus: Bus, body: ConsumeReceipts) -> AsyncGenerator[FollowSource]:
    async with bus.consume(body.name, body.settings, since=body.start(), gaps="yield") as deliveries:
        yield ConsumerSource(body.name, deliveries, bus.timeout)


class ConsumerSource:
    """Receipts under a name, whose place the broker remembers; after a gap nothing comes until that is acknowledged.

    `timeout` is how long an acknowledgement may wait for a broker, in seconds.
    """

    def __init__(self, name: str, deliveries: Deliveries[Delivery | Gap], timeout: float) -> None:
        self._name = name
        self._deliveries = deliveries
        self._timeout = timeout
        self._gap: Position | None = None
        self._gap_acknowledged = anyio.Event()

    @property
    def items(self) -> "ConsumerSource":
        """Itself."""
        return self

    def __aiter__(self) -> "ConsumerSource":
        return self

    async def __anext__(self) -> Delivery | Gap:
        # What follows a gap means nothing to a peer that has not seen the gap.
        if self._gap is not None:
            await self._gap_acknowledged.wait()
            self._gap = None
        item = await anext(self._deliveries)
        if isinstance(item, Gap):
            self._gap, self._gap_acknowledged = _place_of(item), anyio.Event()
        return item

    def place(self) -> dict[str, object]:
        """Return the name: the place is with the broker."""
        return {"name": self._name}

    def keys(self, item: Delivery | Gap) -> dict[str, object]:
        """Return the keys of a line: with a receipt the number of the try."""
        if isinstance(item, Gap):
            return {"cursor": str(_place_of(item)), "gap": item}
        return {"cursor": str(item.cursor), "attempt": item.attempt, "receipt": msgspec.Raw(item.raw)}

    def note(self, _: Delivery | Gap) -> None:
        """Note nothing: the broker keeps the place, and moves it when this is acknowledged."""

    async def ack(self, places: Sequence[Position]) -> None:
        """Say that what is at these places is done; when this returns, that is durable.

        Raises:
            DeadlineExceeded: no broker answered in time; whether it is settled is unknown.
            LifebusError: as the client library.
        """
        with self._in_time("ack"):
            if self._gap in places:
                await self._deliveries.skip_gap()  # durable before the answer, as every acknowledgement
                self._gap_acknowledged.set()
            await self._deliveries.ack(place for place in places if place != self._gap)

    async def nack(self, places: Sequence[Position], delay: float | None) -> None:
        """Have it delivered again, after a delay in seconds.

        Raises:
            DeadlineExceeded: no broker answered in time.
            LifebusError: as the client library.
        """
        with self._in_time("nack"):
            await self._deliveries.nack(places, delay)

    @contextmanager
    def _in_time(self, verb: str) -> Generator[None]:
        """End the block after the timeout: the client library itself waits for as long as no broker is there."""
        try:
            with anyio.fail_after(self._timeout):
                yield
        except TimeoutError:
            detail = f"no broker answered `{verb}` within {self._timeout:g} s; it is safe to ask again"
            raise DeadlineExceeded(detail) from None


def _place_of(gap: Gap) -> Position:
    return Position(gap.epoch, gap.after if gap.until is None else gap.until)


class _ReceiptSource:
    """Receipts, and one place for all of them."""

    def __init__(self, items: Subscription[Receipt | Gap], start: Position) -> None:
        self.items = items
        self._noted = start

    def place(self) -> dict[str, object]:
        return {"cursor": str(self._noted)}

    def keys(self, item: Receipt | Gap) -> dict[str, object]:
        what = {"gap": item} if isinstance(item, Gap) else {"receipt": verbatim(item)}
        return {"cursor": str(self.items.cursor), **what}

    def note(self, _: Receipt | Gap) -> None:
        # Only what was written counts: a peer goes on after the last line that it could have read.
        self._noted = self.items.cursor or self._noted


class _SignalSource:
    """Signals, and a place a thread."""

    def __init__(self, items: Signals[SignalReceived | Gap], start: dict[str, Position]) -> None:
        self.items = items
        self._noted = dict(start)

    def place(self) -> dict[str, object]:
        return {"cursors": {thread: str(place) for thread, place in self._noted.items()}}

    def keys(self, item: SignalReceived | Gap) -> dict[str, object]:
        thread = item.thread or ""
        where: dict[str, object] = {"thread": thread, "cursor": str(self.items.cursors[thread])}
        if isinstance(item, Gap):
            return where | {"gap": item}
        return where | {"sequence": item.sequence, "signal": msgspec.Raw(item.raw)}

    def note(self, item: SignalReceived | Gap) -> None:
        thread = item.thread or ""
        self._noted[thread] = self.items.cursors[thread]
