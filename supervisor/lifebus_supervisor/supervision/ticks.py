"""The tick loop: a monotonic clock, a fixed interval, and at most one tick to catch up after a stall.

See docs/contract.md 2.6.

Between ticks the loop may be woken for an early look, which counts nothing: silence is measured in ticks alone.  Early
looks rest four times as long as they took, so that no number of calls makes the broker look all the time.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
import structlog

_REST: Final = 4

_log = structlog.get_logger("lifebus.ticks")


class Ticked(Protocol):
    """Something that is ticked."""

    async def tick(self) -> object:
        """Do what is due at each interval."""
        ...

    async def observe(self) -> object:
        """Take an early look."""
        ...


class Waker:
    """A call for an early look; calls that come before it is answered are one."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def wake(self) -> None:
        """Ask for an early look."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a call, at most so many seconds; return whether one came."""
        with anyio.move_on_after(max(0.0, seconds)):
            await self._event.wait()
        woken = self._event.is_set()
        if woken:
            self._event = anyio.Event()
        return woken


def next_due(due: float, started: float, interval: float) -> float:
    """Return when the tick after the one that was due, and started a little or much later, is due.

    It stays in step; where whole intervals were missed, the late tick was the one that catches up for all of them.
    """
    return (due if started - due < interval else started) + interval


async def run_ticks(
    ticked: Ticked,
    *,
    interval: float,
    now: Callable[[], float],
    wait: Callable[[float], Awaitable[bool]],
    rest: Callable[[float], Awaitable[object]] = anyio.sleep,
) -> None:
    """Tick for ever.  `now` is a monotonic clock in seconds; `wait` waits at most so long, True if it was woken.

    `rest` waits out the whole time.

    A tick that fails is logged and is not the last one.
    """
    due = now() + interval
    while True:
        woken = await wait(due - now()) and now() < due  # whoever wakes all the time must not keep the tick away
        started = now()
        try:
            await (ticked.observe() if woken else ticked.tick())
        except Exception:  # noqa: BLE001  one bad tick must not end supervision
            _log.exception("tick_failed")
        if woken:
            await rest(max(0.0, min(_REST * (now() - started), due - now())))
        else:
            due = next_due(due, started, interval)
