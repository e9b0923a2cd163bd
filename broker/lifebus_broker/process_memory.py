"""Memory of this process that nothing uses any more."""

import ctypes
from collections.abc import Callable
from typing import Final

# Of mallopt(3)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

_KEPT_BYTES: Final = 1_048_576
"""How much freed memory each thread may keep, and from which size on a piece is a mapping of its own."""


def keep_little_memory() -> None:
    """Have the C library give back what is freed, however large the pieces were that were freed before."""
    # By itself it keeps twice as much as the largest piece freed so far, up to 64 MiB a thread: one dump of the state
    # of many sessions would stay for as long as the process lives.
    choose: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is not None:
        choose(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        choose(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_memory_back() -> None:
    """Have the C library give freed memory back to the system, where it can; blocks for milliseconds."""
    # Each thread frees into a region of its own, of which only the end is given back by itself.
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
