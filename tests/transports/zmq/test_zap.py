"""Peer identity: whom the gate of the ZeroMQ servers admits."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from lifebus_transports.zmq.socket import make_socket
from lifebus_transports.zmq.zap import DOMAIN, UserGate, admit
from support.broker_process import until
from support.running import short_directory

ADMITTED = [("localhost:1000:1000:77", "NULL", 1000), ("localhost:0:0:1", "NULL", 0)]
REFUSED = [
    ("localhost:1001:1000:77", "NULL"),
    ("localhost:1000:1000:77", "PLAIN"),
    ("localhost:1000:1000:77", "CURVE"),
    ("localhost:1000:1000:77", ""),
    ("127.0.0.1", "NULL"),
    ("::1", "NULL"),
    ("", "NULL"),
    ("localhost", "NULL"),
    ("localhost:1000:1000", "NULL"),
    ("localhost:1000:1000:77:8", "NULL"),
    ("elsewhere:1000:1000:77", "NULL"),
    ("localhost:-1000:1000:77", "NULL"),
    ("localhost: 1000:1000:77", "NULL"),
    ("localhost:+1000:1000:77", "NULL"),
    ("localhost:1_000:1000:77", "NULL"),
    ("localhost:²:1000:77", "NULL"),
    ("localhost:\u0660:0:1", "NULL"),
    ("localhost::1000:77", "NULL"),
]
ZAP = b"inproc://zeromq.zap.01"
GOOD = [b"1.0", b"7", DOMAIN.encode(), b"localhost:1000:1000:77", b"", b"NULL"]


@pytest.mark.parametrize(("address", "mechanism", "user"), ADMITTED)
def test_a_listed_user_on_ipc_is_admitted(address: str, mechanism: str, user: int) -> None:
    assert admit(address, mechanism, {0, 1000}) == user


@pytest.mark.parametrize(("address", "mechanism"), REFUSED)
def test_anyone_else_is_refused(address: str, mechanism: str) -> None:
    assert admit(address, mechanism, {0, 1000}) is None


def test_a_gate_without_users_admits_no_peer() -> None:
    assert admit("localhost:0:0:1", "NULL", set()) is None


async def verdict(frames: list[bytes]) -> list[bytes]:
    """Ask a gate for user 1000 as libzmq would."""
    with zmq.Context() as context, context.socket(zmq.REQ) as asking:
        gate = UserGate(context, {1000})
        try:
            asking.connect(ZAP.decode())
            asking.send_multipart(frames)
            await until(lambda: bool(asking.poll(0)))
            return asking.recv_multipart()
        finally:
            gate.close()


async def test_the_gate_answers_in_the_form_that_libzmq_reads() -> None:
    assert await verdict(GOOD) == [b"1.0", b"7", b"200", b"OK", b"1000:1", b""]


@pytest.mark.parametrize(
    "frames",
    [
        [b"2.0", *GOOD[1:]],
        [*GOOD[:2], b"", *GOOD[3:]],
        [*GOOD[:2], b"other", *GOOD[3:]],
        [*GOOD[:3], b"localhost:0:0:1", *GOOD[4:]],
        [*GOOD[:3], b"\xff\xfe", *GOOD[4:]],
        [*GOOD[:5], b"\xff"],
        GOOD[:5],
        [b"1.0", b"7"],
    ],
)
async def test_the_gate_refuses_what_it_does_not_understand(frames: list[bytes]) -> None:
    answer = await verdict(frames)
    assert (answer[1], answer[2], answer[4]) == (b"7", b"400", b"")


async def test_an_empty_request_is_refused_too() -> None:
    assert (await verdict([b""]))[1:3] == [b"", b"400"]


HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


async def connects(directory: Path, users: set[int] | None) -> bool:
    """Whether a client gets through to a server whose gate knows these users, or has no gate at all."""
    address = f"ipc://{directory / 'server'}"
    with ExitStack() as stack:
        inside, outside = stack.enter_context(zmq.Context()), stack.enter_context(zmq.Context())
        if users is not None:
            stack.callback(UserGate(inside, users).close)
        server = stack.enter_context(make_socket(inside, zmq.PULL, domain=DOMAIN))
        client = stack.enter_context(make_socket(outside, zmq.PUSH))
        monitor = stack.enter_context(client.get_monitor_socket(HANDSHAKES))
        server.bind(address)
        client.connect(address)
        await until(lambda: bool(monitor.poll(0)))
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        client.disable_monitor()
    return event == int(zmq.EVENT_HANDSHAKE_SUCCEEDED)


async def test_a_server_admits_its_own_user_and_no_other() -> None:
    with short_directory() as directory:
        assert await connects(directory, {os.geteuid()})
        assert not await connects(directory, {os.geteuid() + 1})


async def test_a_server_without_its_gate_admits_no_peer() -> None:
    with short_directory() as directory:
        assert not await connects(directory, None)
