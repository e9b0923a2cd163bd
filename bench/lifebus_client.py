"""lifebus as a system under test: a broker process of our own, and clients that speak to its request door.

As with the peers there are two clients: the library where a program would use it, and a bare DEALER socket where many
messages are in flight.

Above: the scenarios.  Below: the client library, the wire.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import zmq

import lifebus
from bench.peers.process import find_program, start, stop, workspace
from bench.workload import Item, Rate, Stopwatch, chunks
from lifebus_contract import CallbackRequest, Emission, LifebusError, encode_msgpack
from lifebus_transports.messages import Backfill, Emit, EmitAnswer
from lifebus_transports.wire import ANSWER_OK, decode_header, encode_header

CLIENT = "bench"
ADAPTER = "codex"
EVENT = "context.compacted"
_answers = msgspec.msgpack.Decoder(EmitAnswer)


class Broker:
    """A broker process with its own directories; it can be killed and started again on the same ledger."""

    def __init__(self, folder: Path) -> None:
        self.runtime_dir = folder / "run"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process

    def start(self) -> None:
        """Start it and wait until it answers."""
        own = {"LIFEBUS_RUNTIME_DIR": self.runtime_dir, "LIFEBUS_STATE_DIR": self._folder / "state"}
        own["LIFEBUS_CONFIG"] = self._folder / "config.toml"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LIFEBUS_")}
        environment |= {name: str(path) for name, path in own.items()}
        own["LIFEBUS_CONFIG"].touch()
        environment["LIFEBUS_TELEMETRY_ENABLED"] = "false"  # there is no harness, and nobody's sessions to read
        command = [find_program("lifebus") or "lifebus", "up"]
        self._process = start(command, self._answers, self._folder / "log", environment)

    def kill(self) -> None:
        """Kill it as a power cut of the process would: SIGKILL, no goodbye."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Stop it in order."""
        stop(self._running)

    def _answers(self) -> bool:
        return (self.runtime_dir / "requests.ipc").exists() and asyncio.run(_ping(self.runtime_dir))


@contextmanager
def broker() -> Iterator[Broker]:
    """Provide a running broker on an empty SQLite ledger with `synchronous=FULL`."""
    with workspace() as folder:
        running = Broker(folder)
        running.start()
        try:
            yield running
        finally:
            running.stop()


class Lifebus:
    """A client of that broker."""

    name = "lifebus"

    def __init__(self, running: Broker) -> None:
        self.pid = running.pid
        self._runtime_dir = running.runtime_dir
        self.settings = asyncio.run(self._describe())

    def batches(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        """Emit lists of `size` (client library), or several such lists at once (bare socket)."""
        if in_flight > 1:
            return self._windowed(items, size, in_flight)
        return asyncio.run(self._batches(items, size))

    def singles(self, items: Sequence[Item], in_flight: int) -> Rate:
        """Emit one request a message, `in_flight` at a time on one connection."""
        return self._windowed(items, 1, in_flight)

    def one_by_one(self, items: Sequence[Item]) -> list[float]:
        """Emit one request after the other (client library)."""
        return asyncio.run(self._one_by_one(items))

    def receipt_size(self) -> int:
        """Return the size in bytes of one recorded receipt."""
        return asyncio.run(self._receipt_size())

    async def _describe(self) -> str:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            ledger = (await bus.status()).ledger
        return f"ledger {ledger.backend} ({ledger.library}), durability {ledger.durability}"

    async def _receipt_size(self) -> int:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            position = (await bus.status()).ledger.head
            page = await bus.read(Backfill(after=max(0, position - 1)))
        return len(page.rows[0].receipt)

    async def _batches(self, items: Sequence[Item], size: int) -> Rate:
        lists = [[request(item) for item in batch] for batch in chunks(items, size)]
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            watch, acknowledged = Stopwatch(), 0
            for one in lists:
                acknowledged += sum(len(done.receipts) for done in await bus.emit(one))
            return watch.rate(acknowledged)

    async def _one_by_one(self, items: Sequence[Item]) -> list[float]:
        seconds = []
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            for item in items:
                one = request(item)
                started = time.perf_counter()
                await bus.emit(one)
                seconds.append(time.perf_counter() - started)
        return seconds

    def _windowed(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        requests = [Emission(request=request(item)) for item in items]
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(f"ipc://{self._runtime_dir / 'requests.ipc'}")
            watch, sent, acknowledged = Stopwatch(), 0, 0
            while acknowledged < len(items):
                while sent < len(items) and sent - acknowledged <= (in_flight - 1) * size:
                    batch = tuple(requests[sent : sent + size])
                    body = encode_msgpack(Emit(client_id=CLIENT, emissions=batch))
                    dealer.send_multipart((encode_header(sent, "emit"), body))
                    sent += len(batch)
                acknowledged += _await_answers(dealer)
            return watch.rate(acknowledged)


def request(item: Item) -> CallbackRequest:
    """Return the request that leads to one receipt of about 400 to 600 bytes."""
    return lifebus.make_request(EVENT, ADAPTER, session=f"s{item.session}", idempotency_key=item.key)


def _await_answers(dealer: "zmq.Socket[bytes]") -> int:
    """Wait for an answer, take all that are there, and return how many receipts they acknowledge."""
    if not dealer.poll(30_000):
        raise RuntimeError("no answer within 30 s")
    acknowledged = 0
    while True:
        try:
            header, body = dealer.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return acknowledged
        if decode_header(header)[1] != ANSWER_OK:
            raise RuntimeError(f"refused: {body!r}")
        acknowledged += _count(body)


def _count(body: bytes) -> int:
    results = _answers.decode(body).results
    refused = next((result.refusal for result in results if result.refusal), None)
    if refused is not None:
        raise RuntimeError(f"refused: {refused}")
    return sum(len(result.receipts) for result in results)


async def _ping(runtime_dir: Path) -> bool:
    try:
        async with lifebus.connect(CLIENT, runtime_dir=runtime_dir, timeout=0.5):
            return True
    except LifebusError:
        return False
