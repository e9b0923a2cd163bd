"""A server under more than it can serve: what waits, who is served first, what is refused, and what is dropped."""

from typing import Any

import msgpack
import zmq

from lifebus_contract import LifebusError
from lifebus_transports.framing.frames import encode_header
from lifebus_transports.messages.common import Nothing
from lifebus_transports.zmq.requests import ZmqRequest
from support.broker_process import until
from support.transports.request_servers import open_server, receive
from support.transports.zmq_pairs import client_of

EMPTY = b"\x80"
BOUND = 10_000


class Congestion:
    """What the ledger would say."""

    def __init__(self) -> None:
        self.there = True

    def __call__(self) -> bool:
        return self.there


def unreadable(number: int, filler: int = 0) -> list[bytes]:
    """A request of a verb that records, whose body nobody can read: it is looked at in its turn, not before."""
    return [encode_header(number, "emit"), b"\xc1" + bytes(filler)]


async def answers(client: "zmq.Socket[bytes]", count: int) -> list[tuple[int, str, Any]]:
    return [await receive(client) for _ in range(count)]


async def test_what_records_waits_while_there_is_no_room_and_the_rest_is_served() -> None:
    congested = Congestion()
    with open_server(is_congested=congested) as (server, address, asked), client_of(address, zmq.DEALER) as client:
        client.send_multipart(unreadable(1))
        client.send_multipart([encode_header(2, "ping"), EMPTY])
        await until(lambda: bool(asked))
        assert [(request.in_reply_to, verb) for request, verb, _ in asked] == [(2, "ping")]
        assert server.counters.requests == 2
        congested.there = False
        number, verb, body = await receive(client)
    assert (number, verb, body["code"]) == (1, "refused", "malformed")


async def test_every_connection_is_served_in_its_turn() -> None:
    congested, served = Congestion(), list[int]()
    with (
        open_server(is_congested=congested) as (server, address, _),
        client_of(address, zmq.DEALER) as greedy,
        client_of(address, zmq.DEALER) as honest,
    ):

        def note(request: ZmqRequest, fault: LifebusError) -> bool:
            assert fault.code == "malformed"
            served.append(request.in_reply_to)
            return True

        server.refuse = note  # type: ignore[method-assign]
        for number in range(1, 101):
            greedy.send_multipart(unreadable(number))
        await until(lambda: server.counters.requests == 100)
        honest.send_multipart(unreadable(1_000))
        await until(lambda: server.counters.requests == 101)
        congested.there = False
        await until(lambda: len(served) == 101)
    assert served.index(1_000) <= 1
    assert [number for number in served if number != 1_000] == list(range(1, 101))


async def test_what_exceeds_its_share_is_refused_by_its_header_alone_and_others_are_not() -> None:
    with (
        open_server(is_congested=Congestion(), max_waiting_bytes=BOUND) as (server, address, asked),
        client_of(address, zmq.DEALER) as greedy,
        client_of(address, zmq.DEALER) as honest,
    ):
        for number in range(20):
            greedy.send_multipart(unreadable(number, BOUND // 10))
        refused = await answers(greedy, 11)
        honest.send_multipart(unreadable(1))
        await until(lambda: server.counters.requests == 21)
        assert not honest.poll(0)
    assert [number for number, _, _ in refused] == list(range(9, 20))
    assert {(verb, body["code"], body["retry_class"]) for _, verb, body in refused} == {
        ("refused", "busy", "safe_retry")
    }
    assert all(body["retry_after_ms"] > 0 for _, _, body in refused)
    assert (server.counters.overloaded, server.counters.malformed, asked) == (11, 0, [])


async def test_what_a_connection_that_is_gone_has_left_is_dropped() -> None:
    congested = Congestion()
    with open_server(is_congested=congested) as (server, address, _):
        with client_of(address, zmq.DEALER) as client:
            client.send_multipart([encode_header(1, "ping"), EMPTY])
            for number in range(2, 52):
                client.send_multipart(unreadable(number))
            await until(lambda: server.counters.requests == 51)
            (peer,) = server._recording._peers
        await until(lambda: not server.send(peer, 1, "ok", Nothing()))
        assert (server.counters.dropped, server._recording.size) == (50, 0)
        congested.there = False
        with client_of(address, zmq.DEALER) as client:
            client.send_multipart(unreadable(7))
            assert (await receive(client))[0] == 7
        assert server.counters.malformed == 1, "nobody looked at what was dropped"


async def test_a_flood_of_reads_keeps_nobody_from_recording() -> None:
    with (
        open_server() as (server, address, asked),
        client_of(address, zmq.DEALER) as reader,
        client_of(address, zmq.DEALER) as writer,
    ):
        body = msgpack.packb({"nonce": "n"})
        for number in range(500):
            reader.send_multipart([encode_header(number, "marker"), body])
        writer.send_multipart(unreadable(1))
        assert (await receive(writer))[2]["code"] == "malformed"
        await until(lambda: len(asked) == 500)
    assert server.counters.overloaded == 0
