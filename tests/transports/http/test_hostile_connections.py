"""Connections that are meant to last or to be filled: each is ended or bounded, and the others are served."""

import asyncio
import base64
import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from lifebus_transports.http import connections
from lifebus_transports.http.connections import MAX_FRAGMENTS, PlainConnection, SocketConnection
from support.broker_process import until
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.gateway import Address, emit, running_gateway

UPGRADE = (
    "GET /api/stream HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n"
    f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\n"
)
STRANGER = "GET /api/health HTTP/1.1\r\nHost: localhost:{port}\r\n"
"""What somebody without a token may send."""

EVENTS = STRANGER.replace("health", "events") + "Authorization: Bearer {token}\r\n"
RECEIPTS = STRANGER.replace("health", "receipts") + "Authorization: Bearer {token}\r\n"
SLOW = {
    "nothing": "",
    "half a line": "GET /api/hea",
    "a header without an end": STRANGER,
    "the beginning of a second request": f"{STRANGER}\r\nG",
    "a second request behind one with a token": f"{STRANGER}Authorization: Bearer {{token}}\r\n\r\nGET /api",
    "a body that nobody reads": f"{STRANGER}Content-Length: 1000000\r\n\r\nx",
    "a body in pieces that nobody reads": f"{STRANGER}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    "half an upgrade": UPGRADE,
    "the beginning of an upgrade behind a request": f"{STRANGER}\r\n{UPGRADE}",
}


@contextmanager
def plain(address: Address, text: str = "", **buffer: int) -> Generator[socket.socket]:
    """A plain connection that has sent some text, in which port and token stand for themselves."""
    with socket.socket() as found:
        if "read" in buffer:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer["read"])
        found.settimeout(PATIENCE_S)
        found.connect(("127.0.0.1", address.port))
        found.sendall(text.format(port=address.port, token=address.token).encode())
        yield found


def outlast(found: socket.socket, trickle: bytes) -> bool:
    """Send a byte now and then; whether the other side ends the connection."""
    found.settimeout(0.01)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            if not found.recv(65_536):
                return True
        except TimeoutError:
            pass
        except OSError:
            return True
        with contextlib.suppress(OSError):
            found.sendall(trickle)
    return False


@pytest.mark.parametrize("name", SLOW)
async def test_who_never_ends_what_it_says_is_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    # Chunks have a length, all else may be any letter.
    trickle = b"1\r\nx\r\n" if "pieces" in name else b"x" if SLOW[name] else b""
    async with running_gateway() as (_, address):
        with plain(address, SLOW[name]) as found:
            assert await asyncio.to_thread(outlast, found, trickle)
        monkeypatch.undo()  # a slow machine would lose the next one, too
        async with address.client() as client:
            assert (await client.get("/api/health")).status_code == 200


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async with running_gateway(send_timeout_ms=100) as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s" * 200, 64)
        with plain(address, f"{RECEIPTS}\r\n" * 200, read=4_096) as found:
            # The kernel keeps some megabytes of what nobody reads, and the broker what is too much for it.
            assert await asyncio.to_thread(never_read, found)
        async with address.client() as client:
            assert (await client.get("/api/health")).status_code == 200


def never_read(found: socket.socket) -> bool:
    """Send requests, and read nothing; whether the other side ends the connection."""
    try:
        while True:
            found.sendall(b"GET /api/health HTTP/1.1\r\n\r\n" * 1_000)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("text", ["", "GET /api/hea", f"{STRANGER}\r\n", f"{UPGRADE}\r\n", f"{EVENTS}\r\n"])
async def test_a_connection_whose_client_ended_its_half_is_ended(text: str) -> None:
    async with running_gateway() as (daemon, address):
        with plain(address, text) as found:
            if "Authorization" in text:
                await until(lambda: daemon.gateway.streams == 1)
            found.shutdown(socket.SHUT_WR)
            with anyio.fail_after(PATIENCE_S):
                await asyncio.to_thread(read_to_the_end, found)
            await until(lambda: daemon.gateway.streams == 0)


def read_to_the_end(found: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while found.recv(65_536):
            pass


async def test_headers_without_end_are_refused_before_they_fill_anything() -> None:
    async with running_gateway() as (_, address):
        with plain(address, STRANGER) as found, anyio.fail_after(PATIENCE_S):
            sent = await asyncio.to_thread(send_headers, found)
        # What the buffers of both sides take, and not more.
        assert sent < 16_000_000


def send_headers(found: socket.socket) -> int:
    """Send headers until the other side has ended the connection; return how many bytes went."""
    more, sent = b"X: " + b"x" * 1_000 + b"\r\n", 0
    with contextlib.suppress(ConnectionError):
        while True:
            found.sendall(more)
            sent += len(more)
    return sent


class Wire:
    """The transport of a connection: what was written, and whether it is closed."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _: str) -> Any:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def configuration(application: Any) -> uvicorn.Config:
    config = uvicorn.Config(application, lifespan="off", log_config=None)
    config.load()
    return config


@contextlib.asynccontextmanager
async def open_socket() -> AsyncGenerator[tuple[SocketConnection, Wire]]:
    """A WebSocket of the gateway's kind that is open, before an application that takes everything."""
    opened, over = asyncio.Event(), asyncio.Event()

    async def application(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        opened.set()
        await over.wait()

    wire = Wire()
    connection = SocketConnection(configuration(application), ServerState(), {}, asyncio.get_running_loop())
    connection.connection_made(cast("Any", wire))
    connection.data_received((UPGRADE.format(port=1, token="x") + "\r\n").encode())
    await opened.wait()
    wire.written.clear()
    yield connection, wire
    connection.connection_lost(None)
    over.set()


class Hours:
    """The running loop, whose timers are hours away; `due` are those that nobody has cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: list[tuple[str, asyncio.TimerHandle]] = []

    def call_later(self, _: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = self._loop.call_later(3_600, callback)
        self._timers.append((callback.__name__, handle))
        return handle

    def create_task(self, *arguments: Any, **named: Any) -> asyncio.Task[Any]:
        return self._loop.create_task(*arguments, **named)

    def due(self, name: str) -> int:
        return sum(not handle.cancelled() for found, handle in self._timers if found == name)


async def test_only_what_is_unfinished_has_a_deadline() -> None:
    async def application(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    hours, wire, state = Hours(), Wire(), ServerState()
    connection = PlainConnection(configuration(application), state, {}, cast("Any", hours))
    connection.connection_made(cast("Any", wire))
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    steps = [
        (b"", 1),
        (whole[:9], 1),
        (whole[9:], 0),
        (whole, 0),
        (whole + whole[:3], 1),
        (whole[3:-1], 1),
        (whole[-1:], 0),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na", 0),
        (b"b", 1),
        (b"c", 0),
        (whole, 0),
    ]
    for data, expected in steps:
        if data:
            connection.data_received(data)
        while state.tasks:
            await asyncio.wait(state.tasks)
            await asyncio.sleep(0)
        assert hours.due("_check_header") == expected, data
    connection.pause_writing()
    connection.pause_writing()
    assert hours.due("_abort") == 1
    connection.resume_writing()
    assert hours.due("_abort") == 0
    connection.pause_writing()
    connection.data_received(whole[:3])
    connection.connection_lost(None)
    assert hours.due("_abort") + hours.due("_check_header") == 0


def sent(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    """A frame as a client sends it."""
    return Frame(opcode, data, fin=fin).serialize(mask=True)


async def test_pings_of_a_client_that_does_not_read_fill_nothing() -> None:
    async with open_socket() as (connection, wire):
        connection.data_received(sent(Opcode.PING, b"one"))
        assert bytes(wire.written) == Frame(Opcode.PONG, b"one").serialize(mask=False)
        connection.pause_writing()
        wire.written.clear()
        for _ in range(1_000):
            connection.data_received(sent(Opcode.PING, os.urandom(125)))
        connection.resume_writing()
        connection.data_received(sent(Opcode.PING, b"two"))
        assert bytes(wire.written) == Frame(Opcode.PONG, b"two").serialize(mask=False)


async def test_a_message_in_ever_more_fragments_ends_its_connection() -> None:
    async with open_socket() as (connection, wire):
        for _ in range(3):
            # As many messages as one likes, each in a few parts.
            connection.data_received(sent(Opcode.TEXT, b"a", fin=False))
            for last in (False,) * (MAX_FRAGMENTS // 2) + (True,):
                connection.data_received(sent(Opcode.CONT, fin=last))
        assert not wire.is_closing()
        connection.data_received(sent(Opcode.TEXT, b"a", fin=False))
        for _ in range(MAX_FRAGMENTS + 1):
            connection.data_received(sent(Opcode.CONT, fin=False))
        assert wire.closed
        assert bytes(wire.written[2:4]) == (1009).to_bytes(2, "big")
