"""What came of scenarios, as lines for people and as a document for programs.  Pure."""

from collections.abc import Iterator
from difflib import ndiff
from typing import Any, Final

from lifebus.live.runner import Cell

_TAIL: Final = 300


def described(cell: Cell) -> Iterator[str]:
    """Yield what was recorded, `-` before what is missing and `+` before what is too much, and how the runs ended."""
    if not cell.expected.fits(cell.recorded):
        compared = ndiff(cell.expected.lines, cell.recorded)
        yield from (line for line in compared if not line.startswith("?"))
    yield from (f"! {fault}" for fault in cell.faults)
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
