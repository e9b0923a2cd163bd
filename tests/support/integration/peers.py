"""Peers without manners, and the honest traffic that must not suffer from them."""

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgpack
import zmq

import lifebus
from lifebus_contract import Receipt
from lifebus_transports.framing.frames import decode_header, encode_header
from support.broker_process import until
from support.patience import PATIENCE_MS, PATIENCE_S

HANG_UP_S = 12.0


class RawPeer:
    """A DEALER that sends whatever it is told to."""

    def __init__(self, requests: "zmq.Socket[bytes]") -> None:
        self._socket = requests
        self._numbers = itertools.count(1)

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def ask(self, verb: str, body: bytes) -> int:
        """Send a well-framed request and return its number."""
        number = next(self._numbers)
        self.send(encode_header(number, verb), body)
        return number

    async def answer(self) -> tuple[int, str, Any]:
        """Return number, verb and body of the next answer."""
        assert await asyncio.to_thread(self._socket.poll, PATIENCE_MS), "no answer"
        header, body = self._socket.recv_multipart()
        return *decode_header(header), msgpack.unpackb(body, strict_map_key=False)

    async def refusal(self, verb: str, body: bytes) -> dict[str, Any]:
        """Ask something and return the refusal that must come."""
        number = self.ask(verb, body)
        found, outcome, refusal = await self.answer()
        assert (found, outcome) == (number, "refused"), outcome
        return dict(refusal)

    async def caught_up(self) -> None:
        """Wait until everything sent before was looked at, dropping the answers to it."""
        number = self.ask("ping", b"\x80")
        while (await self.answer())[0] != number:
            pass


@contextmanager
def raw_peer(
    runtime_dir: Path, kind: int = zmq.DEALER, endpoint: str = "requests.ipc", **options: Any
) -> Iterator[RawPeer]:
    with zmq.Context() as context, context.socket(kind) as raw:
        raw.setsockopt(zmq.LINGER, 0)
        raw.setsockopt(zmq.SNDHWM, 0)
        for name, value in options.items():
            raw.setsockopt(getattr(zmq, name), value)
        raw.connect(f"ipc://{runtime_dir / endpoint}")
        yield RawPeer(raw)


def throw(path: Path, data: bytes) -> None:
    """Connect to a socket, send bytes, and hang up; a door that hangs up first is as good."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(BrokenPipeError, ConnectionResetError):
        connection.connect(str(path))  # without a timeout, which would refuse while the queue of the socket is full
        connection.settimeout(PATIENCE_S)
        connection.sendall(data)


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
"""What a ZMTP 3 peer says first, with the NULL mechanism."""


def ready(kind: bytes) -> bytes:
    """Return the command by which a peer says which kind of socket it is."""
    body = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return b"\x04" + bytes([len(body)]) + body


def zmtp_frame(data: bytes) -> bytes:
    return b"\x02" + len(data).to_bytes(8, "big") + data


@contextmanager
def zmtp_connection(path: Path, kind: bytes) -> Iterator[socket.socket]:
    """A connection past its handshake, made by hand, on which anything may follow."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))  # without a timeout, which would refuse while the queue of the socket is full
        connection.settimeout(PATIENCE_S)
        connection.sendall(GREETING + ready(kind))
        received = b""
        while b"READY" not in received:
            piece = connection.recv(4096)
            assert piece, "turned away"
            received += piece
        yield connection


def hung_up(connection: socket.socket) -> bool:
    """Read until the other side ends the connection; False when it does not, which a heartbeat would in 20 s."""
    deadline = time.monotonic() + HANG_UP_S
    connection.settimeout(HANG_UP_S)
    with suppress(ConnectionError):
        while time.monotonic() < deadline:
            if not connection.recv(65_536):
                return True
        return False
    return True


class Traffic:
    """An honest client that emits one after the other, and an honest follower of its session, or of everything."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.acked: list[Receipt] = []
        self.seen: list[Receipt] = []
        self.stop = False

    async def emit(self, bus: lifebus.Bus) -> None:
        while not self.stop:
            result = await bus.emit(lifebus.make_request("session.started", "codex", session="honest"))
            self.acked.extend(result.receipts)

    async def follow(self, bus: lifebus.Bus) -> None:
        async for item in bus.receipts(session=("codex", self.session) if self.session else None, since="start"):
            self.seen.append(item)

    async def goes_on(self, count: int = 20) -> None:
        """Wait for so many more acknowledgements, and for all of them to have been followed."""
        wanted = len(self.acked) + count
        await until(lambda: len(self.acked) >= wanted and len(self.seen) >= wanted)


@asynccontextmanager
async def honest_traffic(runtime_dir: Path, session: str | None = None) -> AsyncIterator[Traffic]:
    """Honest traffic inside the block, which in the end has lost nothing, doubled nothing and kept its order."""
    traffic = Traffic(session)
    async with (
        lifebus.connect("honest", runtime_dir=runtime_dir, timeout=PATIENCE_S) as bus,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(traffic.follow, bus)
        async with anyio.create_task_group() as emitting:
            emitting.start_soon(traffic.emit, bus)
            await traffic.goes_on()
            yield traffic
            await traffic.goes_on()
            traffic.stop = True
        await until(lambda: len(traffic.seen) >= len(traffic.acked))
        tasks.cancel_scope.cancel()
    assert traffic.seen == traffic.acked
    assert [receipt.sequence for receipt in traffic.acked] == list(range(1, len(traffic.acked) + 1))
