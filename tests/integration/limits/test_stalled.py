"""Peers that stop reading: nobody else waits for them, and the broker keeps no more for them than it promised."""

import itertools

import msgpack

import lifebus
from lifebus_contract import Receipt
from lifebus_transports.framing.frames import encode_header
from support.broker_process import BrokerProcess, broker_process
from support.integration.peers import honest_traffic, raw_peer
from support.patience import PATIENCE_S
from support.running import short_directory
from support.subscriber_process import stopped_subscribers

MEBIBYTE = 1_048_576
STALLED = 16
RECEIPTS = 24_000
BATCH = 512
PAGES = 400
UNDER_WAY = 4_000


async def emit_many(broker: BrokerProcess, count: int) -> list[Receipt]:
    """Emit so many, in large messages, and return what was acknowledged: all of it."""
    acked: list[Receipt] = []
    async with lifebus.connect("many", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        for _ in range(0, count, BATCH):
            batch = [lifebus.make_request("session.started", "codex", session=f"s{n % 8}") for n in range(BATCH)]
            acked.extend(itertools.chain.from_iterable(result.receipts for result in await bus.emit(batch)))
    return acked


async def test_sixteen_stopped_subscribers_cost_the_others_nothing_and_the_broker_little() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await emit_many(broker, BATCH)
            with stopped_subscribers(broker.runtime_dir, STALLED):
                async with honest_traffic(broker.runtime_dir, session="honest") as traffic:
                    memory = broker.memory
                    acked = await emit_many(broker, RECEIPTS)
                    await traffic.goes_on()
                    grown = broker.memory - memory
    assert len(acked) >= RECEIPTS
    assert grown < 64 * MEBIBYTE


async def test_a_client_that_never_reads_its_answers_is_cut_short_and_harms_nobody() -> None:
    page = bytes(msgpack.packb({"limit": 1024}))
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await emit_many(broker, 2 * BATCH)
            async with honest_traffic(broker.runtime_dir, session="honest") as traffic:
                memory = broker.memory
                with raw_peer(broker.runtime_dir, RCVHWM=1, RCVBUF=4096) as peer:
                    for number in range(PAGES):
                        peer.send(encode_header(number, "backfill"), page)
                        await traffic.goes_on(2)
                    grown = broker.memory - memory
    assert grown < 64 * MEBIBYTE


async def test_a_client_with_four_thousand_questions_under_way_gets_every_answer() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            with raw_peer(broker.runtime_dir) as peer:
                asked = [peer.ask("ping", b"\x80") for _ in range(UNDER_WAY)]
                answered = [(await peer.answer())[0] for _ in range(UNDER_WAY)]
            async with lifebus.connect("look", runtime_dir=broker.runtime_dir) as bus:
                counters = (await bus.status()).counters
    assert answered == asked
    assert counters["answers_lost"] == 0
