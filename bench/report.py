"""What was measured, in tables, and each aim beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where figures and progress go; `quick` runs are a smoke test, `receipts` names the largest ledger."""

    console: Console
    say: Callable[[str], None]
    quick: bool
    receipts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One aim of the project and what was measured; None where it could not be measured."""

    text: str
    limit: float
    measured: float | None
    at_most: bool = False
    unit: str = "×"

    @property
    def met(self) -> bool | None:
        """Whether the measurement is within the limit; None without one."""
        if self.measured is None:
            return None
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Return ours by theirs, None where one of them is missing."""
    return ours / theirs if ours and theirs else None


def print_table(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a heading; all columns but the first are numbers."""
    console.print(title, style="bold")
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


def print_aims(console: Console, aims: Sequence[Aim]) -> None:
    """Print every aim beside what was measured."""
    words = {True: "met", False: "NOT MET", None: "not measured"}
    rows = [
        (
            aim.text,
            f"{'≤' if aim.at_most else '≥'} {aim.limit:g} {aim.unit}",
            "–" if aim.measured is None else f"{aim.measured:.2f} {aim.unit}",
            words[aim.met],
        )
        for aim in aims
    ]
    print_table(console, "Aims", ("aim", "limit", "measured", ""), rows)
