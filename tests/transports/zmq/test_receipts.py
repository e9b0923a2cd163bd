"""The receipt publisher: what goes out on which topic, and that nothing is encoded without a subscriber."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgpack
import pytest
import zmq

from lifebus_transports.framing.frames import ALL_TOPIC, BEACON_TOPIC, marker_topic, session_topic
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.topics import Topics
from support.broker_process import until
from support.transports.zmq_pairs import client_of, gated_context

EPOCH = "e" * 32
S1, S2 = session_topic("codex", "s1"), session_topic("codex", "s2")


@dataclass(frozen=True)
class SomeReceipt:
    position: int
    harness_session_id: str | None = "s1"
    adapter_id: str = "codex"
    sequence: int | None = 1
    receipt: bytes = b"{}"


@contextmanager
def open_server() -> Iterator[tuple[ReceiptPublisher, str]]:
    with gated_context({os.geteuid()}) as (context, address):
        server = ReceiptPublisher(context, address)
        try:
            yield server, address
        finally:
            server.close()


async def joined(server: ReceiptPublisher, *topics: bytes) -> None:
    """Wait until the server knows of the subscriptions."""
    await until(lambda: all(server._topics.is_subscribed(topic) for topic in topics))


async def receive(client: "zmq.Socket[bytes]") -> tuple[bytes, bytes, Any]:
    await until(lambda: bool(client.poll(0)))
    topic, epoch, body = client.recv_multipart()
    return topic, epoch, msgpack.unpackb(body)


@pytest.mark.parametrize(
    ("subscribed", "whole", "sessions", "s1"),
    [
        ([], False, False, False),
        ([ALL_TOPIC], True, False, False),
        ([b"a"], True, False, False),
        ([b""], True, True, True),
        ([b"r"], False, True, True),
        ([b"r/"], False, True, True),
        ([b"r/codex/"], False, True, True),
        ([b"r/cod"], False, True, True),
        ([b"r/claude/"], False, True, False),
        ([S1], False, True, True),
        ([S2], False, True, False),
        ([BEACON_TOPIC, marker_topic("n"), b"x", b"ab", b"r/codex/s1/more/"], False, True, False),
    ],
)
def test_topics_are_matched_as_zeromq_matches_them(
    subscribed: list[bytes], whole: bool, sessions: bool, s1: bool
) -> None:
    topics = Topics(b"r/", ALL_TOPIC)
    assert all(topics.update(b"\x01" + topic) for topic in subscribed)
    assert topics.is_subscribed(ALL_TOPIC) == whole
    assert topics.has_subscribers() == sessions
    assert topics.is_subscribed(S1) == s1
    assert all(topics.update(b"\x00" + topic) for topic in subscribed)
    assert (topics.is_subscribed(ALL_TOPIC), topics.has_subscribers(), topics.is_subscribed(S1)) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize("message", [b"", b"\x02a/", b"\xffa/", b"\x01r/" + b"x" * 8_192, b"\x00r/" + b"x" * 8_192])
def test_what_is_no_subscription_or_too_long_is_not_taken(message: bytes) -> None:
    assert not Topics(b"r/", ALL_TOPIC).update(message)


def test_beacons_and_markers_are_not_kept_so_that_many_followers_cost_no_look_at_each() -> None:
    topics = Topics(b"r/", ALL_TOPIC)
    assert all(topics.update(b"\x01" + marker_topic(f"n{number}")) for number in range(10_000))
    assert topics._prefixes == set()


def test_prefixes_are_bounded_and_room_returns_when_they_go() -> None:
    topics = Topics(b"r/", ALL_TOPIC)
    taken = [topics.update(b"\x01r/x%d" % number) for number in range(2_000)]
    assert taken == [True] * 1_024 + [False] * 976
    assert topics.update(b"\x01r/x0")
    assert topics.update(b"\x01" + S1)
    assert topics.update(b"\x00r/x0")
    assert topics.update(b"\x01r/late")


async def test_rows_go_out_whole_and_by_session() -> None:
    stored = [SomeReceipt(1, sequence=1), SomeReceipt(2, "s2", sequence=1), SomeReceipt(3, sequence=2)]
    with (
        open_server() as (server, address),
        client_of(address, zmq.SUB, ALL_TOPIC) as whole,
        client_of(address, zmq.SUB, S1) as session,
    ):
        await joined(server, ALL_TOPIC, S1)
        server.publish(EPOCH, stored)
        assert await receive(whole) == (ALL_TOPIC, EPOCH.encode(), [[1, 1, b"{}"], [2, 1, b"{}"], [3, 2, b"{}"]])
        assert await receive(session) == (S1, EPOCH.encode(), [[1, 1, b"{}"], [3, 2, b"{}"]])
    assert (server.counters.messages, server.counters.receipts) == (2, 3)


async def test_nothing_is_encoded_without_a_subscriber() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, S2):
        await joined(server, S2)
        server.publish(EPOCH, [SomeReceipt(1)])
    assert (server.counters.messages, server.counters.receipts) == (0, 1)


async def test_a_large_commit_goes_out_in_messages_of_256_rows() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, ALL_TOPIC) as client:
        await joined(server, ALL_TOPIC)
        server.publish(EPOCH, [SomeReceipt(position) for position in range(1, 601)])
        bodies = [(await receive(client))[2] for _ in range(3)]
    assert [len(body) for body in bodies] == [256, 256, 88]
    assert [one[0] for body in bodies for one in body] == list(range(1, 601))


async def test_a_receipt_without_session_has_a_topic_that_no_session_can_have() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, b"r/") as client:
        await joined(server, b"r/")
        server.publish(EPOCH, [SomeReceipt(1, None, sequence=None)])
        assert await receive(client) == (b"r/codex//", EPOCH.encode(), [[1, None, b"{}"]])


async def test_beacons_count_up_and_split_what_is_too_much_for_one() -> None:
    heads = {("codex", f"s{number}"): number for number in range(2_500)}
    with open_server() as (server, address), client_of(address, zmq.SUB, b"") as client:
        await joined(server, S1)
        server.publish_beacon(EPOCH, head=1, floor=0, sessions={})
        server.publish_beacon(EPOCH, head=9, floor=2, sessions=heads, closing=True)
        beacons = [await receive(client) for _ in range(4)]
    assert {topic for topic, _, _ in beacons} == {BEACON_TOPIC}
    first, *parts = [body for _, _, body in beacons]
    assert (first["head"], first["closing"], first["sessions"]) == (1, False, {})
    assert [(part["head"], part["floor"], part["closing"]) for part in parts] == [(9, 2, True)] * 3
    assert [part["number"] for part in parts] == [first["number"] + step for step in (1, 2, 3)]
    assert [len(part["sessions"]) for part in parts] == [1_024, 1_024, 452]
    named = {topic: sequence for part in parts for topic, sequence in part["sessions"].items()}
    assert named == {f"r/codex/s{number}/": number for number in range(2_500)}


async def test_a_marker_reaches_only_who_asked_and_comes_behind_what_was_published_before() -> None:
    with (
        open_server() as (server, address),
        client_of(address, zmq.SUB, ALL_TOPIC, marker_topic("mine")) as mine,
        client_of(address, zmq.SUB, S1, marker_topic("other")) as other,
    ):
        await joined(server, ALL_TOPIC, S1)
        server.publish(EPOCH, [SomeReceipt(1)])
        server.publish_marker(EPOCH, "mine")
        assert [(await receive(mine))[0] for _ in range(2)] == [ALL_TOPIC, marker_topic("mine")]
        assert (await receive(other))[0] == S1
        assert not other.poll(0)


async def test_a_subscriber_that_does_not_read_costs_the_others_nothing() -> None:
    with (
        open_server() as (server, address),
        client_of(address, zmq.SUB, b"r/", RCVHWM=1, RCVBUF=4_096) as stalled,
        client_of(address, zmq.SUB, S1) as healthy,
    ):
        await until(lambda: (server._topics._prefixes, server._topics._whole) == ({b"r/"}, {S1}))
        # the same messages are for both
        for position in range(1, 1_501):
            server.publish(EPOCH, [SomeReceipt(position, receipt=b"x" * 1_000)])
            assert (await receive(healthy))[2][0][0] == position
        assert stalled.poll(0)


async def test_what_is_published_after_the_server_closed_is_dropped() -> None:
    with open_server() as (server, _):
        server.close()
        before = server.counters.messages
        server.publish("e", [SomeReceipt(1)])
        server.publish_transient("e", SomeReceipt(0))
        server.publish_beacon("e", head=1, floor=0, sessions={})
        assert server.counters.messages == before


async def test_a_transient_row_is_published_whoever_follows_the_ledger() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, b"t/codex/", b"r/") as client:
        await joined(server, b"r/")
        server.publish_transient("e" * 32, SomeReceipt(0, None, "codex", None))
        topic, epoch, body = await receive(client)
        assert (topic, epoch, body) == (b"t/codex/", b"e" * 32, [[0, None, b"{}"]])
