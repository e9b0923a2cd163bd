"""The tick loop keeps step, catches up once, is not starved by those who wake it, and survives a bad tick."""

from collections.abc import Callable

import anyio
import pytest

from lifebus_supervisor.supervision.ticks import WakeSignal, next_due, run_ticks
from support.patience import PATIENCE_S

INTERVAL = 2.0


class Loop:
    """A tick loop in made-up time: each wait takes what is asked for, and a tick as long as `takes` says."""

    def __init__(self, *, ticks: int, takes: Callable[[int], float] = lambda _: 0.0, woken: int = 0) -> None:
        self.seconds = 0.0
        self.at: list[float] = []
        self.early_passes = 0
        self.pass_s, self.wake_s = 0.0, 0.3
        self._ticks, self._takes, self._woken = ticks, takes, woken
        self._enough = anyio.Event()

    async def wait(self, seconds: float) -> bool:
        if len(self.at) >= self._ticks:
            self._enough.set()
            await anyio.sleep_forever()
        if self._woken:
            self._woken -= 1
            self.seconds += self.wake_s
            return True
        self.seconds += max(0.0, seconds)
        return False

    async def tick(self) -> None:
        self.at.append(self.seconds)
        self.seconds += self._takes(len(self.at))

    async def poll_early(self) -> None:
        self.early_passes += 1
        self.seconds += self.pass_s

    def settles_at(self) -> float | None:
        return None

    async def rest(self, seconds: float) -> None:
        self.seconds += seconds

    async def run(self) -> list[float]:
        async with anyio.create_task_group() as tasks:

            async def loop() -> None:
                await run_ticks(self, interval=INTERVAL, now=lambda: self.seconds, wait=self.wait, rest=self.rest)

            tasks.start_soon(loop)
            await self._enough.wait()
            tasks.cancel_scope.cancel()
        return self.at


async def test_ticks_come_in_step_whatever_they_take() -> None:
    assert await Loop(ticks=4, takes=lambda _: 0.5).run() == [2.0, 4.0, 6.0, 8.0]


async def test_after_a_stall_one_tick_catches_up() -> None:
    assert await Loop(ticks=4, takes=lambda number: 11.0 if number == 1 else 0.0).run() == [2.0, 13.0, 15.0, 17.0]


async def test_a_tick_that_is_a_little_late_does_not_move_the_next() -> None:
    assert await Loop(ticks=3, takes=lambda number: 2.5 if number == 1 else 0.0).run() == [2.0, 4.5, 6.0]


async def test_whoever_wakes_the_loop_all_the_time_keeps_no_tick_away() -> None:
    loop = Loop(ticks=3, woken=40)
    assert len(await loop.run()) == 3
    assert 0 < loop.early_passes < 40


async def test_early_passes_take_a_small_part_of_the_time_however_often_they_are_asked_for() -> None:
    loop = Loop(ticks=3, woken=1_000)
    loop.pass_s, loop.wake_s = 0.1, 0.0
    assert await loop.run() == pytest.approx([2.0, 4.0, 6.0], abs=0.11)
    assert loop.early_passes * loop.pass_s <= 6.0 / 4


async def test_a_tick_that_fails_is_not_the_last() -> None:
    class Bad(Loop):
        async def tick(self) -> None:
            await super().tick()
            raise RuntimeError("broken")

    assert await Bad(ticks=3).run() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("due", "started", "then"), [(10.0, 10.0, 12.0), (10.0, 11.9, 12.0), (10.0, 12.0, 14.0), (10.0, 99.0, 101.0)]
)
def test_the_next_tick_is_in_step_or_an_interval_away(due: float, started: float, then: float) -> None:
    assert next_due(due, started, INTERVAL) == then


async def test_calls_before_a_wait_are_one() -> None:
    signal = WakeSignal()
    signal.set()
    signal.set()
    assert await signal.wait(PATIENCE_S)
    assert not await signal.wait(0.0)
