"""The time by which receipts are too old: a wall clock that is set to next year must not empty a ledger."""

import time
from collections.abc import Callable
from typing import Final

GRACE_S: Final = 7 * 86_400
"""How much later than the newest receipt the wall clock is believed to be at a start."""


def elapsed_s() -> float:
    """Return seconds on a clock that nobody sets, and that goes on while the machine sleeps where it has such a one."""
    # CLOCK_MONOTONIC stands still while a Linux machine sleeps: receipts would be kept too long
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class RetentionClock:
    """The wall clock, as far as receipts and a clock that nobody sets bear it out; a callable, in seconds.

    It starts at the wall clock, no earlier than the `newest` receipt and at most `GRACE_S` later, and goes on by
    `elapsed`.  A wall clock that is set back holds it back, one that is set ahead does not take it along.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float], newest: int | None) -> None:
        self._wall, self._elapsed = wall, elapsed
        # a wall clock far ahead at the start is not believed: it would drop everything at once
        start = wall() if newest is None else min(max(wall(), newest), newest + GRACE_S)
        self._zero = start - elapsed()

    def __call__(self) -> float:
        """Return the time since the epoch by which age is judged."""
        # the smaller one: too late a prune costs disk, too early a one costs receipts
        return min(self._wall(), self._zero + self._elapsed())
