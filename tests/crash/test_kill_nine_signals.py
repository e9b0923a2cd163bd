"""Kill -9 of the broker while observers tell it of signals: what was answered is kept, nothing comes twice, no hole."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus.signals import SignalReceived
from lifebus_transports.messages.signals import Observation
from support.broker_process import broker_process, until
from support.crash.killed_signals import Follower, Reporter, kill_amid_reports
from support.effort import effort
from support.integration.observing import signal
from support.patience import PATIENCE_S
from support.running import short_directory

CYCLES = effort(8, 200)
BATCHES_A_CYCLE = (20, 120)
ORIGINS = ("o1", "o2", "o3")
SHARED = "shared"
LONGEST_S = 0.004


class NumberedReporter(Reporter):
    """An observer whose signals say who sent them, and as which."""

    def make(self, number: int) -> Observation:
        thread = self.origin if number % 2 else SHARED
        return signal(thread, params={"origin": self.origin, "number": number})


def check(seen: list[SignalReceived], reporters: Sequence[Reporter]) -> None:
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
    directory: Path, reporters: Sequence[Reporter], follower: Follower, chance: random.Random
) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(CYCLES):
            async with broker_process(directory) as broker:
                if number == 0:
                    await tasks.start(follower.follow, broker)
                await kill_amid_reports(broker, reporters, chance.randint(*BATCHES_A_CYCLE), LONGEST_S, chance)
        async with broker_process(directory) as broker:
            async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                for reporter in reporters:
                    await reporter.report(bus)
            sent = sum(reporter.sent for reporter in reporters)
            await until(lambda: len(follower.seen) + len(follower.gaps) >= sent)
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_kills_lose_no_signal_that_was_answered_and_double_none(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    reporters, follower = [NumberedReporter(origin, chance) for origin in ORIGINS], Follower()
    with short_directory() as directory:
        await kill_again_and_again(directory, reporters, follower, chance)
    assert follower.gaps == []
    check(follower.seen, reporters)
    record_property("kills", CYCLES)
    record_property("signals answered", sum(reporter.sent for reporter in reporters))
