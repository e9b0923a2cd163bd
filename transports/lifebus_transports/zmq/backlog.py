"""Messages that were read and wait to be served: shared fairly by connection, bounded in bytes and in number.  Pure.

See docs/reliability.md, "Under overload".
"""

from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

MAX_BYTES: Final = 64 * 1_048_576
"""Most bytes that wait in all; each connection that has messages waiting may hold an equal part of it."""

MAX_PEER_BYTES: Final = 8 * 1_048_576
"""Most bytes of one connection that wait."""

MAX_PEER_MESSAGES: Final = 8_192
"""Most messages of one connection that wait."""

T = TypeVar("T")


class _Waiting(Generic[T]):
    """What waits of one connection, oldest first, each with its size."""

    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages: deque[tuple[T, int]] = deque()
        self.size = 0


class Backlog(Generic[T]):
    """Messages by connection: `take` gives each connection its turn, in the order in which their messages came.

    `size` is how many bytes wait in all.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, max_peer_bytes: int = MAX_PEER_BYTES) -> None:
        self.size = 0
        self._max_bytes, self._max_peer_bytes = max_bytes, max_peer_bytes
        self._peers: OrderedDict[bytes, _Waiting[T]] = OrderedDict()  # the first one is served next

    def __bool__(self) -> bool:
        return bool(self._peers)

    def put(self, peer: bytes, message: T, size: int) -> bool:
        """Have a message wait; False where its connection has its share of the room already."""
        waiting = self._peers.get(peer)
        if waiting is None:
            # The first message of a connection needs no share: whoever asks little is always heard.
            if self.size + size > 2 * self._max_bytes:
                return False
            waiting = self._peers[peer] = _Waiting()
        elif len(waiting.messages) >= MAX_PEER_MESSAGES or waiting.size + size > self._share():
            return False
        waiting.messages.append((message, size))
        waiting.size += size
        self.size += size
        return True

    def take(self) -> T:
        """Return the next message, and put its connection behind the others.

        Raises:
            KeyError: nothing waits.
        """
        peer, waiting = self._peers.popitem(last=False)
        message, size = waiting.messages.popleft()
        self.size -= size
        waiting.size -= size
        if waiting.messages:
            self._peers[peer] = waiting
        return message

    def drop(self, peer: bytes) -> int:
        """Drop what waits of a connection that is gone; return how many messages that were."""
        waiting = self._peers.pop(peer, None)
        if waiting is None:
            return 0
        self.size -= waiting.size
        return len(waiting.messages)

    def _share(self) -> int:
        return min(self._max_peer_bytes, self._max_bytes // len(self._peers))
