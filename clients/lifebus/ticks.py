"""Transient receipts as they are told: what no ledger keeps, and what may therefore be missed (design 3.12).

Above: client.  Below: connection, feed.
"""

from collections import deque
from typing import Final

import msgspec

from lifebus.connection import Connection
from lifebus.feed import Feed
from lifebus.requests import new_id
from lifebus_contract import Receipt, TransportError
from lifebus_contract.codec import decode_receipt
from lifebus_transports.messages import RowInfo
from lifebus_transports.wire import marker_topic, tick_topic
from lifebus_transports.zmq_socket import Frames

__all__ = ["Ticks"]

_MAX_READY: Final = 1_024
_FRAMES: Final = 3
_rows = msgspec.msgpack.Decoder(list[RowInfo])


class Ticks:
    """An async iterator of `Receipt`, from the first `await` on.  Use it from one task at a time.

    Lossy by nature: nothing is repeated, and of more than 1,024 unread receipts the oldest are dropped and counted in
    `dropped`.  Leaving the `async for` early and dropping the iterator frees its socket; `aclose` frees it at once.
    """

    def __init__(self, connection: Connection, *, adapter_id: str | None, timeout: float) -> None:
        self.dropped = 0
        self._connection = connection
        self._topic = tick_topic(adapter_id)
        self._timeout = timeout
        self._ready: deque[Receipt] = deque()
        self._feed: Feed | None = None
        self._marked = False
        self._ended = False

    def __aiter__(self) -> "Ticks":
        return self

    async def __anext__(self) -> Receipt:
        if self._feed is None and not self._ended:
            await self._join()
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._more()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Stop listening and free the socket; the iterator is done when what it has is read."""
        self._ended = True
        if self._feed is not None:
            self._feed.close()

    async def _join(self) -> None:
        """Open the feed and wait until it reaches here, so that what is told from now on is heard.

        Raises:
            TransportError: the broker's stream does not reach here.
        """
        nonce = new_id("m").lower()
        self._feed = Feed(self._connection, (self._topic, marker_topic(nonce)), self._receive)
        try:
            await self._feed.prove(nonce, lambda: self._marked, self._timeout)
        except BaseException:
            await self.aclose()
            raise

    async def _more(self) -> None:
        feed = self._feed
        if feed is None or feed.closed:
            raise TransportError("the connection is closed", code="closed")
        feed.wake.clear()
        await feed.wake.wait()

    def _receive(self, frames: Frames) -> None:
        """Take one published message; runs on the event loop and never waits."""
        if len(frames) != _FRAMES:
            return
        if frames[0].startswith(b"m/"):
            self._marked = True
            return
        for row in _rows.decode(frames[2]):
            if len(self._ready) >= _MAX_READY:
                self._ready.popleft()
                self.dropped += 1
            self._ready.append(decode_receipt(row.receipt))
