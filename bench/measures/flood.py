"""Requests over a bare DEALER socket, many in flight, and how long each answer took."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import zmq

import lifebus
from bench.workload import Item, Pace, Rate, Stopwatch
from lifebus_contract import CallbackRequest, Emission, encode_msgpack
from lifebus_transports.framing.frames import ANSWER_OK, decode_header, encode_header
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import Emit, EmitAnswer

CLIENT = "bench"
ADAPTER = "codex"
EVENT = "context.compacted"
_PATIENCE_S = 30.0
_answers = msgspec.msgpack.Decoder(EmitAnswer)
_refusals = msgspec.msgpack.Decoder(RefusalInfo)


_Message = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """The rate of acknowledged receipts, and the seconds from each message to its acknowledgement or refusal."""

    rate: Rate
    waits: list[float]
    refusals: list[float]


@dataclass(slots=True)
class _Window:
    """What is under way on one socket; `again` is what was refused and has to be sent once more."""

    dealer: "zmq.Socket[bytes]"
    under_way: dict[int, tuple[float, _Message]] = field(default_factory=dict)
    again: deque[_Message] = field(default_factory=deque)
    waits: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    acknowledged: int = 0

    def send(self, message: _Message) -> None:
        """Send a message; its number comes back with its answer."""
        self.under_way[decode_header(message[0])[0]] = time.perf_counter(), message
        self.dealer.send_multipart(message)

    def take(self, patience: float) -> None:
        """Wait for an answer, so many seconds at most, and take all that are there."""
        self.dealer.poll(1 + int(1e3 * patience))
        while True:
            try:
                header, body = self.dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._answered(header, body)

    def _answered(self, header: bytes, body: bytes) -> None:
        number, verb = decode_header(header)
        began, message = self.under_way.pop(number)
        seconds = time.perf_counter() - began
        if verb == ANSWER_OK:
            self.waits.append(seconds)
            self.acknowledged += _count(body)
        elif _refusals.decode(body).code == "busy":
            self.refusals.append(seconds)
            self.again.append(message)
        else:
            raise RuntimeError(f"refused: {body!r}")


def flood(runtime_dir: Path, items: Sequence[Item], size: int, in_flight: int, pace: Pace | None = None) -> Flood:
    """Emit the items in messages of `size`, so many messages at a time on one connection; refused ones again."""
    requests = [Emission(request=request(item)) for item in items]
    messages = (_message(start, tuple(requests[start : start + size])) for start in range(0, len(items), size))
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDHWM, 0)  # the window bounds what is under way; a send must not wait
        dealer.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
        window, watch = _Window(dealer), Stopwatch()
        heard = time.perf_counter()
        while window.acknowledged < len(items):
            wait = _send_some(window, messages, size, in_flight, pace)
            before = len(window.under_way)
            window.take(wait)
            now = time.perf_counter()
            heard = now if len(window.under_way) < before else heard
            if now - heard > _PATIENCE_S:
                raise RuntimeError(f"no answer within {_PATIENCE_S:.0f} s")
        return Flood(rate=watch.rate(window.acknowledged), waits=window.waits, refusals=window.refusals)


def _send_some(window: _Window, messages: Iterator[_Message], size: int, in_flight: int, pace: Pace | None) -> float:
    """Fill the window as far as the pace allows; return the seconds to wait for answers before more may be sent."""
    while len(window.under_way) < in_flight:
        if pace and (wait := pace.wait()):
            return wait
        message = window.again.popleft() if window.again else next(messages, None)
        if message is None:
            break
        window.send(message)
        if pace:
            pace.spend(size)
    return _PATIENCE_S


def one_message(number: int, items: Sequence[Item]) -> tuple[bytes, bytes]:
    """Return the frames of one message that emits the items; `number` comes back with its answer."""
    return _message(number, tuple(Emission(request=request(item)) for item in items))


def request(item: Item) -> CallbackRequest:
    """Return the request that leads to one receipt of about 400 to 600 bytes."""
    return lifebus.make_request(EVENT, ADAPTER, session=f"s{item.session}", idempotency_key=item.key)


def _message(number: int, emissions: tuple[Emission, ...]) -> tuple[bytes, bytes]:
    return encode_header(number, "emit"), encode_msgpack(Emit(client_id=CLIENT, emissions=emissions))


def _count(body: bytes) -> int:
    """Return how many receipts an answer acknowledges."""
    results = _answers.decode(body).results
    refused = next((result.refusal for result in results if result.refusal), None)
    if refused is not None:
        raise RuntimeError(f"refused: {refused}")
    return sum(len(result.receipts) for result in results)
