"""Memory of this process that nothing uses any more."""

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
    choose = _c_function("mallopt")
    if choose is not None:
        choose(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        choose(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_memory_back() -> None:
    """Have the C library give freed memory back to the system, where it can; blocks for milliseconds."""
    # Each thread frees into a region of its own, of which only the end is given back by itself.
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


def _c_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, None where it has none of this name."""
    import ctypes  # noqa: PLC0415  a broker serves before it needs this

    return getattr(ctypes.CDLL(None), name, None)
