"""A restored or imported ledger is a new history: whoever had a place in the old one is told, and all else goes on."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

import lifebus
from lifebus_admin.ledger_files.backup import back_up, restore
from lifebus_admin.ledger_files.checks import check_file
from lifebus_admin.ledger_files.transfer import bring_in, export_to
from lifebus_supervisor.configuration.settings import Settings
from support.integration import consuming
from support.integration.following import emit, frame, ids, recorded, take
from support.running import connected, running_bus, settings_in, short_directory

NEW = "f" * 32


async def save(settings: Settings, kind: str, file: Path) -> None:
    await asyncio.to_thread(back_up if kind == "restore" else export_to, settings, file)


async def put_back(settings: Settings, kind: str, file: Path) -> None:
    act = restore if kind == "restore" else partial(bring_in, replace=True)
    await asyncio.to_thread(act, settings, file, NEW)


@pytest.mark.parametrize("kind", ["restore", "import"])
async def test_followers_and_named_consumers_are_told_and_the_rest_goes_on(kind: str) -> None:
    with short_directory() as directory:
        settings, file = settings_in(directory), directory / "saved"
        again = frame("s1")
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                old = daemon.bus.ledger.epoch
                bus = await clients.enter_async_context(connected(daemon))
                live = bus.receipts(since="start", gaps="yield")
                (first,) = await bus.emit([again])
                await emit(bus, "s1", "s2", "s1")
                async with bus.consume("n", since="start") as deliveries:
                    await deliveries.ack(await consuming.take(deliveries, 2))
                await daemon.signals.record("origin", 7, "codex", ())
                await save(settings, kind, file)
                await emit(bus, "s1", "s2")
                async with bus.consume("n") as deliveries:
                    await deliveries.ack(await consuming.take(deliveries, 4))
                await take(live, 6)
            await put_back(settings, kind, file)
            async with running_bus(directory=directory) as daemon:
                assert (daemon.bus.ledger.epoch, daemon.bus.ledger.head) == (NEW, 4)
                (gap,) = await take(live, 1)
                assert isinstance(gap, lifebus.Gap)
                assert (gap.epoch, gap.after, gap.until, gap.reason) == (old, 6, None, "epoch_changed")
                assert ids(await take(live, 4)) == ids(await recorded(daemon))
                late = bus.receipts(since=lifebus.Position(old, 6), until_head=True, gaps="yield")
                assert ids(await take(late, 5)) == ["epoch_changed", *ids(await recorded(daemon))]
                (repeated,) = await bus.emit([again])
                assert (repeated.replayed, repeated.receipts) == (True, first.receipts)
                (more,) = await emit(bus, "s1")
                assert more.receipts[0].sequence == 4
                async with bus.consume("n", gaps="yield") as deliveries:
                    lost = await consuming.take_gap(deliveries)
                    assert (lost.after, lost.reason, lost.epoch) == (2, "epoch_changed", NEW)
                    assert [one.position for one in await consuming.take(deliveries, 5)] == [1, 2, 3, 4, 5]
                assert daemon.signals.through("origin") == 7


async def test_a_backup_and_an_export_under_load_are_of_one_moment_and_lose_nothing() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emit(bus, *["s1"] * 500)
            done = asyncio.Event()

            async def load() -> int:
                count = 0
                while not done.is_set():
                    count += len(await emit(bus, *["s1", "s2", "s3"] * 10))
                return count

            writing = asyncio.ensure_future(load())
            for number in range(2):
                copied = await asyncio.to_thread(back_up, settings, directory / f"copy{number}")
                end = await asyncio.to_thread(export_to, settings, directory / f"text{number}")
                assert 500 <= copied.head <= end.counts.log <= daemon.bus.ledger.head
            done.set()
            written = await writing
            assert daemon.bus.ledger.head == 500 + written
        for number in range(2):
            assert await asyncio.to_thread(check_file, directory / f"copy{number}") == []
