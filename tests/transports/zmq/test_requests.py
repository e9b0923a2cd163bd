"""The request server: which handler it calls, which peer it answers, and what happens to peers that do not read."""

import select

import msgpack
import pytest
import zmq

from lifebus_contract import BrokerBusy, InvalidRequest
from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import encode_header
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.reads import Backfill, Marker
from lifebus_transports.zmq.requests import ZmqRequest
from support.broker_process import until
from support.patience import PATIENCE_S
from support.transports.request_servers import open_server, receive
from support.transports.zmq_pairs import client_of

PING = (encode_header(7, "ping"), b"\x80")
MEBIBYTE = 1_048_576


async def test_a_request_reaches_the_handler_typed_and_its_answer_the_asker() -> None:
    with (
        open_server() as (server, address, asked),
        client_of(address, zmq.DEALER) as one,
        client_of(address, zmq.DEALER) as other,
    ):
        one.send_multipart([encode_header(1, "marker"), msgpack.packb({"nonce": "n"})])
        other.send_multipart([encode_header(1, "backfill"), msgpack.packb({"after": 5})])
        await until(lambda: len(asked) == 2)
        bodies = {verb: (request, body) for request, verb, body in asked}
        assert bodies["marker"][1] == Marker(nonce="n")
        assert bodies["backfill"][1] == Backfill(after=5)
        assert server.answer(bodies["backfill"][0], Backfill(after=6))
        assert await receive(other) == (1, "ok", {"after": 6})
        assert not one.poll(0)


async def test_an_answer_that_cannot_be_sent_swallows_no_request() -> None:
    """A failed send consumes the edge of the descriptor as well as one that succeeds."""
    with open_server() as (server, address, asked), client_of(address, zmq.DEALER) as client:
        descriptor = int(server._socket.getsockopt(zmq.FD))
        for _ in range(20):
            asked.clear()
            client.send_multipart(PING)
            # the loop does not run in between: the request is there, and nobody has looked
            assert select.select([descriptor], [], [], PATIENCE_S)[0]
            assert not server.send(b"gone", 1, "ok", Nothing())
            await until(lambda: bool(asked))


async def test_a_refusal_of_the_handler_is_the_answer() -> None:
    def refuse(*_: object) -> None:
        raise BrokerBusy("later", code="busy")

    with open_server(refuse) as (server, address, _), client_of(address, zmq.DEALER) as client:
        client.send_multipart(PING)
        number, verb, body = await receive(client)
    assert (number, verb, body["code"], body["retry_class"]) == (7, "refused", "busy", "safe_retry")
    assert (server.counters.refused, server.counters.malformed) == (1, 0)


async def test_a_defect_of_the_handler_costs_one_request_and_its_text_stays_here() -> None:
    def fail(_: ZmqRequest, verb: str, __: Document) -> None:
        if verb == "ping":
            raise ZeroDivisionError("secret detail")

    with open_server(fail) as (_, address, asked), client_of(address, zmq.DEALER) as client:
        client.send_multipart(PING)
        number, verb, body = await receive(client)
        client.send_multipart([encode_header(8, "status"), b"\x80"])
        await until(lambda: len(asked) == 2)
    assert (number, verb, body["failure_class"]) == (7, "refused", "internal_error")
    assert "secret" not in str(body)


async def test_long_texts_in_a_refusal_are_cut() -> None:
    def refuse(*_: object) -> None:
        raise InvalidRequest("d" * 5_000, field="f" * 5_000)

    with open_server(refuse) as (_, address, _), client_of(address, zmq.DEALER) as client:
        client.send_multipart(PING)
        _, _, body = await receive(client)
    assert (len(body["detail"]), len(body["field"])) == (1_024, 256)


async def test_an_answer_to_a_peer_that_is_gone_is_counted_and_harms_no_other() -> None:
    with open_server() as (server, address, asked):
        with client_of(address, zmq.DEALER) as client:
            client.send_multipart(PING)
            await until(lambda: bool(asked))
        request = asked[0][0]
        await until(lambda: not server.answer(request, Nothing()))
        assert server.counters.unanswerable == 1
        assert not server.answer(ZmqRequest(server, b"nobody", 1), Nothing())


@pytest.mark.parametrize("size", [100, 200_000])
async def test_what_a_peer_does_not_read_is_bounded_in_messages_and_in_bytes(size: int) -> None:
    with (
        open_server(max_unread=500) as (server, address, asked),
        client_of(address, zmq.DEALER, RCVHWM=1, RCVBUF=4_096) as stalled,
        client_of(address, zmq.DEALER) as honest,
    ):
        stalled.send_multipart(PING)
        await until(lambda: len(asked) == 1)
        honest.send_multipart(PING)
        await until(lambda: len(asked) == 2)
        taken = sum(server.answer(asked[0][0], b"x" * size) for _ in range(20_000))
        assert taken * size < 24 * MEBIBYTE
        assert server.counters.unanswerable == 20_000 - taken
        assert server.answer(asked[1][0], b"x" * size)
        assert (await receive(honest))[2] == b"x" * size


async def test_a_peer_that_reads_gets_any_number_of_large_answers() -> None:
    with open_server() as (server, address, asked), client_of(address, zmq.DEALER) as client:
        client.send_multipart(PING)
        await until(lambda: bool(asked))
        for _ in range(300):
            assert server.answer(asked[0][0], bytes(200_000))
            assert len((await receive(client))[2]) == 200_000
        assert len(server._unsent) == 1
