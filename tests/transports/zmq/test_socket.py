"""Sockets on the event loop: every message once and in order, whatever the edges of the descriptor do."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq

from lifebus_transports.zmq.socket import Message, SocketReader, make_socket, send_now
from support.broker_process import until
from support.transports.zmq_pairs import pair

MANY = 1_000


@contextmanager
def reading(socket: "zmq.Socket[bytes]", handle: Callable[[Message], None]) -> Iterator[SocketReader]:
    reader = SocketReader(socket, handle)
    try:
        yield reader
    finally:
        reader.close()


async def test_a_burst_longer_than_one_turn_of_the_loop_arrives_whole_and_in_order() -> None:
    seen: list[Message] = []
    with pair() as (one, other), reading(one, seen.append):
        for number in range(MANY):
            other.send_multipart([b"%d" % number, b"body"])
        await until(lambda: len(seen) == MANY)
    assert seen == [[b"%d" % number, b"body"] for number in range(MANY)]


async def test_messages_that_were_there_before_the_reader_are_read() -> None:
    seen: list[Message] = []
    with pair() as (one, other):
        other.send(b"early")
        with reading(one, seen.append):
            await until(lambda: bool(seen))
    assert seen == [[b"early"]]


async def test_sends_in_between_swallow_no_message() -> None:
    """A send may consume the edge of the descriptor; the poke after it is what finds the message."""
    seen: list[Message] = []
    with pair() as (one, other), reading(one, seen.append) as reader:
        for number in range(MANY):
            other.send(b"%d" % number)
            one.send(b"answer")
            reader.poke()
            if number % 50 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(seen) == MANY)
    assert [int(message[0]) for message in seen] == list(range(MANY))


async def test_other_work_gets_its_turn_in_the_middle_of_a_burst() -> None:
    seen: list[Message] = []
    turns: list[int] = []
    with pair() as (one, other):
        for number in range(MANY):
            other.send(b"%d" % number)
        with reading(one, seen.append):
            while len(seen) < MANY:
                turns.append(len(seen))
                await asyncio.sleep(0)
    assert len(turns) > 3


async def test_a_turn_of_the_loop_has_one_turn_of_reading_while_messages_come_and_more_is_to_be_served() -> None:
    """What is due by a poke and by the descriptor at once must not add up: each would be due again the next time."""
    begun: list[int] = []
    turns: list[int] = []

    def ask_for_more() -> None:
        reader.poke()

    with pair() as (one, other):
        reader = SocketReader(one, lambda _: None, begun=lambda: begun.append(1), drained=ask_for_more)
        for _ in range(MANY):
            other.send(b"asked")
            await asyncio.sleep(0)
            turns.append(len(begun))
            begun.clear()
        reader.close()
    assert set(turns) == {1}


async def test_a_closed_reader_calls_no_handler_and_leaves_the_socket_open() -> None:
    seen: list[Message] = []
    with pair() as (one, other):
        with reading(one, seen.append) as reader:
            other.send(b"first")
            await until(lambda: bool(seen))
            reader.close()
            reader.close()
            other.send(b"second")
            await asyncio.sleep(0)
        assert seen == [[b"first"]]
        assert one.recv() == b"second"


async def test_a_handler_may_close_its_reader() -> None:
    seen: list[Message] = []
    readers: list[SocketReader] = []

    def handle(message: Message) -> None:
        seen.append(message)
        readers[0].close()

    with pair() as (one, other), reading(one, handle) as reader:
        readers.append(reader)
        other.send(b"first")
        other.send(b"second")
        await until(lambda: bool(seen))
        await asyncio.sleep(0)
    assert seen == [[b"first"]]


async def test_a_message_that_its_handler_fails_on_does_not_hold_up_the_next_ones() -> None:
    seen: list[Message] = []
    complaints: list[str] = []

    def handle(message: Message) -> None:
        if message == [b"bad"]:
            raise ValueError("bad")
        seen.append(message)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(str(context["exception"])))
    with pair() as (one, other), reading(one, handle):
        for word in (b"bad", b"good", b"bad", b"better"):
            other.send(word)
        await until(lambda: len(seen) == 2)
    assert (seen, complaints) == ([[b"good"], [b"better"]], ["bad", "bad"])


def test_every_socket_has_its_limits() -> None:
    with zmq.Context() as context, make_socket(context, zmq.ROUTER, max_bytes=1_000, domain="d") as socket:
        assert socket.getsockopt(zmq.MAXMSGSIZE) == 5_096
        assert socket.getsockopt(zmq.LINGER) == 200
        assert socket.getsockopt(zmq.HANDSHAKE_IVL) == 2_000
        assert socket.getsockopt(zmq.HEARTBEAT_IVL) == 5_000
        assert socket.getsockopt(zmq.ZAP_DOMAIN) == b"d"
        assert socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN) == 1


def test_sending_never_waits() -> None:
    with zmq.Context() as context, make_socket(context, zmq.DEALER) as lonely:
        lonely.setsockopt(zmq.IMMEDIATE, 1)
        with pytest.raises(zmq.Again):
            send_now(lonely, b"head", b"body")
