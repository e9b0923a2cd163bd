"""A real broker on a disk that syncs slowly, or not at all any more."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio.to_thread
import pytest
import zmq

import lifebus
from lifebus_contract import LifebusError, Receipt
from lifebus_transports.framing.frames import BEACON_TOPIC
from support.broker_process import BrokerProcess, broker_process, until
from support.clients.hook_box import HookBox
from support.crash.commit_ways import THREAD, WAY, WAYS
from support.crash.ledger_file import read_ledger
from support.effort import effort
from support.paths import SUPPORT
from support.patience import PATIENCE_MS, PATIENCE_S, SOON_S
from support.running import short_directory

PROGRAM = SUPPORT / "crash/controlled_broker.py"
IO = 74
MANY = effort(64, 2_000)
HOOK = json.dumps({"session_id": "h", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/w"}).encode()


class Controlled:
    """The broker and its disk."""

    def __init__(self, directory: Path, broker: BrokerProcess) -> None:
        self.directory, self.broker = directory, broker

    def take(self, order: str) -> None:
        """Tell the disk what to do at each sync from now on."""
        control(self.directory, order)

    def connect(self) -> AbstractAsyncContextManager[lifebus.Bus]:
        return lifebus.connect("test", runtime_dir=self.broker.runtime_dir, timeout=PATIENCE_S)


def control(directory: Path, order: str) -> None:
    (directory / "new").write_text(order)
    (directory / "new").rename(directory / "disk")


@asynccontextmanager
async def controlled(way: str) -> AsyncIterator[Controlled]:
    with short_directory() as directory:
        control(directory, "")
        async with broker_process(directory, program=PROGRAM, **{WAY: way}) as broker:
            yield Controlled(directory, broker)


async def emit(bus: lifebus.Bus, number: int) -> Receipt:
    result = await bus.emit(lifebus.make_request("session.started", "codex", session=f"s{number % 4}"))
    return result.receipts[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("milliseconds", [2, 10, 100])
async def test_a_slow_disk_delays_acknowledgements_and_loses_and_refuses_nothing(
    milliseconds: int, way: str, record_property: Callable[[str, object], None]
) -> None:
    async with controlled(way) as it, it.connect() as bus:
        it.take(str(milliseconds))
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            emitting = [tasks.create_task(emit(bus, number)) for number in range(MANY)]
        seconds = time.monotonic() - began
        acked = [task.result() for task in emitting]
        seen = [item async for item in bus.receipts(since="start", until_head=True)]
        it.take("")
        rows = read_ledger(it.broker.ledger_path, it.directory / "copy")
    assert {receipt.receipt_id for receipt in acked} == {row.content["receipt_id"] for row in rows}
    assert len(seen) == len(rows) == MANY
    assert seconds >= milliseconds / 1_000, "it was acknowledged before the disk had it"
    record_property("acknowledged", MANY)
    record_property("in ms", round(seconds * 1_000))


async def test_while_a_sync_lasts_everything_but_acknowledging_goes_on() -> None:
    async with controlled(THREAD) as it, it.connect() as bus:
        first = await emit(bus, 0)
        it.take("hold")
        waiting = asyncio.ensure_future(emit(bus, 1))
        await until((it.directory / "held").exists)
        hook = await anyio.to_thread.run_sync(HookBox(it.directory).run, HOOK)
        assert (hook.code, hook.stdout, hook.stderr) == (0, b"", b"")
        assert (await bus.status()).ledger.writable
        assert [item async for item in bus.receipts(since="start", until_head=True)] == [first]
        await anyio.to_thread.run_sync(wait_for_beacons, it.broker.runtime_dir, 5)
        assert not waiting.done()
        it.take("")
        assert (await waiting).sequence == 1
        await until(lambda: len(read_ledger(it.broker.ledger_path, it.directory / "copy")) >= 3)


def wait_for_beacons(runtime_dir: Path, many: int) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as listener:
        listener.setsockopt(zmq.SUBSCRIBE, BEACON_TOPIC)
        listener.connect(f"ipc://{runtime_dir / 'receipts.ipc'}")
        for _ in range(many):
            assert listener.poll(PATIENCE_MS), "no beacon"
            listener.recv_multipart()


@pytest.mark.parametrize("way", WAYS)
async def test_after_the_first_failed_sync_nothing_is_acknowledged_and_the_broker_exits_74_at_once(
    way: str,
    record_property: Callable[[str, object], None],
) -> None:
    acked: list[Receipt] = []
    async with controlled(way) as it:
        async with it.connect() as bus:
            acked += [await emit(bus, number) for number in range(10)]
            bus.timeout = 2.0
            ending = asyncio.ensure_future(end_of(it.broker))
            it.take("fail")
            with pytest.raises(LifebusError):
                await emit(bus, 10)
            code, ended = await ending
        assert code == IO
        seconds = ended - (it.directory / "failed").stat().st_mtime
        assert seconds < SOON_S
        record_property("ms from the failed sync to the end", round(seconds * 1_000))
        rows = read_ledger(it.broker.ledger_path, it.directory / "copy")
        assert [row.content["receipt_id"] for row in rows][:10] == [receipt.receipt_id for receipt in acked]
        assert len(rows) in {10, 11}
        it.take("")
        async with broker_process(it.directory, program=PROGRAM), it.connect() as bus:
            assert (await bus.verify()).faults == ()
            await emit(bus, 11)


async def end_of(broker: BrokerProcess) -> tuple[int, float]:
    """Return the exit code, and when it was there."""
    return await broker.ended(), time.time()
