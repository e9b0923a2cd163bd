"""How appends fare while something goes on beside them: single requests, some under way at a time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measures.flood import flood
from bench.report import Aim
from bench.workload import items, percentile

IN_FLIGHT: Final = 32
_PART: Final = 2_000
_PARTS: Final = 5
_PATIENCE_S: Final = 120.0
_SLOWER: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Milliseconds from a request to its acknowledgement, acknowledgements a second, and for how many seconds."""

    median_ms: float
    slowest_ms: float
    per_second: float
    seconds: float


def append_while(runtime_dir: Path, more: Callable[[], bool]) -> Waits:
    """Append single requests, and on while there is `more`; return how they fared."""
    waits: list[float] = []
    began = time.perf_counter()
    while True:
        waits += flood(runtime_dir, items(_PART), 1, IN_FLIGHT).waits
        seconds = time.perf_counter() - began
        # At least so many for a 99th percentile, even where the other thing is over sooner.
        if len(waits) >= _PARTS * _PART and (seconds > _PATIENCE_S or not more()):
            break
    return Waits(
        median_ms=1e3 * percentile(waits, 0.50),
        slowest_ms=1e3 * percentile(waits, 0.99),
        per_second=len(waits) / seconds,
        seconds=seconds,
    )


def aim(beside: str, before: Waits, meanwhile: Waits) -> Aim:
    """Return the aim that something beside appends makes the slowest of them at most so much slower."""
    text = f"p99 of an append while {beside}: × without"
    return Aim(text=text, limit=_SLOWER, measured=meanwhile.slowest_ms / before.slowest_ms, at_most=True)
