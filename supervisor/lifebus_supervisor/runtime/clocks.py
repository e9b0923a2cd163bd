"""The time and the jitter that runs and jobs go by."""

import random
import time
from collections.abc import Callable

from msgspec import Struct


class Clocks(Struct, frozen=True):
    """What an engine may not decide by itself: the time in milliseconds since the epoch, and the drawn jitter."""

    now_ms: Callable[[], int]
    draw: Callable[[], float]


def wall_clocks() -> Clocks:
    """Return the clock of the system, and its randomness."""
    return Clocks(lambda: time.time_ns() // 1_000_000, random.random)
