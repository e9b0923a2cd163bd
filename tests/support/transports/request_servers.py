"""A request server whose handler notes what it is asked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import zmq

from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import decode_header
from lifebus_transports.zmq.requests import RequestServer, ZmqRequest
from support.broker_process import until
from support.transports.zmq_pairs import gated_context

Asked = list[tuple[ZmqRequest, str, Document]]


@contextmanager
def open_server(
    handle: Callable[[ZmqRequest, str, Document], None] | None = None, **bounds: Any
) -> Iterator[tuple[RequestServer, str, Asked]]:
    """A server whose handler notes what it is asked, unless another one is given."""
    asked: Asked = []

    def note(request: ZmqRequest, verb: str, body: Document) -> None:
        asked.append((request, verb, body))
        if handle is not None:
            handle(request, verb, body)

    with gated_context({os.geteuid()}) as (context, address):
        server = RequestServer(context, address, note, **bounds)
        try:
            yield server, address, asked
        finally:
            server.close()


async def receive(client: "zmq.Socket[bytes]") -> tuple[int, str, Any]:
    """Return number, verb and body of the next answer; the server runs meanwhile."""
    await until(lambda: bool(client.poll(0)))
    header, body = client.recv_multipart()
    return *decode_header(header), msgpack.unpackb(body)
