"""Transient receipts as they are published: no ledger keeps them, so they may be missed.

See docs/contract.md 2.6.
"""

from collections import deque
from typing import Final

import msgspec

from lifebus._internal.answers import decode_recorded
from lifebus._internal.connection import Connection
from lifebus._internal.follower import Follower
from lifebus_contract import Receipt
from lifebus_transports.framing.frames import tick_topic
from lifebus_transports.messages.reads import WireReceipt

_MAX_READY: Final = 1_024
_receipts = msgspec.msgpack.Decoder(list[WireReceipt])


class Ticks(Follower):
    """An async iterator of `Receipt`, from the first `await` on.  Use it from one task at a time.

    Ticks may be lost: nothing is repeated, and if more than 1,024 receipts are unread, the oldest are dropped and
    counted in `dropped`.  After `aclose` it still yields what it has.
    """

    def __init__(self, connection: Connection, *, adapter_id: str | None, timeout: float) -> None:
        super().__init__(connection, timeout)
        self.dropped = 0
        self._topic = tick_topic(adapter_id)
        self._ready: deque[Receipt] = deque()

    def __aiter__(self) -> "Ticks":
        return self

    async def __anext__(self) -> Receipt:
        if self._feed is None and not self._ended:
            await self._join()
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        return self._ready.popleft()

    async def _join(self) -> None:
        """Open the feed and wait until it reaches here, so that what is published from now on arrives.

        Raises:
            TransportError: the broker's stream does not reach here.
        """
        try:
            await self._subscribe((self._topic,))
        except BaseException:
            await self.aclose()
            raise

    def _on_message(self, topic: bytes, epoch: str, body: bytes) -> None:  # noqa: ARG002  there is one topic and no history
        for one in _receipts.decode(body):
            # The oldest goes: for something that is never repeated, newer is worth more.
            if len(self._ready) >= _MAX_READY:
                self._ready.popleft()
                self.dropped += 1
            self._ready.append(decode_recorded(one.receipt))
