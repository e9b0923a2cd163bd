"""One connection to the broker's request socket: requests out, answers matched by correlation id.

Nothing is sent to a broker of another user: its directory is checked once, and the kernel says whose process it is each
time a socket connects (docs/reliability.md T2).
"""

import asyncio
import itertools
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import zmq

from lifebus._internal.answers import decode_answer
from lifebus._internal.liveness import while_broker_lives
from lifebus._internal.log import ClientLogger
from lifebus._internal.plain.no_broker import no_broker_words
from lifebus_contract import BrokerBusy, DeadlineExceeded, InvalidRequest, LifebusError, TransportError, encode_msgpack
from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import ANSWER_OK, ANSWER_REFUSED, decode_header, encode_header
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.verbs import VERBS
from lifebus_transports.runtime_dir import check_runtime_dir
from lifebus_transports.zmq.socket import Message, SocketReader, make_socket, send_now
from lifebus_transports.zmq.zap import DOMAIN, UserGate

T = TypeVar("T")

Answered = Callable[[bytes | LifebusError], None]
"""Called once with the answer to a request as it came, or with why there is none."""

REQUESTS: Final = "requests.ipc"
"""The name of the request socket in the runtime directory."""

_log = ClientLogger("lifebus.connection")

_MAX_PENDING: Final = 4_096
_MAX_ANSWER_BYTES: Final = 16 * 1_048_576  # an answer may be larger than any request: it holds many receipts
_RECONNECT_MS: Final = (50, 150)
_RECONNECT_MAX_MS: Final = 1_000  # on this machine a try costs next to nothing, and a session may begin meanwhile


class Connection:
    """A DEALER socket on the event loop.  Cancelling a waiting caller loses only that caller's answer.

    A context has one connection, because the gate that knows its peers is the context's own.
    `closing` holds what else ends with this connection, `consuming` the names that it consumes under.
    `connected` is set each time a socket of the context has come to a broker, which may be another one than before.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", runtime_dir: Path) -> None:
        self.context = context
        self.runtime_dir = runtime_dir
        self.on_push: Callable[[int, str, bytes], None] | None = None
        self.closing: set[Callable[[], None]] = set()
        self.connected = asyncio.Event()
        self.consuming: set[str] = set()
        self._numbers = itertools.count(1)
        self._pending: dict[int, Answered] = {}
        self._stranger: LifebusError | None = None
        # Before any socket: libzmq asks it about each connection, and connects nowhere without an answer.
        self._gate = UserGate(context, {os.geteuid()}, on_refused=self._refuse_stranger, on_admitted=self.connected.set)
        self._socket = connected_socket(context, zmq.DEALER, runtime_dir / REQUESTS)
        self._reader = SocketReader(self._socket, self._receive, at_least=2)

    def close(self) -> None:
        """Close the socket; callers still waiting get a `TransportError`."""
        for close in tuple(self.closing):
            close()
        self._reader.close()
        self._socket.close()
        self._gate.close()
        self._fail_pending(TransportError("the connection was closed before the answer came"))

    async def ask(
        self,
        verb: str,
        body: Document,
        answer: type[T],
        *,
        timeout: float,  # noqa: ASYNC109  a deadline is part of every request
        watch: bool = False,
        lasting: bool = False,
    ) -> T:
        """Return the answer to one request.

        With `watch` it ends within a second once no broker runs, as does what takes long in any case.
        What is `lasting` also ends when another broker has taken the place of the one that was asked.

        Raises:
            DeadlineExceeded: no answer within `timeout` seconds; what became of the request is unknown.
            BrokerBusy: this side's or the broker's queue is full.
            InternalError: the answer cannot be read; what became of the request is unknown.
            TransportError: the broker ended before it answered what is watched or takes long.
            LifebusError: the broker refused, or is another user's (`foreign_broker`).
        """
        encoded = encode_msgpack(body)
        return decode_answer(
            await self.ask_encoded(verb, encoded, timeout=timeout, watch=watch, lasting=lasting), answer
        )

    async def ask_encoded(
        self,
        verb: str,
        body: bytes,
        *,
        timeout: float,  # noqa: ASYNC109  as `ask`
        watch: bool = False,
        lasting: bool = False,
    ) -> bytes:
        """Return the answer to one request as it came, both sides being MessagePack.

        Raises:
            LifebusError: as `ask`.
        """
        future, takes_long = self.post(verb, body), lasting or _takes_long(verb)
        try:
            with anyio.fail_after(timeout):
                if not (watch or takes_long):
                    return await future
                # Sent once, and waited for long: whoever answers later, it is not the broker that was asked.
                return await while_broker_lives(self.runtime_dir, lambda: future, same=takes_long)
        except TimeoutError:
            raise DeadlineExceeded(
                f"the broker at {self.runtime_dir} did not answer `{verb}` within {timeout:g} s"
            ) from None
        finally:
            future.cancel()

    def post(self, verb: str, body: bytes) -> "asyncio.Future[bytes]":
        """Send an encoded request and return the future of its raw answer; cancelling it forgets the request.

        Raises:
            LifebusError: as `start`.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        number = self.start(verb, body, partial(_resolve, future))
        # Whatever ends the future frees its number: the answer, a refusal, or a caller that was cancelled.
        future.add_done_callback(lambda _: self.forget(number))
        return future

    def start(self, verb: str, body: bytes, answered: Answered) -> int:
        """Send an encoded request and return its number; `answered` is called when the answer is there.

        Raises:
            BrokerBusy: too many requests are open, or the broker does not read.
            TransportError: the connection is closed.
            LifebusError: as `push`.
        """
        # As many as the socket queues: a broker that is gone is noticed here, and memory is bounded.
        if len(self._pending) >= _MAX_PENDING:
            raise _busy("too many requests are waiting for an answer")
        number = next(self._numbers)
        self.push(number, verb, body)
        self._pending[number] = answered
        return number

    def forget(self, number: int) -> None:
        """Drop the answer to a request when it comes."""
        self._pending.pop(number, None)

    def push(self, number: int, verb: str, body: bytes) -> None:
        """Send one encoded message that expects no answer of its own (a worker's `response`).

        Raises:
            BrokerBusy: the broker does not read.
            TransportError: the connection is closed.
            LifebusError: a broker of another user has taken the place of ours (`foreign_broker`).
        """
        if self._stranger is not None:
            raise self._stranger
        try:
            send_now(self._socket, encode_header(number, verb), body)
        except zmq.Again:
            raise _busy("the broker does not read") from None
        except zmq.ZMQError:
            raise TransportError("the connection is closed", code="closed") from None
        finally:
            self._reader.recheck()

    def _receive(self, message: Message) -> None:
        if len(message) != 2:  # noqa: PLR2004  header and body
            return
        try:
            number, verb = decode_header(message[0])
        except InvalidRequest as fault:  # whose answer it is cannot be known, so its caller waits for its deadline
            _log.warning("answer_unreadable", fault=fault.detail)
            return
        if verb not in {ANSWER_OK, ANSWER_REFUSED}:
            if self.on_push is not None:
                self.on_push(number, verb, message[1])
        elif (answered := self._pending.pop(number, None)) is not None:
            answered(message[1] if verb == ANSWER_OK else refusal_in(message[1]))

    def _refuse_stranger(self, address: str) -> None:
        """End the connection, because a socket is another user's; callers are told whose it is."""
        user = address.split(":")[1] if address.count(":") > 1 else "unknown"
        detail = f"the broker at {self.runtime_dir} belongs to user {user}, not to us; nothing is sent to it"
        self._stranger = LifebusError(detail, code="foreign_broker")
        # For good: libzmq may or may not try again after a refusal, and must not send later what is refused now.
        self._reader.close()
        self._socket.close(linger=0)
        # At once: a closed socket that tries again, and finds a gate that has no time for it, has libzmq abort us.
        self._gate.close()
        self._fail_pending(self._stranger)

    def _fail_pending(self, fault: LifebusError) -> None:
        pending, self._pending = self._pending, {}
        for answered in pending.values():
            answered(fault)


def broker_directory(path: Path) -> Path:
    """Return a broker's directory as an absolute path, once nobody but this user can have made what is in it.

    Raises:
        TransportError: no broker is there (`no_broker`).
        LifebusError: the directory, or one above it, is not ours alone (`directory_owner`, `directory_mode`).
    """
    path = path.absolute()
    # ZeroMQ would wait for the socket to appear; a missing broker is reported at once.
    if not check_runtime_dir(path) or not (path / REQUESTS).exists():
        raise TransportError("; ".join(no_broker_words(path)), code="no_broker")
    return path


def connected_socket(context: "zmq.Context[zmq.Socket[bytes]]", kind: int, path: Path) -> "zmq.Socket[bytes]":
    """Return a socket connected to an ipc path, which reconnects by itself with a jittered, growing delay."""
    socket = make_socket(context, kind, max_bytes=_MAX_ANSWER_BYTES, domain=DOMAIN)
    # Jitter: all clients lose a restarted broker in the same moment.
    socket.setsockopt(zmq.RECONNECT_IVL, random.randint(*_RECONNECT_MS))  # noqa: S311  jitter, not a secret
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
    socket.setsockopt(zmq.SNDHWM, _MAX_PENDING)
    socket.setsockopt(zmq.RCVHWM, _MAX_PENDING)
    socket.connect(f"ipc://{path}")
    return socket


def _resolve(future: "asyncio.Future[bytes]", answer: bytes | LifebusError) -> None:
    if future.done():
        return
    if isinstance(answer, LifebusError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _takes_long(verb: str) -> bool:
    known = VERBS.get(verb)
    return known is not None and known.timeout_factor > 1


def _busy(detail: str) -> BrokerBusy:
    return BrokerBusy(detail, code="busy")


def refusal_in(body: bytes) -> LifebusError:
    """Return the refusal that the broker answered, or that it cannot be read."""
    try:
        return decode_answer(body, RefusalInfo).error()
    except LifebusError as fault:
        return fault
