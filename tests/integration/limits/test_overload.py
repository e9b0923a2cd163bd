"""More than the ledger can take: refused at once and in so many words, never queued without bound, recorded once."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import msgspec

import lifebus
from lifebus_broker.ledger.sqlite.ledger import MAX_QUEUED, SqliteLedger
from lifebus_broker.ledger.sqlite.writer import Task
from lifebus_contract import CallbackRequest, CallbackResponse, DispatchEnvelope, Emission, LifecycleEvent
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.framing.frames import encode_header
from lifebus_transports.messages.emissions import Emit
from support.broker_process import until
from support.integration.peers import raw_peer
from support.patience import PATIENCE_S
from support.running import connected, running_bus

BATCH = 64


@asynccontextmanager
async def blocked_writer(daemon: Daemon) -> AsyncIterator[None]:
    """A ledger whose writer is busy inside the block, as with a disk that takes its time."""
    ledger = daemon.bus.ledger
    assert isinstance(ledger, SqliteLedger)
    go_on, begun = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    ledger._writer.submit(Task(wait, lambda _: None))
    try:
        await until(begun.is_set)
        yield
    finally:
        go_on.set()


def requests(count: int, session: str = "s") -> list[CallbackRequest]:
    return [lifebus.make_request("session.started", "codex", session=session) for _ in range(count)]


def emit_body(batch: list[CallbackRequest]) -> bytes:
    body = Emit(client_id="raw", emissions=tuple(Emission(request=request) for request in batch))
    return bytes(msgspec.msgpack.encode(body))


async def test_a_full_queue_refuses_at_once_and_nothing_of_a_refused_message_is_recorded() -> None:
    messages = MAX_QUEUED // BATCH + 5
    async with running_bus() as daemon:
        with raw_peer(daemon.settings.runtime_dir) as peer:
            async with blocked_writer(daemon):
                for number in range(messages):
                    peer.send(encode_header(number, "emit"), emit_body(requests(BATCH)))
                refused = [await peer.answer() for _ in range(5)]
                assert daemon.bus.ledger.status().queued == MAX_QUEUED
            acked = [await peer.answer() for _ in range(messages - 5)]
        head = daemon.bus.ledger.head
    assert head == MAX_QUEUED
    assert {number for number, _, _ in refused} == set(range(messages - 5, messages))
    for _, _, answer in refused:
        whys = [result["refusal"] for result in answer["results"]]
        assert {(why["code"], why["retry_class"]) for why in whys} == {("busy", "safe_retry")}
    assert all("refusal" not in result for _, _, answer in acked for result in answer["results"])


async def test_the_client_library_meets_busy_with_patience_and_everything_is_recorded_once() -> None:
    sent = requests(MAX_QUEUED + 2_000)
    async with running_bus() as daemon, connected(daemon, "eager") as bus:
        bus.timeout = 20.0
        async with asyncio.TaskGroup() as tasks, blocked_writer(daemon):
            emitting = [tasks.create_task(bus.emit(request)) for request in sent]
            await until(lambda: daemon.bus.ledger.status().queued == MAX_QUEUED)
            await bus.status()
        receipts = [emitted.result().receipts[0] for emitted in emitting]
        assert daemon.bus.ledger.head == len(sent)
        assert await daemon.bus.ledger.verify() == []
    assert {receipt.idempotency_key for receipt in receipts} == {request.idempotency_key for request in sent}
    assert sorted(receipt.sequence or 0 for receipt in receipts) == list(range(1, len(sent) + 1))


async def test_a_long_list_that_meets_busy_in_its_middle_is_recorded_whole() -> None:
    filler, sent = requests(MAX_QUEUED - 3 * BATCH, "filler"), requests(10 * BATCH)
    async with running_bus() as daemon, connected(daemon, "eager") as bus:
        bus.timeout = 20.0
        async with asyncio.TaskGroup() as tasks, blocked_writer(daemon):
            first = tasks.create_task(bus.emit(filler))
            await until(lambda: daemon.bus.ledger.status().queued == len(filler))
            second = tasks.create_task(bus.emit(sent))
            await until(lambda: daemon.bus.ledger.status().queued == MAX_QUEUED)
        assert daemon.bus.ledger.head == len(filler) + len(sent)
    assert all(result.refusal is None for result in (*first.result(), *second.result()))


async def test_reading_goes_on_while_writing_is_blocked() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        result = await bus.emit(requests(1)[0])
        async with blocked_writer(daemon):
            seen = [item async for item in bus.receipts(since="start", until_head=True)]
    assert seen == list(result.receipts)


async def test_too_many_reads_at_once_are_refused_as_busy() -> None:
    page = bytes(msgpack.packb({"limit": 1}))
    async with running_bus(backfills=1) as daemon:
        with raw_peer(daemon.settings.runtime_dir) as peer:
            for number in range(50):
                peer.send(encode_header(number, "backfill"), page)
            answers = [await peer.answer() for _ in range(50)]
    outcomes = [(verb, body.get("code")) for _, verb, body in answers]
    assert set(outcomes) <= {("ok", None), ("refused", "busy")}
    assert ("ok", None) in outcomes
    assert ("refused", "busy") in outcomes


async def test_too_many_dispatches_at_once_are_refused_as_busy_and_the_others_finish() -> None:
    released = asyncio.Event()

    async def handle(_: DispatchEnvelope) -> CallbackResponse:
        await released.wait()
        return CallbackResponse.ok()

    async with running_bus(dispatches=2) as daemon:
        daemon.bus.register("slow", [LifecycleEvent.SESSION_STARTED], handle, deadline=20.0)
        with raw_peer(daemon.settings.runtime_dir) as peer:
            for number in range(3):
                peer.send(encode_header(number, "emit"), emit_body(requests(1)))
            number, _, answer = await peer.answer()
            assert (number, answer["results"][0]["refusal"]["code"]) == (2, "busy")
            released.set()
            finished = [await peer.answer() for _ in range(2)]
    assert {number for number, _, _ in finished} == {0, 1}
    assert all(len(answer["results"][0]["receipts"]) == 1 for _, _, answer in finished)
