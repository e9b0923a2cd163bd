"""A ZeroMQ socket on the event loop without `zmq.asyncio`: read on readiness, drained in batches.

An awaited zmq receive that is cancelled loses its message and `zmq.asyncio` is three times slower
(docs/architecture.md, "The event loop"), so the
loop watches the socket's file descriptor and a callback drains it with NOBLOCK.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import zmq

from lifebus_contract.fields import MAX_MESSAGE_BYTES

Message = list[bytes]
"""One message as the socket has it: its frames."""

# As plain numbers: the library's enum flags cost more to combine than the call they are for.
_NOW: Final = int(zmq.NOBLOCK)
_NOW_AND_MORE: Final = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_MORE: Final = int(zmq.RCVMORE)
_EVENTS: Final = int(zmq.EVENTS)
_READABLE: Final = int(zmq.POLLIN)

_DRAIN: Final = 256
_DRAIN_BYTES: Final = 2 * 1_048_576
# Asking for readiness costs a third of an `Again`; in a burst, after so many messages, it is not worth asking.
_CHEAP_CHECKS: Final = 2


class SocketReader:
    """Calls `handle(message)` on the event loop for every message of a socket.

    `at_least` is how many frames every message of this kind of socket has; asking for more costs, so the first ones
    are taken unasked.  `begun` and `drained` are called before and after each turn of reading, also of an empty one.
    `receive` takes a message off the socket in a way of its own.

    The descriptor is edge-triggered: it reports new messages only once, and a send may swallow the edge, also one that
    fails.  So every wake-up drains until nothing is left, and `poke` must be called after each send, whatever became
    of it.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        handle: Callable[[Message], None],
        *,
        at_least: int = 1,
        begun: Callable[[], None] | None = None,
        drained: Callable[[], None] | None = None,
        receive: Callable[["zmq.Socket[bytes]"], Message] | None = None,
    ) -> None:
        self._socket = socket
        self._handle = handle
        self._at_least = at_least
        self._begun, self._drained = begun, drained
        self._receive = receive or self._receive_frames
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._poked = False
        self._closed = False
        self._loop.add_reader(self._fd, self._readable)
        self.poke()

    def poke(self) -> None:
        """Check for messages soon, whatever the descriptor says."""
        if not self._poked and not self._closed:
            self._poked = True
            self._loop.call_soon(self._drain)

    def recheck(self) -> None:
        """As `poke`, for those who send one message at a time: without a turn of the loop where there is nothing."""
        if not self._poked and not self._closed and self._is_readable():
            self.poke()

    def close(self) -> None:
        """Stop reading; the socket itself stays open."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        # One turn of reading a turn of the loop: where one is due already, a second one would breed a third.
        if not self._poked:
            self._drain()

    def _drain(self) -> None:
        self._poked = False
        if self._begun is not None:
            self._begun()
        try:
            if self._read():
                self.poke()
        except BaseException:
            self.poke()  # the messages behind it are not to blame
            raise
        finally:
            if self._drained is not None and not self._closed:
                self._drained()

    def _read(self) -> bool:
        """Hand on what is there, and say whether there may be more."""
        # Bounded by number and size, so that one busy socket does not keep the event loop from the others.  Not by
        # time: what is read late is refused late as well (docs/reliability.md, "Under overload").
        size = 0
        for turn in range(_DRAIN):
            if self._closed or (turn < _CHEAP_CHECKS and not self._is_readable()):
                return False
            try:
                message = self._receive(self._socket)
            # Empty: the descriptor reports the next message.
            except zmq.Again:
                return False
            self._handle(message)
            size += len(message[-1])
            if size > _DRAIN_BYTES:
                break
        return True

    def _is_readable(self) -> bool:
        return bool(int(self._socket.getsockopt(_EVENTS)) & _READABLE)

    def _receive_frames(self, socket: "zmq.Socket[bytes]") -> Message:
        """Return the frames of one message; ZeroMQ delivers all of them or none."""
        message = [socket.recv(_NOW) for _ in range(self._at_least)]
        while socket.getsockopt(_MORE):
            message.append(socket.recv(_NOW))
        return message


def send_now(socket: "zmq.Socket[bytes]", *message: bytes) -> None:
    """Send one message, given by its frames, without waiting.

    Raises:
        zmq.Again: the peer's queue is full.
        zmq.ZMQError: the peer is gone, or the socket is closed.
    """
    for frame in message[:-1]:
        socket.send(frame, _NOW_AND_MORE)
    socket.send(message[-1], _NOW)


def make_socket(
    context: "zmq.Context[zmq.Socket[bytes]]", kind: int, *, max_bytes: int = MAX_MESSAGE_BYTES, domain: str = ""
) -> "zmq.Socket[bytes]":
    """Return a socket with the limits of every server socket: message size, heartbeat, handshake, linger.

    See docs/reliability.md T3.
    """
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 200)
    # Some room above the limit: a body just beyond it is refused with an answer, and not by hanging up.
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes + 4096)
    # A peer that connects and says nothing must not hold a descriptor for ever.
    socket.setsockopt(zmq.HANDSHAKE_IVL, 2_000)
    # A stopped process keeps its connection open; only heartbeats show that it does not read.
    socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
    socket.setsockopt(zmq.HEARTBEAT_TTL, 15_000)
    socket.setsockopt(zmq.BACKLOG, 1024)
    if domain:
        socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode("ascii"))
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    return socket
