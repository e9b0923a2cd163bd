"""The receipt publisher's signals: which topic they go to, in messages of a bounded size, none without a subscriber."""

from dataclasses import dataclass

import pytest
import zmq

from lifebus_transports.framing.frames import BEACON_TOPIC, SIGNAL_BEACON_TOPIC, signal_topic
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.topics import Topics
from support.broker_process import until
from support.transports.zmq_pairs import client_of
from transports.zmq.test_receipts import EPOCH, open_server, receive

T1, T2 = signal_topic("codex", "t1"), signal_topic("codex", "t2")


@dataclass(frozen=True)
class SomeSignal:
    sequence: int
    event_type: str = "app_server.error"
    signal: bytes = b"{}"


async def joined(server: ReceiptPublisher, *topics: bytes) -> None:
    """Wait until the server knows of the subscriptions."""
    await until(lambda: all(server._signal_topics.is_subscribed(topic) for topic in topics))


@pytest.mark.parametrize(
    ("subscribed", "any_thread", "t1"),
    [
        ([], False, False),
        ([b""], True, True),
        ([b"s"], True, True),
        ([b"s/codex/"], True, True),
        ([b"s/claude/"], True, False),
        ([T1], True, True),
        ([T2], True, False),
        ([b"s/codex//"], True, False),
        ([b"a/", b"r/", b"h/", SIGNAL_BEACON_TOPIC, b"m/n/"], False, False),
    ],
)
def test_topics_of_signals_are_matched_as_zeromq_matches_them(
    subscribed: list[bytes], any_thread: bool, t1: bool
) -> None:
    topics = Topics(b"s/")
    assert all(topics.update(b"\x01" + topic) for topic in subscribed)
    assert (topics.has_subscribers(), topics.is_subscribed(T1)) == (any_thread, t1)
    assert all(topics.update(b"\x00" + topic) for topic in subscribed)
    assert (topics.has_subscribers(), topics.is_subscribed(T1)) == (False, False)


async def test_signals_go_out_on_the_topic_of_their_thread() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, T2) as one:
        await joined(server, T2)  # before the other's topic, which covers this one
        with client_of(address, zmq.SUB, b"s/codex/") as every:
            await joined(server, T1)
            server.publish_signals(EPOCH, "codex", "t1", [SomeSignal(1), SomeSignal(2)])
            server.publish_signals(EPOCH, "codex", "t2", [SomeSignal(1)])
            stored = [[1, "app_server.error", b"{}"], [2, "app_server.error", b"{}"]]
            assert await receive(every) == (T1, EPOCH.encode(), stored)
            assert (await receive(every))[0] == T2
            assert await receive(one) == (T2, EPOCH.encode(), stored[:1])


async def test_signals_without_a_follower_are_counted_and_not_encoded() -> None:
    with open_server() as (server, address), client_of(address, zmq.SUB, T2):
        await joined(server, T2)
        server.publish_signals(EPOCH, "codex", "t1", [SomeSignal(1)])
    assert (server.counters.messages, server.counters.signals) == (0, 1)


async def test_many_or_large_signals_go_out_in_several_messages() -> None:
    large = [SomeSignal(sequence, signal=b"x" * 40_000) for sequence in range(1, 4)]
    small = [SomeSignal(sequence) for sequence in range(4, 304)]
    with open_server() as (server, address), client_of(address, zmq.SUB, T1) as client:
        await joined(server, T1)
        server.publish_signals(EPOCH, "codex", "t1", [*large, *small])
        bodies = [(await receive(client))[2] for _ in range(4)]
    assert [len(body) for body in bodies] == [1, 1, 256, 45]
    assert [one[0] for body in bodies for one in body] == list(range(1, 304))


async def test_threads_are_named_in_beacons_of_their_own_while_somebody_follows_one() -> None:
    heads = {("codex", f"t{number}"): number for number in range(1, 1_501)}
    with open_server() as (server, address), client_of(address, zmq.SUB, b"h") as client:
        client.subscribe(b"r/none")  # subscriptions come in order, and the server tells of this kind
        await until(lambda: server._topics.is_subscribed(b"r/none"))
        server.publish_signal_beacon(EPOCH, threads=heads)  # nobody follows a thread
        with client_of(address, zmq.SUB, T1):
            await joined(server, T1)
            server.publish_signal_beacon(EPOCH, threads={})
            server.publish_signal_beacon(EPOCH, threads=heads, closing=True)
            server.publish_beacon(EPOCH, head=1, floor=0, sessions={})
            received = [await receive(client)]
            while received[-1][0] != BEACON_TOPIC:
                received.append(await receive(client))
    beacons = [body for topic, _, body in received if topic == SIGNAL_BEACON_TOPIC]
    assert [len(beacon["threads"]) for beacon in beacons][-3:] == [0, 1_024, 476]
    assert [beacon["closing"] for beacon in beacons][-2:] == [True, True]
    assert [beacon["number"] - beacons[0]["number"] for beacon in beacons] == list(range(len(beacons)))
