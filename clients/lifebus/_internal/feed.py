"""The published messages of a few topics: one SUB socket, which ends with its owner or with its connection."""

import asyncio
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import anyio
import zmq

from lifebus._internal.connection import Connection, connected_socket
from lifebus_contract import DeadlineExceeded, TransportError
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.reads import Marker
from lifebus_transports.zmq.socket import Message, SocketReader

_MARKER_WAIT_S: Final = 0.25


class Feed:
    """Hands every message to `receive`, a method of the owner, and sets `wake` after it.

    The event loop holds the feed, and the feed does not hold its owner: an owner that nobody refers to any more frees
    the socket.  `wake` is also set when the feed closes.
    """

    def __init__(self, connection: Connection, topics: Iterable[bytes], receive: Callable[[Message], None]) -> None:
        self.wake = asyncio.Event()
        self.closed = False
        self._connection = connection
        loop = asyncio.get_running_loop()
        # The loop holds the feed by its reader: a strong reference here would keep a dropped owner alive for good.
        self._receive = weakref.WeakMethod(receive, lambda _: _close_soon(loop, self.close))
        self._socket = connected_socket(connection.context, zmq.SUB, connection.runtime_dir / "receipts.ipc")
        for topic in topics:
            self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        self._reader = SocketReader(self._socket, self._on_message)
        connection.closing.add(self.close)

    async def confirm(self, nonce: str, arrived: Callable[[], bool], timeout: float) -> None:  # noqa: ASYNC109  in seconds
        """Ask for the marker with this nonce until it arrives: the subscription may not have reached the broker yet.

        Raises:
            DeadlineExceeded: the broker does not answer.
            TransportError: the broker answers, but nothing that it publishes reaches here.
        """
        answered = False
        with anyio.move_on_after(timeout):
            while not arrived():
                await self._connection.ask("marker", Marker(nonce=nonce), Nothing, timeout=timeout)
                answered = True
                with anyio.move_on_after(_MARKER_WAIT_S):
                    await self.wake.wait()
                self.wake.clear()
        if not answered:
            raise DeadlineExceeded(f"the broker's receipt stream did not answer within {timeout:g} s")
        if not arrived():
            raise TransportError("the broker answers, but its receipt stream does not reach here", code="no_stream")

    def close(self) -> None:
        """Free the socket; closing twice is fine."""
        if not self.closed:
            self.closed = True
            self._connection.closing.discard(self.close)
            self._reader.close()
            self._socket.close()
            self.wake.set()

    def _on_message(self, message: Message) -> None:
        receive = self._receive()
        if receive is not None:
            receive(message)
            self.wake.set()


def _close_soon(loop: asyncio.AbstractEventLoop, close: Callable[[], None]) -> None:
    """Close on the loop: the collector may run in any thread, or after the loop's end."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(close)
