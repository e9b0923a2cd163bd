"""How much each connection subscribes to: one that wants more than the bounds is hung up on.

libzmq keeps every topic of every subscriber in a tree of single bytes, some 9 kB a topic of 200 bytes, and bounds
neither their number nor their size; its manual mode keeps them all the same.  What it offers is the descriptor of the
connection that a message came by (docs/reliability.md, "Under overload").
"""

import os
import socket
from collections import OrderedDict
from contextlib import suppress
from enum import Enum
from typing import Final

import zmq

from lifebus_transports.zmq.socket import Message

MAX_TOPICS: Final = 1_024
"""Most topics of one connection."""

MAX_TOPIC_BYTES: Final = 65_536
"""Most bytes of all topics of one connection."""

_MAX_NOTED: Final = 1_024
_NOW: Final = int(zmq.NOBLOCK)


class SubscriptionOutcome(Enum):
    """What becomes of a subscription message."""

    ADMITTED = "admitted"
    """It counts."""
    EXCEEDED = "exceeded"
    """It is the first beyond the bounds: its connection is to be hung up on."""
    IGNORED = "ignored"
    """It came behind that one.  Its connection has ended, or will; its descriptor may be another one's already."""


class Subscribers:
    """Knows the topics of each connection; those that were silent longest are forgotten."""

    def __init__(self) -> None:
        self._noted: OrderedDict[bytes, _Topics] = OrderedDict()

    def judge(self, connection: bytes, message: bytes) -> SubscriptionOutcome:
        """Take a subscription message into account, and return what becomes of it."""
        known = self._noted.setdefault(connection, _Topics())
        self._noted.move_to_end(connection)
        if len(self._noted) > _MAX_NOTED:
            self._noted.popitem(last=False)
        if known.exceeded:
            return SubscriptionOutcome.IGNORED
        if message[:1] == b"\x01":
            known.add(message[1:])
        elif message[:1] == b"\x00":
            known.remove(message[1:])
        return SubscriptionOutcome.EXCEEDED if known.exceeded else SubscriptionOutcome.ADMITTED


class _Topics:
    """The topics of one connection, and whether they have ever exceeded the bounds."""

    __slots__ = ("exceeded", "size", "topics")

    def __init__(self) -> None:
        self.topics: set[bytes] = set()
        self.size = 0
        self.exceeded = False

    def add(self, topic: bytes) -> None:
        if topic in self.topics:
            return
        self.topics.add(topic)
        self.size += len(topic)
        if len(self.topics) > MAX_TOPICS or self.size > MAX_TOPIC_BYTES:
            self.exceeded = True
            self.topics.clear()

    def remove(self, topic: bytes) -> None:
        if topic in self.topics:
            self.topics.remove(topic)
            self.size -= len(topic)


def receive_subscription(subscriptions: "zmq.Socket[bytes]") -> Message:
    """Return a subscription message, which connection it came by, and the descriptor of that.

    The last two are empty where libzmq says it by itself, because a connection has ended.

    Raises:
        zmq.Again: there is none.
    """
    frame = subscriptions.recv(_NOW, copy=False)
    message = [frame.bytes]
    # What is no subscription may have more frames, which are one message.
    while frame.more:
        frame = subscriptions.recv(_NOW, copy=False)
        message.append(frame.bytes)
    return [*message, _property(frame, "User-Id"), _property(frame, "__fd")]


def hang_up(descriptor: bytes, path: str) -> None:
    """Shut a connection of the socket at `path` down; libzmq then sees its end as any other.

    Where the descriptor has become another connection of that socket meanwhile, its subscriber connects anew and finds
    what it missed in the ledger.
    """
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(int(descriptor))) as connection:
        if connection.family == socket.AF_UNIX and connection.getsockname() == path:
            connection.shutdown(socket.SHUT_RDWR)


def _property(frame: zmq.Frame, name: str) -> bytes:
    try:
        return str(frame.get(name)).encode()
    except zmq.ZMQError:  # it has none
        return b""
