"""What a broker does when its ledger cannot write: it never acknowledges a lie, and reading goes on where it can."""

import os
from contextlib import suppress

import anyio
import pytest

import lifebus
from lifebus_contract import CallbackRequest, LifebusError, Receipt, RetryClass, encode_json
from support.broker_process import BrokerProcess, broker_process, start_broker, until
from support.crash.ledger_file import read_ledger
from support.integration.small_disk import fill, small_disk
from support.patience import PATIENCE_S
from support.running import short_directory

IO = 74


async def emit_until_refused(bus: lifebus.Bus) -> tuple[list[Receipt], LifebusError]:
    """Emit one after the other until one fails; return what was acknowledged, and the failure."""
    acked: list[Receipt] = []
    while True:
        try:
            result = await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        except LifebusError as fault:
            return acked, fault
        acked.extend(result.receipts)


async def emit_until_gone(broker: BrokerProcess, bus: lifebus.Bus) -> list[Receipt]:
    """Emit one after the other until the broker ends, and return what was acknowledged."""
    acked: list[Receipt] = []

    async def emit() -> None:
        with suppress(LifebusError):
            while True:
                acked.extend((await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))).receipts)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(emit)
        await until(lambda: not broker.alive)
        tasks.cancel_scope.cancel()
    return acked


async def receipts_of(bus: lifebus.Bus) -> list[Receipt]:
    return [item async for item in bus.receipts(since="start", until_head=True)]


async def test_after_an_io_error_nothing_is_acknowledged_and_the_broker_exits_74() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory) as broker,
            lifebus.connect("writer", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            broker.limit_file_size(256 * 1024)
            acked = await emit_until_gone(broker, bus)
            assert await broker.ended() == IO
        rows = read_ledger(broker.ledger_path, directory / "copy")
        async with (
            broker_process(directory) as broker,
            lifebus.connect("writer", runtime_dir=broker.runtime_dir) as bus,
        ):
            recovered = await receipts_of(bus)
            result = await bus.emit(lifebus.make_request("session.ended", "codex", session="s1"))
    assert acked
    assert recovered[: len(acked)] == acked
    assert [encode_json(receipt) for receipt in recovered] == [row.receipt for row in rows]
    assert [receipt.sequence for receipt in result.receipts] == [len(recovered) + 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
async def test_a_full_disk_refuses_writes_keeps_reading_and_writes_again_when_space_returns() -> None:
    with short_directory() as directory, small_disk(directory) as disk:
        async with (
            broker_process(directory, LIFEBUS_LEDGER_PATH=str(disk / "ledger.db")) as broker,
            lifebus.connect("writer", runtime_dir=broker.runtime_dir) as bus,
        ):
            ballast = fill(disk, leave=512 * 1024)
            acked, fault = await emit_until_refused(bus)
            assert (fault.code, fault.retry_class) == ("disk_full", RetryClass.SAFE_RETRY)
            assert acked
            assert await receipts_of(bus) == acked
            assert not (await bus.status()).ledger.writable
            ballast.unlink()
            result = await emit_when_writable(broker, bus)
            assert [receipt.sequence for receipt in result.receipts] == [len(acked) + 1]
            assert await broker.terminate() == 0
        rows = read_ledger(disk / "ledger.db", directory / "copy")
    assert [row.receipt for row in rows] == [encode_json(receipt) for receipt in (*acked, *result.receipts)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
async def test_a_broker_that_was_killed_starts_on_a_full_disk_reads_refuses_and_recovers() -> None:
    with short_directory() as directory, small_disk(directory) as disk:
        # everything that the broker keeps lies on the disk that is full, its small files too
        state = {"LIFEBUS_STATE_DIR": str(disk / "state"), "LIFEBUS_RETENTION_SPARE_MB": "0"}
        async with (
            broker_process(directory, **state) as broker,
            lifebus.connect("writer", runtime_dir=broker.runtime_dir) as bus,
        ):
            acked = [(await bus.emit(begun(number))).receipts[0] for number in range(40)]
            await broker.kill()
        ballast = fill(disk, leave=0)
        async with (
            broker_process(directory, **state) as broker,
            lifebus.connect("writer", runtime_dir=broker.runtime_dir) as bus,
        ):
            assert await receipts_of(bus) == acked
            assert not (await bus.verify()).faults
            assert not (await bus.status()).ledger.writable
            with pytest.raises(LifebusError) as refused:
                await bus.emit(begun(40))
            assert (refused.value.code, refused.value.retry_class) == ("disk_full", RetryClass.SAFE_RETRY)
            ballast.unlink()
            result = await emit_when_writable(broker, bus)
            assert await broker.terminate() == 0
        rows = read_ledger(disk / "state" / "ledger.db", directory / "copy")
    assert [row.receipt for row in rows] == [encode_json(receipt) for receipt in (*acked, *result.receipts)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
async def test_a_disk_too_full_to_open_a_ledger_is_named_as_such() -> None:
    with short_directory() as directory, small_disk(directory) as disk:
        state = {"LIFEBUS_STATE_DIR": str(disk / "state"), "LIFEBUS_RETENTION_SPARE_MB": "0"}
        async with broker_process(directory, **state) as broker:
            assert await broker.terminate() == 0
        fill(disk, leave=0)
        broker = start_broker(directory, **state)
        try:
            assert not await broker.ready()
            assert await broker.ended() == IO
        finally:
            broker.close()
        assert "make room on the disk" in broker.log


def begun(number: int) -> CallbackRequest:
    """A session's start; each session is another, which costs the write-ahead log several pages."""
    return lifebus.make_request("session.started", "codex", session=f"s{number}")


async def emit_when_writable(broker: BrokerProcess, bus: lifebus.Bus) -> lifebus.Emitted:
    await until(lambda: '"ledger.writable"' in broker.log)
    return await bus.emit(lifebus.make_request("session.ended", "codex", session="s1"))


async def test_a_memory_ledger_promises_nothing_and_says_so() -> None:
    epochs: list[str] = []
    with short_directory() as directory:
        for _ in range(2):
            async with (
                broker_process(directory, LIFEBUS_LEDGER_BACKEND="memory") as broker,
                lifebus.connect(runtime_dir=broker.runtime_dir) as bus,
            ):
                result = await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
                status = (await bus.status()).ledger
                epochs.append(status.epoch)
                assert [receipt.sequence for receipt in result.receipts] == [None]
                assert (status.backend, status.durability, status.head) == ("memory", "none", 1)
                assert await broker.terminate() == 0
        assert not (directory / "state" / "ledger.db").exists()
    assert epochs[0] != epochs[1]
