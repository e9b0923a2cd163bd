"""Memory of this process that nothing uses any more."""

import ctypes
from collections.abc import Callable


def give_memory_back() -> None:
    """Have the C library give freed memory back to the system, where it can; blocks for milliseconds."""
    # Each thread frees into a region of its own, of which only the end is given back by itself.
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
