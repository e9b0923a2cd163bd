"""Requests over a bare DEALER socket, many in flight, and how long each answer took."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import zmq

import lifebus
from bench.workload import Item, Rate, Stopwatch
from lifebus_contract import CallbackRequest, Emission, encode_msgpack
from lifebus_transports.framing.frames import ANSWER_OK, decode_header, encode_header
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.emissions import Emit, EmitAnswer

CLIENT = "bench"
ADAPTER = "codex"
EVENT = "context.compacted"
_answers = msgspec.msgpack.Decoder(EmitAnswer)
_refusals = msgspec.msgpack.Decoder(RefusalInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """The rate of acknowledged receipts, and the seconds from each message to its answer."""

    rate: Rate
    waits: list[float]


@dataclass(slots=True)
class _Window:
    """What is under way on one socket."""

    dealer: "zmq.Socket[bytes]"
    sent_at: dict[int, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    acknowledged: int = 0
    refused: list[int] = field(default_factory=list)

    def send(self, number: int, emissions: tuple[Emission, ...]) -> None:
        """Send a message; `number` comes back with its answer."""
        message = _message(number, emissions)
        self.sent_at[number] = time.perf_counter()
        self.dealer.send_multipart(message)

    def take(self) -> None:
        """Wait for an answer, and take all that are there."""
        if not self.dealer.poll(30_000):
            raise RuntimeError("no answer within 30 s")
        while True:
            try:
                header, body = self.dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            number, verb = decode_header(header)
            self.waits.append(time.perf_counter() - self.sent_at.pop(number))
            if verb == ANSWER_OK:
                self.acknowledged += _count(body)
            elif _refusals.decode(body).code == "busy":
                self.refused.append(number)
            else:
                raise RuntimeError(f"refused: {body!r}")


def flood(runtime_dir: Path, items: Sequence[Item], size: int, in_flight: int) -> Flood:
    """Emit the items in messages of `size`, so many messages at a time on one connection; refused ones again."""
    requests = [Emission(request=request(item)) for item in items]
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
        window, watch, sent = _Window(dealer), Stopwatch(), 0
        while window.acknowledged < len(items):
            while sent < len(items) and len(window.sent_at) < in_flight:
                window.send(sent, tuple(requests[sent : sent + size]))
                sent += size
            window.take()
            again, window.refused = window.refused, []
            for number in again:
                window.send(number, tuple(requests[number : number + size]))
        return Flood(rate=watch.rate(window.acknowledged), waits=window.waits)


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
