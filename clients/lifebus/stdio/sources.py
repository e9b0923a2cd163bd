"""What a subscription can follow, each as a block that begins it, and ends it whatever happens.

Above: following.  Below: the client library, messages.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Protocol

import msgspec

from lifebus.client import Bus
from lifebus.signals import SignalReceived, Signals
from lifebus.stdio.messages import FollowReceipts, FollowSignals, verbatim
from lifebus.subscription import Subscription
from lifebus.view import Cursor, Gap
from lifebus_contract import Receipt

__all__ = ["Source", "begin"]


class Source(Protocol):
    """What has begun.  Keys are those of lines; places are cursors as text."""

    @property
    def items(self) -> AsyncIterator[Any]:
        """What comes."""
        ...

    def place(self) -> dict[str, object]:
        """Return the keys of the place to go on from, after the last item that was noted."""
        ...

    def keys(self, item: Any) -> dict[str, object]:
        """Return the keys that tell the newest item, its place first."""
        ...

    def note(self, item: Any, /) -> None:
        """Take down that the newest item was told."""
        ...


def begin(bus: Bus, wish: FollowReceipts | FollowSignals) -> AbstractAsyncContextManager[Source]:
    """Return the block that follows what is wished for; entering it may raise whatever the client library raises."""
    return _receipts(bus, wish) if isinstance(wish, FollowReceipts) else _signals(bus, wish)


@asynccontextmanager
async def _receipts(bus: Bus, wish: FollowReceipts) -> AsyncGenerator[Source]:
    async with aclosing(bus.receipts(session=wish.session, since=wish.start(), until_head=wish.until_head)) as items:
        yield _Receipts(items, await items.join())


@asynccontextmanager
async def _signals(bus: Bus, wish: FollowSignals) -> AsyncGenerator[Source]:
    following = bus.signals(
        wish.signals,
        wish.thread,
        since=wish.start(),
        last=wish.last,
        event=wish.event,
        until_head=wish.until_head,
    )
    async with aclosing(following) as items:
        yield _Signals(items, await items.join())


class _Receipts:
    """Receipts, and one place for all of them."""

    def __init__(self, items: Subscription, start: Cursor) -> None:
        self.items = items
        self._told = start

    def place(self) -> dict[str, object]:
        return {"cursor": str(self._told)}

    def keys(self, item: Receipt | Gap) -> dict[str, object]:
        what = {"gap": item} if isinstance(item, Gap) else {"receipt": verbatim(item)}
        return {"cursor": str(self.items.cursor), **what}

    def note(self, _: Receipt | Gap) -> None:
        self._told = self.items.cursor or self._told


class _Signals:
    """Signals, and a place a thread."""

    def __init__(self, items: Signals, start: dict[str, Cursor]) -> None:
        self.items = items
        self._told = dict(start)

    def place(self) -> dict[str, object]:
        return {"cursors": {thread: str(place) for thread, place in self._told.items()}}

    def keys(self, item: SignalReceived | Gap) -> dict[str, object]:
        thread = item.thread or ""
        where: dict[str, object] = {"thread": thread, "cursor": str(self.items.cursors[thread])}
        if isinstance(item, Gap):
            return where | {"gap": item}
        return where | {"sequence": item.sequence, "signal": msgspec.Raw(item.raw)}

    def note(self, item: SignalReceived | Gap) -> None:
        thread = item.thread or ""
        self._told[thread] = self.items.cursors[thread]
