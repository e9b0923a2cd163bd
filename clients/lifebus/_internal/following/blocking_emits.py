"""Emissions from threads: each thread sends its message over a socket that nobody else uses, and waits for the answer.

To wake a loop and to be woken by it takes longer than the whole exchange.
"""

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import zmq
from anyio.from_thread import BlockingPortal

from lifebus._internal.connection import REQUESTS, connected_socket, refusal_in
from lifebus._internal.outbox import EmitCall, Outbox, take_answer
from lifebus_contract import Emission, TransportError
from lifebus_transports.framing.frames import ANSWER_OK, decode_header, encode_header
from lifebus_transports.messages.emissions import EmitResult
from lifebus_transports.zmq.socket import send_now

_FRAMES: Final = 2
_ONLY: Final = 1
"""The number of every message: a socket has one under way, and is given up where its answer does not come."""


class BlockingEmits:
    """Records emissions for any number of threads, none of which waits for another.

    The sockets belong to the context of the outbox's connection, whose gate knows whose the broker is, and end with it.
    What does not fit one message, and what has to be asked again, is left to the outbox and its loop.
    """

    def __init__(self, portal: BlockingPortal, outbox: Outbox) -> None:
        self._portal, self._connection, self._outbox = portal, outbox.connection, outbox
        self._lock = threading.Lock()
        self._idle: list[zmq.Socket[bytes]] = []
        self._closed = False
        self._connection.closing.add(self._close)

    def record(self, emissions: Sequence[Emission], *, seconds: float) -> list[EmitResult]:
        """Return the results, in order, as `Outbox.record` does.

        Raises:
            DeadlineExceeded: no answer within `seconds`; what became of the emissions is unknown.
            TransportError: the connection is closed.
        """
        deadline, call = time.monotonic() + seconds, EmitCall(emissions)
        body = self._outbox.encode(call)
        if body is None:
            return self._portal.call(partial(self._outbox.record, emissions, seconds=seconds))
        if emissions:
            self._exchange(call, body, call.patience(seconds))
        results = call.answers()
        if results is None:
            ask = partial(self._outbox.ask_again, call, left=deadline - time.monotonic(), seconds=seconds)
            results = self._portal.call(ask)
        return results

    def _exchange(self, call: EmitCall, body: bytes, seconds: float) -> None:
        """Send one message and take its answer, if it comes in time."""
        socket = self._take()
        try:
            socket.setsockopt(zmq.RCVTIMEO, max(1, round(1e3 * seconds)))
            send_now(socket, encode_header(_ONLY, "emit"), body)
            answer = socket.recv_multipart()
        except zmq.Again:
            socket.close(linger=0)  # a late answer must not be taken for that of another message
            return
        except zmq.ZMQError:
            socket.close(linger=0)
            raise _closed() from None
        except BaseException:
            socket.close(linger=0)
            raise
        self._give_back(socket)
        if len(answer) == _FRAMES:
            _, verb = decode_header(answer[0])
            take_answer(call, answer[1] if verb == ANSWER_OK else refusal_in(answer[1]))

    def _take(self) -> "zmq.Socket[bytes]":
        with self._lock:
            if self._closed:
                raise _closed()
            if self._idle:
                return self._idle.pop()
            connection = self._connection
            return connected_socket(connection.context, zmq.DEALER, connection.runtime_dir / REQUESTS)

    def _give_back(self, socket: "zmq.Socket[bytes]") -> None:
        with self._lock:
            if self._closed:
                socket.close(linger=0)
            else:
                self._idle.append(socket)

    def _close(self) -> None:
        """Close what is idle; a thread that waits for an answer is woken by the end of the context."""
        with self._lock:
            self._closed = True
            for socket in self._idle:
                socket.close(linger=0)
            self._idle.clear()


def _closed() -> TransportError:
    return TransportError("the connection is closed", code="closed")
