"""Connections of a Unix socket: what is sent and received whole, what a failing `accept` does, what is replaced."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lifebus_transports.hooks import connections
from lifebus_transports.hooks.connections import PeerConnection, serve_connections
from support.patience import PATIENCE_S
from support.transports.hook_server_box import talk, until

MUCH = b"much" * 500_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.sock"


async def echo(connection: PeerConnection) -> None:
    with connection:
        received = b""
        while data := await connection.receive():
            received += data
        assert await connection.send(received, PATIENCE_S)


@asynccontextmanager
async def open_echo(path: Path, starved: list[None]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            await serve_connections(path, echo, lambda: starved.append(None), task_status=task_status)

        await tasks.start(serve)
        yield
        tasks.cancel_scope.cancel()


def failing(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let so many calls of `accept` fail, one after the other, with these errors."""
    left, accept = list(numbers), socket.socket.accept

    def first_fail(self: socket.socket) -> Any:
        if left:
            raise OSError(left.pop(0), "as the test says")
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", first_fail)


async def test_what_is_more_than_a_socket_takes_at_once_is_received_and_sent_whole(path: Path) -> None:
    async with open_echo(path, []):
        assert await talk(path, MUCH) == MUCH


async def test_a_peer_that_does_not_read_is_given_up_and_one_that_is_gone_is_noticed() -> None:
    ours, peer = socket.socketpair()
    with PeerConnection(ours) as connection, peer:
        assert not await connection.send(MUCH, 0.01)
        peer.close()
        assert not await connection.send(MUCH, PATIENCE_S)
        assert await connection.receive() == b""


async def test_connections_wait_while_there_are_no_descriptors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, errno.EMFILE, errno.ENFILE)
    starved: list[None] = []
    async with open_echo(path, starved):
        assert await talk(path, b"at last") == b"at last"
    assert len(starved) == 2


async def test_a_server_without_descriptors_rests_between_its_tries_and_may_end_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, *[errno.EMFILE] * 10_000)
    monkeypatch.setattr(connections, "_STARVED_S", PATIENCE_S)
    loop, starved, rests = asyncio.get_running_loop(), list[None](), list[asyncio.TimerHandle]()
    call_later = loop.call_later

    def note(delay: float, *call: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, *call)
        if delay == PATIENCE_S:
            rests.append(timer)
        return timer

    async with open_echo(path, starved):
        monkeypatch.setattr(loop, "call_later", note)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            await until(lambda: len(starved) >= 1)
            for _ in range(20):  # the connection waits in the kernel, and is not asked for in each turn of the loop
                await anyio.lowlevel.checkpoint()
            assert len(starved) == 1
    assert [rest.cancelled() for rest in rests] == [True]


async def test_an_error_of_accept_that_does_not_pass_ends_the_server(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, errno.EINVAL)
    with pytest.raises(ExceptionGroup) as caught:
        async with open_echo(path, []):
            assert await talk(path, b"never served") == b""
    assert caught.group_contains(OSError, match="as the test says")


async def test_a_socket_that_is_there_is_replaced_and_another_file_is_not(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with open_echo(path, []):
        assert await talk(path, b"new") == b"new"
    file = anyio.Path(path)
    await file.unlink()
    await file.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        await serve_connections(path, echo, lambda: None)
    assert await file.read_text() == "mine"
