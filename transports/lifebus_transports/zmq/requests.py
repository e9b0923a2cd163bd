"""The request server: a ROUTER socket on ipc.  Frames in, calls out, answers back.

It knows no verb: bodies are decoded as the table of verbs says, and one synchronous `handle` serves each request, which
answers at once or later.  What was read waits in a backlog, from which each connection is served in its turn; what
exceeds the bounds of the backlog is refused by its header alone (docs/reliability.md, "Under overload").
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

import structlog
import zmq
from msgspec import Struct

from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError, encode_msgpack
from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import ANSWER_OK, ANSWER_REFUSED, decode_body, decode_header, encode_header
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.verb_types import Verb
from lifebus_transports.messages.verbs import find_verb
from lifebus_transports.zmq.backlog import MAX_PEER_BYTES, Backlog
from lifebus_transports.zmq.socket import Message, SocketReader, make_socket, send_now
from lifebus_transports.zmq.zap import DOMAIN

_log = structlog.get_logger("lifebus.requests")
_REQUEST_FRAMES = 3
_MAX_UNSENT: Final = 16 * 1_048_576
_LARGE: Final = (
    8_192  # answers from this size on are counted until they have left; of smaller ones the number is bounded
)
_MAX_NOTED: Final = 256
# What ZeroMQ holds of a connection beside the backlog, in messages: it is read much faster than it can come.
_MAX_UNREAD_HERE: Final = 256
_SERVE_S: Final = 0.003
_LOOK_AGAIN_S: Final = 0.002
_RETRY_AFTER_MS: Final = 100
# Made once: under overload most of what a turn does is to send it.
_OVERLOADED: Final = encode_msgpack(
    RefusalInfo.of(
        BrokerBusy(
            "too much of this connection waits to be served; nothing of this message was stored",
            code="busy",
            retry_after_ms=_RETRY_AFTER_MS,
        )
    )
)


class ZmqPeer:
    """The connection that a request came over; `identity` is its routing id."""

    __slots__ = ("_server", "identity")

    is_operator = True
    """The gate admits only processes of the broker's own user, and each of them may do what the user may."""

    def __init__(self, server: "RequestServer", identity: bytes) -> None:
        self._server = server
        self.identity = identity

    def send(self, number: int, verb: str, body: object) -> bool:
        """Send a message that answers nothing; False when the peer is gone or does not read."""
        return self._server.send(self.identity, number, verb, body)


class ZmqRequest:
    """One request: whose it is, and where its answer goes."""

    __slots__ = ("_server", "in_reply_to", "routing_id")

    def __init__(self, server: "RequestServer", routing_id: bytes, correlation: int) -> None:
        self._server = server
        self.routing_id = routing_id
        self.in_reply_to = correlation  # a worker's response has the correlation id of its dispatch

    @property
    def peer(self) -> ZmqPeer:
        """The connection; made when it is asked for, because most requests need no more than an answer."""
        return ZmqPeer(self._server, self.routing_id)

    def answer(self, body: object) -> bool:
        """Send the answer; False when the peer is gone or does not read (it asks again with its key)."""
        return self._server.answer(self, body)

    def refuse(self, fault: LifebusError) -> bool:
        """Send why there is none."""
        return self._server.refuse(self, fault)


class RequestHandler(Protocol):
    """Serves one request; calls `ZmqRequest.answer` or `ZmqRequest.refuse` once, now or later."""

    def __call__(self, request: ZmqRequest, verb: str, body: Document, /) -> None:
        """Serve the request.

        Raises:
            LifebusError: becomes the refusal.
        """
        ...


class RequestCounters(Struct):
    """What passed the server since it began."""

    requests: int = 0
    malformed: int = 0
    refused: int = 0
    unanswerable: int = 0
    overloaded: int = 0
    dropped: int = 0


_Waiting = tuple[ZmqRequest, Verb, bytes]


class RequestServer:
    """Listens on `address` until closed.  Bind it only while holding the instance lock (docs/ledger.md D5).

    Requests of verbs that record wait while `is_congested()`; all others are served meanwhile.  Of one connection at
    most `max_waiting_bytes` of each kind wait.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: str,
        handle: RequestHandler,
        *,
        counters: RequestCounters | None = None,
        is_congested: Callable[[], bool] = lambda: False,
        max_waiting_bytes: int = MAX_PEER_BYTES,
        max_unread: int = 10_000,
    ) -> None:
        self.counters = counters or RequestCounters()
        self._is_congested = is_congested
        self._recording: Backlog[_Waiting] = Backlog(max_peer_bytes=max_waiting_bytes)
        self._others: Backlog[_Waiting] = Backlog(max_peer_bytes=max_waiting_bytes)
        self._others_next = True
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unsent: dict[bytes, deque[tuple[zmq.MessageTracker, int]]] = {}
        self._handle = handle
        self._socket = make_socket(context, zmq.ROUTER, domain=DOMAIN)
        # Small messages are cheaper to copy than to track.
        self._socket.copy_threshold = _LARGE
        # Without it an answer to a connection that is gone is dropped without an error.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A second connection with a known routing id must not get the answers of the first.
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        self._socket.setsockopt(zmq.SNDHWM, max_unread)
        self._socket.setsockopt(zmq.RCVHWM, _MAX_UNREAD_HERE)
        self._socket.bind(address)
        self._reader = SocketReader(
            self._socket, self._receive, at_least=2, begun=self._begin_turn, drained=self._serve_some
        )

    def close(self) -> None:
        """Stop reading and close; answers already handed to ZeroMQ leave within its linger of 200 ms."""
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()

    def answer(self, request: ZmqRequest, body: object) -> bool:
        """Send an answer; False when the peer is gone or does not read."""
        return self.send(request.routing_id, request.in_reply_to, ANSWER_OK, body)

    def refuse(self, request: ZmqRequest, fault: LifebusError) -> bool:
        """Send a refusal."""
        return self._refuse(request, encode_msgpack(RefusalInfo.of(fault)))

    def _refuse(self, request: ZmqRequest, body: bytes) -> bool:
        self.counters.refused += 1
        return self._send(request.routing_id, encode_header(request.in_reply_to, ANSWER_REFUSED), body)

    def send(self, peer: bytes, correlation: int, verb: str, body: object) -> bool:
        """Send one message to a connection; False when it is gone or its queue is full, in messages or in bytes."""
        return self._send(peer, encode_header(correlation, verb), encode_msgpack(body))

    def _send(self, peer: bytes, header: bytes, body: bytes) -> bool:
        message = (peer, header, body)
        try:
            # ZeroMQ bounds a peer's queue in messages alone; of large ones, those would be gigabytes.
            if len(body) < _LARGE:
                send_now(self._socket, *message)
            else:
                self._send_large(message)
        except zmq.ZMQError as fault:
            self.counters.unanswerable += 1
            if fault.errno == zmq.EHOSTUNREACH:
                self._drop(peer)
            return False
        finally:
            self._reader.poke()
        return True

    def _send_large(self, message: tuple[bytes, bytes, bytes]) -> None:
        """Send what would add up to much if the peer does not read: it is counted until it has left.

        Raises:
            ZMQError: gone, or 16 MiB wait for this peer.
        """
        unsent = self._unsent.setdefault(message[0], deque())
        # Messages leave in order, so the first that is not done ends the search.
        while unsent and unsent[0][0].done:
            unsent.popleft()
        if sum(size for _, size in unsent) > _MAX_UNSENT:
            raise zmq.Again
        tracker = self._socket.send_multipart(message, zmq.NOBLOCK, copy=False, track=True)
        if tracker is not None:
            unsent.append((tracker, len(message[-1])))
        # Swept now and then: connections come and go, and each would leave an empty queue.
        if len(self._unsent) > _MAX_NOTED:
            self._unsent = {peer: left for peer, left in self._unsent.items() if left and not left[-1][0].done}

    def _receive(self, message: Message) -> None:
        if len(message) != _REQUEST_FRAMES:
            self.counters.malformed += 1
            return
        # A header that cannot be read has no correlation id, so there is nothing to answer to.
        try:
            correlation, verb = decode_header(message[1])
        except InvalidRequest:
            self.counters.malformed += 1
            return
        self.counters.requests += 1
        self._admit(ZmqRequest(self, message[0], correlation), verb, message[2])

    def _admit(self, request: ZmqRequest, name: str, body: bytes) -> None:
        """Have a request wait for its turn; refuse what its connection has no more room for, unread."""
        try:
            verb = find_verb(name)
        except LifebusError as fault:
            self._refuse_unreadable(request, fault)
            return
        # Where nothing waits and there is time, it is served at once.
        if (
            monotonic() < self._until
            and not (self._recording or self._others)
            and not (verb.records and self._is_congested())
        ):
            self._serve(request, verb, body)
            return
        backlog = self._recording if verb.records else self._others
        if not backlog.put(request.routing_id, (request, verb, body), len(body)):
            self.counters.overloaded += 1
            self._refuse(request, _OVERLOADED)

    def _drop(self, peer: bytes) -> None:
        """Drop what waits of a connection that is gone."""
        self.counters.dropped += self._recording.drop(peer) + self._others.drop(peer)

    def _begin_turn(self) -> None:
        self._until = monotonic() + _SERVE_S

    def _serve_some(self) -> None:
        """Serve what waits for the rest of this turn, and come back for what is left."""
        while (backlog := self._next()) is not None:
            self._serve(*backlog.take())
            if monotonic() > self._until:
                self._reader.poke()
                return
        # Commits make room: mostly an answer comes with one and wakes the reader, but it may be due to somebody else.
        if self._recording and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._reader.poke()

    def _next(self) -> Backlog[_Waiting] | None:
        """Return which backlog is served next, in turn; None where nothing may be served now."""
        may_record = bool(self._recording) and not self._is_congested()
        if self._others and (self._others_next or not may_record):
            self._others_next = False
            return self._others
        self._others_next = True
        return self._recording if may_record else None

    def _serve(self, request: ZmqRequest, verb: Verb, body: bytes) -> None:
        try:
            self._handle(request, verb.name, decode_body(body, verb.body))
        except LifebusError as fault:
            self._refuse_unreadable(request, fault)
        except Exception:  # noqa: BLE001  a defect of ours must not take the server down
            _log.exception("request_failed", verb=verb.name)
            self.refuse(request, InternalError("the broker failed on this request; see its log"))

    def _refuse_unreadable(self, request: ZmqRequest, fault: LifebusError) -> None:
        # What is against the contract is a client's mistake; these are no messages at all.
        if fault.code in {"malformed", "too_large", "duplicate_key"}:
            self.counters.malformed += 1
        self.refuse(request, fault)
