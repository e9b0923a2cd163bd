"""The base of every iterator over published messages: a feed that is proven live, and repeated requests beside it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final, TypeVar

from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection
from lifebus._internal.feed import Feed
from lifebus.requests import new_id
from lifebus_contract import BrokerBusy, DeadlineExceeded, TransportError
from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import marker_topic
from lifebus_transports.zmq.socket import Message

T = TypeVar("T")

_PAUSE_S: Final = (0.05, 5.0)
_ATTEMPT_S: Final = 1.0
_FRAMES: Final = 3


class Follower(ABC):
    """Receives the messages of a few topics.  Dropping it frees its socket; `aclose` frees it at once."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._feed: Feed | None = None
        self._marked = False
        self._ended = False

    async def aclose(self) -> None:
        """Stop following and free the socket.  The iterator then ends."""
        self._ended = True
        self._close_feed()

    @abstractmethod
    def _on_message(self, topic: bytes, epoch: str, body: bytes) -> None:
        """Take one published message; runs on the event loop and never waits."""

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()

    async def _subscribe(self, topics: Iterable[bytes]) -> None:
        """Open the feed and wait until it reaches here.

        Raises:
            DeadlineExceeded: the broker does not answer.
            TransportError: its stream does not reach here.
        """
        self._marked = False
        nonce = new_id("m").lower()
        feed = self._feed = Feed(self._connection, (*topics, marker_topic(nonce)), self._receive)
        await feed.confirm(nonce, lambda: self._marked, self._timeout)

    async def _wait(self) -> None:
        """Wait for a message.

        Raises:
            TransportError: the connection is closed.
        """
        feed = self._open_feed()
        feed.wake.clear()  # nothing awaits between the caller's check and here, so no message is missed
        await feed.wake.wait()

    def _open_feed(self) -> Feed:
        if self._feed is None or self._feed.closed:
            raise TransportError("the connection is closed", code="closed")
        return self._feed

    async def _read(self, verb: str, body: Document, answer: type[T]) -> T:
        """Ask the ledger until the broker answers; full jitter spreads out many clients that ask at once.

        A broker that ends may lose a request, so the first attempt is short; a slow ledger then gets more time.
        """
        backoff, attempt_s = Backoff(*_PAUSE_S), _ATTEMPT_S
        while True:
            try:
                return await self._connection.ask(verb, body, answer, timeout=min(attempt_s, self._timeout))
            except (BrokerBusy, DeadlineExceeded) as fault:
                await backoff.wait()
                if isinstance(fault, DeadlineExceeded):
                    attempt_s *= 2

    def _receive(self, message: Message) -> None:
        if len(message) != _FRAMES:
            return
        topic, epoch, body = message
        # Any marker on our nonce's topic proves that published messages arrive.
        if topic.startswith(b"m/"):
            self._marked = True
        else:
            self._on_message(topic, epoch.decode("ascii"), body)
