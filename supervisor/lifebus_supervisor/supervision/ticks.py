"""The tick loop: a monotonic clock, a fixed interval, and at most one tick to catch up after a stall.

See docs/contract.md 2.6.

Between ticks the loop may be woken for an early pass, which counts nothing: silence is measured in ticks alone.  After
an early pass the loop rests four times as long as it took, so that wake-ups cannot keep the broker busy all the time.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio
import structlog

_REST_FACTOR: Final = 4
_LONGEST_WAIT_S: Final = 3_600.0

_log = structlog.get_logger("lifebus.ticks")


class Tickable(Protocol):
    """Something that is ticked."""

    async def tick(self) -> object:
        """Do what is due at each interval."""
        ...

    async def poll_early(self) -> object:
        """Make an early pass."""
        ...

    def settles_at(self) -> float | None:
        """Return when an early pass is due by itself, None where none is."""
        ...


class WakeSignal:
    """A request for an early pass; requests that come before it is answered are one."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Ask for an early pass."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a request, at most so many seconds; return whether one came."""
        with anyio.move_on_after(max(0.0, seconds)):
            await self._event.wait()
        is_set = self._event.is_set()
        if is_set:
            self._event = anyio.Event()  # an event cannot be cleared
        return is_set


def next_due(due: float, started: float, interval: float) -> float:
    """Return when the tick after the one that was due, and started a little or much later, is due.

    It stays in step; where whole intervals were missed, the late tick stands for all of them.
    """
    return (due if started - due < interval else started) + interval


async def run_ticks(
    target: Tickable,
    *,
    interval: float,
    now: Callable[[], float],
    wait: Callable[[float], Awaitable[bool]],
    rest: Callable[[float], Awaitable[object]] = anyio.sleep,
) -> None:
    """Tick for ever.  `now` is a monotonic clock in seconds; `wait` waits at most so long, True if it was woken.

    `rest` waits out the whole time.  A tick that fails is logged, and the next one is made all the same.
    """
    due = now() + interval
    while True:
        settles_at = target.settles_at()
        await wait((due if settles_at is None else min(due, settles_at)) - now())
        woken = now() < due  # constant wake-ups must not keep the tick away
        started = now()
        try:
            await (target.poll_early() if woken else target.tick())
        except Exception:  # noqa: BLE001  one bad tick must not end supervision
            _log.exception("tick_failed")
        if woken:
            await rest(max(0.0, min(_REST_FACTOR * (now() - started), due - now())))
        else:
            # From the start of the tick, not its end: slow ticks do not shift the later ones.
            due = next_due(due, started, interval)


class Settling(Protocol):
    """Something that settles announced ends."""

    @property
    def wake(self) -> WakeSignal:
        """Is set when an end was announced."""
        ...

    async def settle(self) -> object:
        """Settle what can be settled now."""
        ...

    def settles_at(self) -> float | None:
        """Return when an announced end is settled, None where none waits."""
        ...


async def settle_ends(target: Settling, now: Callable[[], float]) -> None:
    """Settle announced ends for ever, where nobody but an external supervisor ticks.  `now` is a monotonic clock."""
    while True:
        settles_at = target.settles_at()
        await target.wake.wait(_LONGEST_WAIT_S if settles_at is None else settles_at - now())
        settles_at = target.settles_at()
        if settles_at is None or settles_at > now():
            continue
        started = now()
        try:
            await target.settle()
        except Exception:  # noqa: BLE001  one bad pass must not end supervision
            _log.exception("settling_failed")
        await anyio.sleep(_REST_FACTOR * (now() - started))
