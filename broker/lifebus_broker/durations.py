"""How long something took, counted in buckets: bounded memory, and cheap enough for every emission."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The upper bounds of the buckets, in seconds; one more bucket holds what took longer."""


class Durations:
    """A histogram of durations.  `now` is a monotonic clock in seconds; for one event loop, without a lock.

    `counts` has one number a bucket, those of `BOUNDS_S` and what is beyond them; `total` is the sum in seconds.
    """

    __slots__ = ("counts", "now", "total")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total = 0.0

    def add_since(self, started: float) -> None:
        """Count what began at `started`, a time of `now`, and has just ended."""
        seconds = self.now() - started
        # An exact bound belongs to its own bucket, as Prometheus has it.
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total += seconds
