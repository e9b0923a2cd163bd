"""A ZeroMQ socket on the event loop without `zmq.asyncio`: read on readiness, drained in batches.

An awaited zmq receive that is cancelled loses its message and `zmq.asyncio` is three times slower (design 4.9), so the
loop watches the socket's file descriptor and a callback drains it with NOBLOCK.

Above: the doors, the client library.  Below: pyzmq, asyncio.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import zmq

from lifebus_contract.fields import MAX_MESSAGE_BYTES

__all__ = ["Frames", "SocketReader", "make_socket"]

Frames = list[bytes]

_DRAIN: Final = 128
_CHEAP_LOOKS: Final = 2  # to ask costs a third of an `Again`; in a burst it is not worth asking


class SocketReader:
    """Calls `handle(frames)` on the event loop for every message of a socket.

    The descriptor is edge-triggered: it tells of new messages only once, and a send may swallow the edge.  So every
    wake-up drains until nothing is left, and `poke` must be called after sends.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", handle: Callable[[Frames], None]) -> None:
        self._socket = socket
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._poked = False
        self._closed = False
        self._loop.add_reader(self._fd, self._drain)
        self.poke()

    def poke(self) -> None:
        """Look for messages soon, whatever the descriptor says."""
        if not self._poked and not self._closed:
            self._poked = True
            self._loop.call_soon(self._drain)

    def close(self) -> None:
        """Stop reading; the socket itself stays open."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)

    def _drain(self) -> None:
        self._poked = False
        for turn in range(_DRAIN):
            if self._closed or (turn < _CHEAP_LOOKS and not self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN):
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._handle(frames)
        self.poke()


def make_socket(
    context: "zmq.Context[zmq.Socket[bytes]]", kind: int, *, max_bytes: int = MAX_MESSAGE_BYTES, domain: str = ""
) -> "zmq.Socket[bytes]":
    """Return a socket with the limits every door has: message size, heartbeat, handshake, linger (reliability, b2)."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 200)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes + 4096)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 2_000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
    socket.setsockopt(zmq.HEARTBEAT_TTL, 15_000)
    socket.setsockopt(zmq.BACKLOG, 1024)
    if domain:
        socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode("ascii"))
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    return socket
