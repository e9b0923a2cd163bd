"""What came of scenarios, as lines for people and as a document for programs.  Pure."""

from collections.abc import Iterator
from typing import Any, Final

from lifebus.live.runner import Cell

_TAIL: Final = 300


def described(cell: Cell) -> Iterator[str]:
    """Yield what was expected of a cell and what was recorded, and how the harness's runs ended."""
    yield from (f"expected {line}" for line in cell.expected.lines)
    yield from (f"recorded {line}" for line in cell.recorded)
    yield from (f"wrong: {fault}" for fault in cell.faults)
    for ran in cell.runs:
        yield f"the harness ended with {ran.code}: {ran.out[-_TAIL:]!r} {ran.err[-_TAIL:]!r}"


def document(cell: Cell) -> dict[str, Any]:
    """Return a cell for programs."""
    return {
        "scenario": cell.scenario,
        "ok": cell.holds,
        "cannot": cell.expected.cannot or None,
        "expected": list(cell.expected.lines),
        "recorded": list(cell.recorded),
        "faults": list(cell.faults),
    }
