"""Clocks that jump and processes that are stopped: nothing is lost, nothing doubled, nothing storms."""

import asyncio
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import anyio
import pytest

import lifebus
from lifebus_broker.ports import Query
from lifebus_contract import Receipt
from lifebus_supervisor.daemon import composition
from support.broker_process import BrokerProcess, broker_process
from support.integration.peers import honest_traffic
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory

HOUR, DAY = 3_600, 86_400
JUMPS = (0, HOUR, -HOUR, DAY, -DAY, 365 * DAY, 0)
TICK_MS = 50
MORE = 3_000
"""More than a subscriber's pipes take: what it gets afterwards is a backfill."""


class WallClock(SimpleNamespace):
    """What the daemon takes for `time`: a wall clock that is set, beside the real monotonic one."""

    offset = 0
    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return time.time() + self.offset

    def time_ns(self) -> int:
        return time.time_ns() + self.offset * 1_000_000_000


async def test_a_wall_clock_that_jumps_changes_no_sequence_no_key_and_drops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = WallClock()
    monkeypatch.setattr(composition, "time", clock)
    requests = [lifebus.make_request("session.started", "codex", session="s") for _ in JUMPS]
    made: list[Receipt] = []
    async with running_bus() as daemon, connected(daemon) as bus:
        for clock.offset, request in zip(JUMPS, requests, strict=True):
            made += (await bus.emit(request)).receipts
            for known, first in zip(made, requests, strict=False):
                again = await bus.emit(first)
                assert (again.replayed, again.receipts) == (True, (known,))
        followed = [item async for item in bus.receipts(since="start", until_head=True)]
        assert await daemon.bus.ledger.verify() == []
        late = await daemon.bus.ledger.read(Query(since_epoch_s=int(time.time() + 2 * DAY)))
    assert followed == made
    assert [receipt.sequence for receipt in made] == list(range(1, len(JUMPS) + 1))
    assert [receipt.at_epoch_s for receipt in made] != sorted(receipt.at_epoch_s for receipt in made)
    assert len({receipt.receipt_id for receipt in made}) == len(JUMPS)
    assert [one.sequence for one in late.stored] == [6]


async def ticks_of(broker: BrokerProcess) -> int:
    async with lifebus.connect("look", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        return (await bus.status()).counters["ticks_transient"]


@pytest.mark.parametrize("seconds", [1.0, pytest.param(5.0, marks=pytest.mark.slow)])
async def test_a_broker_that_was_stopped_goes_on_without_a_loss_and_with_one_tick_to_catch_up(seconds: float) -> None:
    with short_directory() as directory:
        settings = {"LIFEBUS_TICKS_ENABLED": "true", "LIFEBUS_TICKS_INTERVAL_MS": str(TICK_MS)}
        async with broker_process(directory, **settings) as broker:
            async with honest_traffic(broker.runtime_dir, session="honest") as traffic:
                await traffic.goes_on()
                began, before = time.monotonic(), await ticks_of(broker)
                broker.signal(signal.SIGSTOP)
                stopped = time.monotonic()
                with anyio.move_on_after(seconds):  # it is the pause that is tested
                    await anyio.sleep_forever()
                ran = stopped - began
                continued = time.monotonic()
                broker.signal(signal.SIGCONT)
                await traffic.goes_on()
                ticks = await ticks_of(broker) - before
                ran += time.monotonic() - continued
            assert ticks <= ran * 1_000 / TICK_MS + 2


FOLLOW = """
import asyncio, sys, lifebus
async def main():
    async with lifebus.connect("stopped", runtime_dir=sys.argv[1], timeout=600) as bus:
        async for item in bus.receipts(since="start"):
            print(item.sequence, flush=True)
asyncio.run(main())
"""


async def test_a_subscriber_that_was_stopped_and_continued_misses_nothing() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            command = [sys.executable, "-c", FOLLOW, str(broker.runtime_dir)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: ASYNC220  it starts at once
                assert child.stdout is not None
                await record(broker, 10)
                first = [await asyncio.to_thread(child.stdout.readline) for _ in range(10)]
                child.send_signal(signal.SIGSTOP)
                await record(broker, MORE)
                child.send_signal(signal.SIGCONT)
                rest = [await asyncio.to_thread(child.stdout.readline) for _ in range(MORE)]
                child.kill()
    assert [int(line) for line in first + rest] == list(range(1, MORE + 11))


async def record(broker: BrokerProcess, many: int) -> None:
    async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        await bus.emit([lifebus.make_request("session.started", "codex", session="s") for _ in range(many)])
