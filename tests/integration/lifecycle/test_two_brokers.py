"""Two brokers must never write one ledger, whatever directories, links and deleted locks lie between them."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

import lifebus
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import AppendResult
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.crash.ledger_file import read_ledger
from support.integration.following import until
from support.patience import PATIENCE_S
from support.receipts import entry
from support.running import short_directory

HELD = 69


async def record(broker: BrokerProcess) -> int:
    """Record one receipt and return its sequence."""
    async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        result = await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
    return result.receipts[0].sequence or 0


async def refused_second(directory: Path, **settings: str) -> str:
    """Start another broker, which must give up, and return what it said."""
    second = start_broker(directory, **settings)
    try:
        assert not await second.ready()
        assert await second.ended() == HELD, second.log
        return second.log
    finally:
        second.close()


@pytest.mark.parametrize("link", [False, True], ids=["same", "linked"])
async def test_two_brokers_with_one_state_directory_or_one_ledger_never_both_run(link: bool) -> None:
    with short_directory() as directory, short_directory() as other:
        async with broker_process(directory) as broker:
            assert await record(broker) == 1
            (other / "linked.db").symlink_to(broker.ledger_path)
            ledger = other / "linked.db" if link else broker.ledger_path
            said = await refused_second(other, LIFEBUS_LEDGER_PATH=str(ledger))
            assert f"process {broker.pid}" in said
            if not link:
                await refused_second(other, LIFEBUS_STATE_DIR=str(directory / "state"))
            assert await record(broker) == 2
        assert len(read_ledger(directory / "state" / "ledger.db", directory / "copy")) == 2


async def test_a_deleted_lock_lets_nobody_in_and_costs_the_running_broker_nothing() -> None:
    with short_directory() as directory, short_directory() as logs:
        async with broker_process(directory) as broker:
            (broker.runtime_dir / "lock").unlink()
            settings = {"LIFEBUS_RUNTIME_DIR": str(broker.runtime_dir), "LIFEBUS_STATE_DIR": str(directory / "state")}
            await refused_second(logs, **settings)
            assert await record(broker) == 1
            assert await broker.terminate() == 0


async def test_what_a_killed_broker_left_is_no_obstacle() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await record(broker)
            await broker.kill()
        assert {"lock", "hook.sock", "requests.ipc"} <= {path.name for path in broker.runtime_dir.iterdir()}
        async with broker_process(directory) as broker:
            assert await record(broker) == 2


async def test_a_socket_bound_over_a_door_is_gone_after_the_next_start() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await record(broker)
            await broker.kill()
        (broker.runtime_dir / "hook.sock").unlink()
        with closing(socket.socket(socket.AF_UNIX)) as thief:
            thief.bind(str(broker.runtime_dir / "hook.sock"))
            thief.listen()
            async with broker_process(directory) as broker:
                assert await record(broker) == 2
                thief.setblocking(False)
                with pytest.raises(BlockingIOError):
                    thief.accept()


async def test_with_every_lock_deleted_the_one_that_is_behind_stops_and_no_position_is_given_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"
    faults: list[Exception] = []
    first = await SqliteLedger.open(path, failed=faults.append)
    second = await SqliteLedger.open(path, failed=faults.append)
    acknowledged: list[AppendResult] = []
    second.append([entry(1, key="a")], acknowledged.extend)
    await until(lambda: acknowledged)
    first.append([entry(2, key="b")], acknowledged.extend)
    await until(lambda: faults)
    second.append([entry(3, key="c")], acknowledged.extend)
    await until(lambda: len(acknowledged) == 2)
    assert not first.status().writable
    await first.aclose()
    await second.aclose()
    assert verify(path) == []
    rows = read_ledger(path, tmp_path / "copy")
    assert [row.receipt for row in rows] == [answer.stored.receipt for answer in acknowledged if answer.stored]
