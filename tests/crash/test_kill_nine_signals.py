"""Kill -9 of the broker while observers tell it of signals: what was answered is kept, nothing comes twice, no hole."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus.signals import SignalReceived
from lifebus_contract import LifebusError
from lifebus_transports.messages.signals import Observation, Observe, ObserveAnswer
from support.broker_process import BrokerProcess, broker_process, until
from support.effort import effort
from support.integration.observing import signal
from support.patience import PATIENCE_S
from support.running import short_directory

CYCLES = effort(8, 200)
BATCHES_A_CYCLE = (20, 120)
ORIGINS = ("o1", "o2", "o3")
SHARED = "shared"


class Reporter:
    """One observer through all the broker's lives: what it does not know the fate of, it sends again."""

    def __init__(self, origin: str, chance: random.Random) -> None:
        self.origin = origin
        self.sent = 0
        self._chance = chance
        self._pending: list[Observation] = []

    async def report(self, bus: lifebus.Bus) -> None:
        """Send one batch until it is answered, or until the broker is gone."""
        if not self._pending:
            size = self._chance.randint(1, 30)
            self._pending = [self._signal(self.sent + step) for step in range(1, size + 1)]
        body = Observe(
            client_id="test",
            adapter_id="codex",
            origin=self.origin,
            first=self.sent + 1,
            observations=tuple(self._pending),
        )
        answer = await bus._connection.ask("observe", body, ObserveAnswer, timeout=5)
        assert answer.through == self.sent + len(self._pending)
        self.sent, self._pending = answer.through, []

    def _signal(self, number: int) -> Observation:
        thread = self.origin if number % 2 else SHARED
        return signal(thread, params={"origin": self.origin, "number": number})


class Follower:
    """Follows every thread through every restart and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[SignalReceived] = []
        self.gaps: list[lifebus.Gap] = []

    async def follow(self, broker: BrokerProcess) -> None:
        async with lifebus.connect("follower", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            async for item in bus.signals(since="start"):
                if isinstance(item, lifebus.Gap):
                    self.gaps.append(item)
                else:
                    self.seen.append(item)

    def has_seen(self, count: int) -> bool:
        return len(self.seen) + len(self.gaps) >= count


async def cycle(broker: BrokerProcess, reporters: list[Reporter], chance: random.Random) -> None:
    """Let everybody tell until a number of batches is answered, and then, within some milliseconds, kill."""
    wanted, enough = chance.randint(*BATCHES_A_CYCLE), anyio.Event()

    async def report(bus: lifebus.Bus, reporter: Reporter) -> None:
        nonlocal wanted
        with suppress(LifebusError):  # the broker was killed
            while True:
                await reporter.report(bus)
                wanted -= 1
                if wanted <= 0:
                    enough.set()

    async with (
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        anyio.create_task_group() as tasks,
    ):
        for reporter in reporters:
            tasks.start_soon(report, bus, reporter)
        await enough.wait()
        with anyio.move_on_after(chance.uniform(0, 0.004)):
            await anyio.sleep_forever()
        await broker.kill()
        tasks.cancel_scope.cancel()


def check(seen: list[SignalReceived], reporters: list[Reporter]) -> None:
    """Every thread's numbers have no hole, and every observer's signals are there once, in its order."""
    sent: dict[str, list[int]] = {reporter.origin: [] for reporter in reporters}
    for thread in {one.thread for one in seen}:
        mine = [one for one in seen if one.thread == thread]
        assert [one.sequence for one in mine] == list(range(1, len(mine) + 1))
        numbers: dict[str, list[int]] = {}
        for one in mine:
            params = one.envelope["params"]
            numbers.setdefault(params["origin"], []).append(params["number"])
        for origin, of_thread in numbers.items():
            assert of_thread == sorted(set(of_thread))
            sent[origin] += of_thread
    assert {origin: sorted(numbers) for origin, numbers in sent.items()} == {
        reporter.origin: list(range(1, reporter.sent + 1)) for reporter in reporters
    }


async def kill_again_and_again(
    directory: Path, reporters: list[Reporter], follower: Follower, chance: random.Random
) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(CYCLES):
            async with broker_process(directory) as broker:
                if number == 0:
                    tasks.start_soon(follower.follow, broker)
                await cycle(broker, reporters, chance)
        async with broker_process(directory) as broker:
            async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                for reporter in reporters:
                    await reporter.report(bus)
            await until(partial(follower.has_seen, sum(reporter.sent for reporter in reporters)))
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_kills_lose_no_signal_that_was_answered_and_double_none(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    reporters, follower = [Reporter(origin, chance) for origin in ORIGINS], Follower()
    with short_directory() as directory:
        await kill_again_and_again(directory, reporters, follower, chance)
    assert follower.gaps == []
    check(follower.seen, reporters)
    record_property("kills", CYCLES)
    record_property("signals answered", sum(reporter.sent for reporter in reporters))
