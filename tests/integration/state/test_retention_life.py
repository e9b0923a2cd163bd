"""Slow subscribers over real sockets while receipts are dropped and the broker restarts: every one, or an exact gap."""

import random

import pytest

import lifebus
from integration.state.test_state import pruned
from lifebus_supervisor.configuration.settings import RetentionSettings
from support.effort import effort
from support.integration.consuming import emitted
from support.integration.following import take
from support.running import connected, running_bus, short_directory

KEEP_ALL = RetentionSettings(keep_days=0, keep_mb=0)


class Slow:
    """A subscriber that reads now and then, and remembers its place in between; `at` is how far it was told."""

    def __init__(self) -> None:
        self.cursor: lifebus.Position | None = None
        self.at = 0

    async def read(self, bus: lifebus.Bus, many: int, floors: set[int], *, states: bool) -> None:
        receipts = bus.receipts(since=self.cursor or "start", gaps="yield")
        for _ in range(many):
            (item,) = await take(receipts, 1)
            assert receipts.cursor is not None
            assert isinstance(item, lifebus.Gap) is (self.at < max(floors)), (
                "a gap where something is lost, and only there"
            )
            if isinstance(item, lifebus.Gap):
                assert (item.reason, item.after) == ("pruned", self.at)
                assert item.until in floors
                self.at = item.until or 0
                if states:
                    self.at = (await receipts.state()).position
            else:
                self.at += 1
            assert receipts.cursor.position == self.at
            self.cursor = receipts.cursor
            if self.at == await head(bus):
                break
        await receipts.aclose()


async def head(bus: lifebus.Bus) -> int:
    return (await bus.status()).ledger.head


async def consume(bus: lifebus.Bus, many: int, done: set[int], floors: set[int]) -> None:
    """Take some receipts under a name, acknowledge most, and leave."""
    last, kept = await head(bus), set[int]()
    async with bus.consume("n", since="start", gaps="yield") as deliveries:
        for number in range(many):
            if done | kept >= set(range(1, last + 1)):
                return
            item = await anext(deliveries)
            if isinstance(item, lifebus.Gap):
                assert item.until in floors
                done |= set(range(1, (item.until or 0) + 1))
            elif number % 5 != 4:
                await item.ack()
                done.add(item.position)
            else:
                kept.add(item.position)


@pytest.mark.parametrize("seed", range(effort(2, 60)))
async def test_slow_subscribers_get_every_receipt_or_a_gap_as_wide_as_what_was_dropped(seed: int) -> None:
    chance = random.Random(seed)
    slow, floors, done = (Slow(), Slow()), {0}, set[int]()
    with short_directory() as directory:
        for _ in range(3):
            async with running_bus(directory=directory, retention=KEEP_ALL) as daemon, connected(daemon) as bus:
                for _ in range(4):
                    await emitted(bus, chance.randrange(1, 12), sessions=2)
                    for number, one in enumerate(slow):
                        if one.at < await head(bus):
                            await one.read(bus, chance.randrange(1, 8), floors, states=bool(number))
                    await consume(bus, chance.randrange(1, 6), done, floors)
                    if chance.random() < 0.6:
                        floor = chance.randrange(max(floors), await head(bus) + 1)
                        if floor > max(floors):
                            await pruned(daemon, floor)
                            floors.add(floor)
        async with running_bus(directory=directory, retention=KEEP_ALL) as daemon, connected(daemon) as bus:
            last = await head(bus)
            for one in slow:
                while one.at < last:
                    await one.read(bus, 100, floors, states=False)
            while done != set(range(1, last + 1)):
                await consume(bus, 100, done, floors)
