"""More than the ledger can take: it waits within bounds, fairly by client, or is refused at once; recorded once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import msgpack
import msgspec

import lifebus
from lifebus_broker.ledger.sqlite.ledger import MAX_QUEUED, SqliteLedger
from lifebus_broker.ledger.sqlite.writing.writer import Task
from lifebus_contract import CallbackRequest, CallbackResponse, DispatchEnvelope, Emission, LifecycleEvent
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.framing.frames import encode_header
from lifebus_transports.messages.emissions import Emit
from lifebus_transports.zmq.backlog import Backlog
from lifebus_transports.zmq.requests import RequestCounters
from support.broker_process import until
from support.integration.peers import RawPeer, raw_peer
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

    ledger._commits.submit(Task(wait, lambda _: None))
    try:
        await until(begun.is_set)
        yield
    finally:
        go_on.set()


def requests(count: int, session: str = "s") -> list[CallbackRequest]:
    return [lifebus.make_request("session.started", "codex", session=session) for _ in range(count)]


def short_requests(count: int, session: str) -> list[CallbackRequest]:
    """Requests with short ids: a thousand of them fit into one message."""
    plain = lifebus.make_request("session.started", "codex", session=session)
    return [
        msgspec.structs.replace(
            plain, event_id=f"evt_{session}{one}", invocation_id=f"inv_{one}", idempotency_key=f"{session}{one}"
        )
        for one in range(count)
    ]


def emit_body(batch: list[CallbackRequest]) -> bytes:
    body = Emit(client_id="raw", emissions=tuple(Emission(request=request) for request in batch))
    return bytes(msgspec.msgpack.encode(body))


@contextmanager
def small_backlog(daemon: Daemon) -> Iterator[RequestCounters]:
    """Room for few requests that wait for the ledger, and the counters of what was refused."""
    assert daemon.requests is not None
    daemon.requests._recording = Backlog(max_peer_bytes=20_000)
    yield daemon.requests.counters


async def test_what_the_ledger_has_no_room_for_waits_and_each_client_has_its_turn() -> None:
    messages = 2 * MAX_QUEUED // BATCH
    async with running_bus() as daemon:
        with raw_peer(daemon.settings.runtime_dir) as greedy, raw_peer(daemon.settings.runtime_dir) as honest:
            async with blocked_writer(daemon):
                for number in range(messages):
                    greedy.send(encode_header(number, "emit"), emit_body(requests(BATCH, "greedy")))
                await until(lambda: daemon.requests.counters.requests == messages)
                # a hook would find room
                assert 0 < daemon.bus.ledger.status().queued < MAX_QUEUED // 2
                honest.send(encode_header(1, "emit"), emit_body(requests(1, "honest")))
                await until(lambda: daemon.requests.counters.requests == messages + 1)
            acked = [await greedy.answer() for _ in range(messages)]
            _, _, answer = await honest.answer()
        (head,) = await daemon.bus.ledger.sessions(("codex", "honest"))
        assert daemon.bus.ledger.head == messages * BATCH + 1
    assert all("refusal" not in result for _, _, body in acked for result in body["results"])
    assert "refusal" not in answer["results"][0]
    assert head.last_position < MAX_QUEUED // 2, "it waited for what the ledger had taken, and for no more"


async def filled(daemon: Daemon, peer: RawPeer) -> int:
    """Have a client send until the ledger takes no more for now; return how many receipts that are."""
    messages, counters = 0, daemon.requests.counters
    before = counters.requests

    def are_read() -> bool:
        return counters.requests == before + messages

    while not daemon.bus.ledger.is_congested():
        peer.send(encode_header(messages, "emit"), emit_body(short_requests(1_000, f"filling{messages}")))
        messages += 1
        await until(are_read)
    return 1_000 * messages


async def test_two_clients_with_six_batches_of_a_thousand_take_turns_and_a_third_waits_for_one_of_each() -> None:
    async with running_bus() as daemon, AsyncExitStack() as stack:
        directory = daemon.settings.runtime_dir
        greedy = [stack.enter_context(raw_peer(directory)) for _ in range(2)]
        honest = stack.enter_context(raw_peer(directory))
        async with blocked_writer(daemon):
            # So that all of them wait: what comes while there is room is taken as it comes.
            taken = await filled(daemon, stack.enter_context(raw_peer(directory)))
            came = daemon.requests.counters.requests
            for name, peer in zip("ab", greedy, strict=True):
                for number in range(6):
                    peer.send(encode_header(number, "emit"), emit_body(short_requests(1_000, f"{name}{number}")))
            await until(lambda: daemon.requests.counters.requests == came + 12)
            honest.send(encode_header(1, "emit"), emit_body(requests(1, "honest")))
            await until(lambda: daemon.requests.counters.requests == came + 13)
        await honest.answer()
        answers = [[(await peer.answer())[2]["results"] for _ in range(6)] for peer in greedy]
        (head,) = await daemon.bus.ledger.sessions(("codex", "honest"))
        assert daemon.bus.ledger.head == taken + 12_001
    assert not [one for peer in answers for answer in peer for one in answer if "refusal" in one]
    first, second = ([answer[0]["positions"][0] for answer in peer] for peer in answers)
    assert all(abs(one - other) <= 1_001 for one, other in zip(first, second, strict=True)), "one waited for the other"
    assert head.last_position == taken + 2_001, "it waited for what the ledger had taken and a turn of each"


async def test_what_exceeds_the_backlog_is_refused_at_once_and_nothing_of_it_is_recorded() -> None:
    async with running_bus() as daemon:
        with small_backlog(daemon) as counters, raw_peer(daemon.settings.runtime_dir) as peer:
            async with blocked_writer(daemon):
                for number in range(40):
                    peer.send(encode_header(number, "emit"), emit_body(requests(BATCH)))
                refused = [await peer.answer()]
                await until(lambda: counters.requests == 40)
                refused += [await peer.answer() for _ in range(counters.overloaded - 1)]
            acked = [await peer.answer() for _ in range(40 - len(refused))]
        head = daemon.bus.ledger.head
    assert len(refused) > 1
    assert {(verb, why["code"], why["retry_class"]) for _, verb, why in refused} == {("refused", "busy", "safe_retry")}
    assert head == len(acked) * BATCH
    assert all("refusal" not in result for _, _, answer in acked for result in answer["results"])


async def test_the_client_library_meets_busy_with_patience_and_everything_is_recorded_once() -> None:
    sent = requests(MAX_QUEUED + 2_000)
    async with running_bus() as daemon, connected(daemon, "eager") as bus:
        with small_backlog(daemon) as counters:
            async with asyncio.TaskGroup() as tasks, blocked_writer(daemon):
                emitting = [tasks.create_task(bus.emit(request)) for request in sent]
                await until(lambda: counters.overloaded > 0)
                await bus.status()
        receipts = [emitted.result().receipts[0] for emitted in emitting]
        assert daemon.bus.ledger.head == len(sent)
        assert await daemon.bus.ledger.verify() == []
    assert {receipt.idempotency_key for receipt in receipts} == {request.idempotency_key for request in sent}
    assert sorted(receipt.sequence or 0 for receipt in receipts) == list(range(1, len(sent) + 1))


async def test_a_long_list_that_meets_busy_in_its_middle_is_recorded_whole() -> None:
    sent = requests(MAX_QUEUED // 2)
    async with running_bus() as daemon, connected(daemon, "eager") as bus:
        with small_backlog(daemon) as counters:
            async with asyncio.TaskGroup() as tasks, blocked_writer(daemon):
                emitting = tasks.create_task(bus.emit(sent))
                await until(lambda: counters.overloaded > 0)
        assert daemon.bus.ledger.head == len(sent)
    assert all(result.refusal is None for result in emitting.result())


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
