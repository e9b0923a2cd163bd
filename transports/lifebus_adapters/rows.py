"""Going through somebody else's database tables: typed rows, and how far one has come.  Pure.

A database holds every session there ever was.  The first answer is history: of it only what still stands is told (how
full a context is, how large its window), not the turns and compactions of long ago.

Above: the readers of OpenCode's, Hermes' and OpenClaw's databases.  Below: lines, telemetry, the contract.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from lifebus_adapters.telemetry import Fact, Usage, WindowKnown
from lifebus_contract import InvalidRequest

__all__ = ["HISTORY_ROWS", "Progress", "Row", "RowDecoder", "json_bytes"]

T = TypeVar("T")

Row = tuple[Any, ...]
"""A row of an answer as it came; its first column is the row's number."""

HISTORY_ROWS: Final = 200
"""How many of the newest rows the first question is about."""

_STANDING: Final = (Usage, WindowKnown)


class RowDecoder(Generic[T]):
    """Reads rows into one array-like struct."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def read(self, row: Row) -> T:
        """Return the typed row.

        Raises:
            InvalidRequest: columns are missing, or one is of another type.
        """
        try:
            return msgspec.convert(row, self._kind)
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"a row of another form: {fault}"[:256], code="wrong_type", field="$") from None


class Progress:
    """How far a reader has come in a table with numbered rows.

    `at` is the number of the last row that was read, None before the first answer.
    """

    def __init__(self) -> None:
        self.at: int | None = None

    def read(self, rows: Sequence[Row], tell: Callable[[Row], Sequence[Fact]]) -> list[Fact]:
        """Return what the rows tell, oldest first.

        A bad row costs itself alone: what stands before it is told, and next time it comes first and is passed over.

        Raises:
            InvalidRequest: the first row is bad.
        """
        is_history, facts = self.at is None, list[Fact]()
        for row in rows:
            try:
                found = tell(row)
            except InvalidRequest:
                if not facts:
                    self._pass_over(row)
                    raise
                return facts
            self.at = row[0]
            facts += [fact for fact in found if not is_history or isinstance(fact, _STANDING)]
        self.at = self.at or 0
        return _without_repeats(facts)

    def end_at(self, last: int) -> None:
        """Take note of the table's last row: rows that were deleted give their numbers to new ones."""
        if self.at is not None and last < self.at:
            self.at = last

    def _pass_over(self, row: Row) -> None:
        if row and type(row[0]) is int:
            self.at = row[0]


def json_bytes(text: str) -> bytes:
    """Return a column of JSON text as bytes; what is no Unicode the decoder refuses."""
    return text.encode("utf-8", "surrogatepass")


def _without_repeats(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for before, fact in zip([None, *facts], facts, strict=False) if fact != before]
