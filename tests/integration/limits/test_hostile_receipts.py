"""Hostile input on the receipt door: it only ever listens to subscriptions, within bounds, and never repeats a peer."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

import lifebus
from lifebus_transports.framing.frames import session_topic
from support.broker_process import broker_process, until
from support.integration.peers import honest_traffic, hung_up, raw_peer, throw, zmtp_connection, zmtp_frame
from support.patience import PATIENCE_MS
from support.running import running_bus, short_directory, until_answered

SEED = 20_251_122
MARK = b"HOSTILE-MARK"
MEBIBYTE = 1_048_576


async def test_what_a_subscriber_sends_is_counted_and_reaches_nobody() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir):
            with raw_peer(broker.runtime_dir, zmq.XSUB, "receipts.ipc") as publisher:
                publisher.send(b"\x01h/")
                for _ in range(1_000):
                    publisher.send(b"a/", b"0" * 32, MARK)
                    publisher.send(b"\x02" + MARK)
                    publisher.send(b"")
                await counted_at_least(broker.runtime_dir, "subscriptions_refused", 1_000)
            assert MARK.decode() not in broker.log


async def counted_at_least(runtime_dir: Path, name: str, count: int) -> None:
    async with lifebus.connect("counting", runtime_dir=runtime_dir) as bus:
        await until_answered(bus.status, lambda status: status.counters[name] >= count)


async def test_ten_thousand_subscriptions_come_and_go_and_their_memory_is_used_again() -> None:
    chooser = random.Random(SEED)
    topics = [b"r/" + chooser.randbytes(chooser.randrange(1, 100)) for _ in range(1_000)]
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            grown: list[int] = []
            for _ in range(4):
                with raw_peer(broker.runtime_dir, zmq.XSUB, "receipts.ipc") as subscriber:
                    for first in (b"\x01", b"\x00") * 10:
                        for topic in topics:
                            subscriber.send(first + topic)
                    await traffic.goes_on()
                grown.append(broker.memory)
            assert grown[-1] - grown[0] < 32 * MEBIBYTE
            async with lifebus.connect("counting", runtime_dir=broker.runtime_dir) as bus:
                assert (await bus.status()).counters["subscribers_cut_off"] == 0


async def test_a_subscriber_of_more_topics_than_anybody_needs_is_hung_up_on_and_its_memory_comes_back() -> None:
    """On a bare connection: libzmq connects anew by itself, and is cut off again."""
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            before = broker.memory
            for _ in range(10):
                with zmtp_connection(broker.runtime_dir / "receipts.ipc", b"SUB") as connection:
                    with suppress(ConnectionError):
                        for number in range(5_000):
                            connection.sendall(zmtp_frame(b"\x01r/%06d" % number + b"x" * 190))
                    assert await asyncio.to_thread(hung_up, connection)
            await traffic.goes_on()
            async with lifebus.connect("counting", runtime_dir=broker.runtime_dir) as bus:
                assert (await bus.status()).counters["subscribers_cut_off"] == 10
            # Together they would take 450 MB; libzmq may take one whole burst in before it lets anybody see it.
            assert broker.memory - before < 128 * MEBIBYTE


@pytest.mark.parametrize(("length", "cut_off"), [(8_192, False), (12_000, False), (20_000, True), (1_000_000, True)])
async def test_a_topic_longer_than_any_real_one_is_counted_or_costs_the_connection(length: int, cut_off: bool) -> None:
    """By hand, because libzmq itself falls over the depth of its own table of topics."""
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            with zmtp_connection(broker.runtime_dir / "receipts.ipc", b"SUB") as connection:
                with suppress(ConnectionError):
                    connection.sendall(zmtp_frame(b"\x01r/" + b"x" * length))
                if cut_off:
                    assert await asyncio.to_thread(hung_up, connection)
                else:
                    await counted_at_least(broker.runtime_dir, "subscriptions_refused", 1)
            await traffic.goes_on()


async def test_garbage_at_the_receipt_door_harms_nobody() -> None:
    chooser = random.Random(SEED)
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            for _ in range(300):
                throw(broker.runtime_dir / "receipts.ipc", MARK + chooser.randbytes(100))
            await traffic.goes_on()
            assert MARK.decode() not in broker.log


async def test_a_subscription_to_one_session_is_none_to_another_whose_name_begins_alike() -> None:
    async with running_bus() as daemon, lifebus.connect(runtime_dir=daemon.settings.runtime_dir) as bus:
        with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
            subscriber.setsockopt(zmq.SUBSCRIBE, session_topic("codex", "s1"))
            subscriber.connect(f"ipc://{daemon.settings.runtime_dir / 'receipts.ipc'}")
            await until(lambda: daemon.receipts._topics.is_subscribed(session_topic("codex", "s1")))
            for session in ("s10", "s1/x", "s", "s1"):
                await bus.emit(lifebus.make_request("session.started", "codex", session=session))
            assert subscriber.poll(PATIENCE_MS)
            assert subscriber.recv_multipart()[0] == session_topic("codex", "s1")
            assert not subscriber.poll(0)
