"""Going through somebody else's database tables: typed rows, and how far one has come.  Pure.

A database holds every session there ever was: the first query is about its newest rows only.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from lifebus_adapters.shared.telemetry import Fact, TurnEnded, TurnStarted
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

T = TypeVar("T")

Row = tuple[Any, ...]
"""A row of an answer as it came; its first column is the row's number."""

HISTORY_ROWS: Final = 200
"""How many of the newest rows the first query is about."""


class RowDecoder(Generic[T]):
    """Reads rows into one array-like struct."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def read(self, row: Row) -> T:
        """Return the typed row.

        Raises:
            InvalidRequest: columns are missing, one is of another type, or text is no Unicode.
        """
        try:
            return msgspec.convert(row, self._kind)
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"a row of another form: {fault}"[:256], code="wrong_type", field="$") from None
        except UnicodeError:
            raise InvalidRequest("a row with text that is no Unicode", code="malformed", field="$") from None


class TablePosition:
    """How far a reader has come in a table with numbered rows.

    `at` is the number of the last row that was read, None before the first answer.
    """

    def __init__(self) -> None:
        self.at: int | None = None

    def read(self, rows: Sequence[Row], facts_of: Callable[[Row], Sequence[Fact]]) -> list[Fact]:
        """Return the facts in the rows, oldest first.

        A bad row costs itself alone: the facts before it are returned, and next time it comes first and is skipped.

        Raises:
            InvalidRequest: the first row is bad.
        """
        facts: list[Fact] = []
        for row in rows:
            try:
                found = facts_of(row)
            except InvalidRequest:
                if facts:
                    break
                self._skip(row)
                raise
            # Only after the row was read: a bad one is asked for again and then skipped.
            self.at = row[0]
            facts += found
        # From now on the table counts as read, though it was empty: what comes next is new and not history.
        self.at = self.at or 0
        return _condensed(facts)

    def end_at(self, rows: Sequence[Row]) -> None:
        """Take note of the table's last row, if it lies before `at`: deleted rows give their numbers to new ones.

        Raises:
            InvalidRequest: that is no number.
        """
        for row in rows:
            self.at = _LAST.read(row).number

    def _skip(self, row: Row) -> None:
        # A row whose number cannot be read is not skipped; its table is asked again from where it was.
        if row and type(row[0]) is int:
            self.at = row[0]


def json_bytes(text: str) -> bytes:
    """Return a column of JSON text as bytes; what is no Unicode the decoder refuses."""
    return text.encode("utf-8", "surrogatepass")


def _condensed(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts without immediate repeats, and without ends of unnamed turns that the next turn has followed."""
    started: set[str] = set()
    kept: list[Fact] = []
    # From the newest backwards, because a later start decides whether an end is worth keeping.
    for fact in reversed(facts):
        is_over = isinstance(fact, TurnEnded) and fact.frame_id is None and fact.session in started
        if isinstance(fact, TurnStarted):
            started.add(fact.session)
        if not is_over and (not kept or fact != kept[-1]):
            kept.append(fact)
    return kept[::-1]


class _Last(Struct, array_like=True):
    number: Count


_LAST: Final = RowDecoder(_Last)
