"""Sockets of one process, for tests of what is built on them."""

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from lifebus_transports.zmq.zap import UserGate
from support.running import short_directory

ADDRESS = "inproc://pair"


@contextmanager
def pair() -> Iterator[tuple["zmq.Socket[bytes]", "zmq.Socket[bytes]"]]:
    """Two connected sockets."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        for each in (one, other):
            each.setsockopt(zmq.LINGER, 0)
            each.setsockopt(zmq.SNDHWM, 0)
            each.setsockopt(zmq.RCVHWM, 0)
        one.bind(ADDRESS)
        other.connect(ADDRESS)
        yield one, other


@contextmanager
def gated_context(users: set[int]) -> Iterator[tuple["zmq.Context[zmq.Socket[bytes]]", str]]:
    """A context whose gate admits these users, and the address of a server on ipc; enter it on the event loop."""
    with short_directory() as directory, zmq.Context() as context:
        gate = UserGate(context, users)
        try:
            yield context, f"ipc://{directory / 'server'}"
        finally:
            gate.close()


@contextmanager
def client_of(address: str, kind: int, *topics: bytes, **options: int) -> Iterator["zmq.Socket[bytes]"]:
    """A plain client in a context of its own."""
    with zmq.Context() as context, context.socket(kind) as client:
        client.setsockopt(zmq.LINGER, 0)
        for name, value in options.items():
            client.setsockopt(getattr(zmq, name), value)
        for topic in topics:
            client.setsockopt(zmq.SUBSCRIBE, topic)
        client.connect(address)
        yield client
