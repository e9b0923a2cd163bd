"""Read what can be read of a damaged ledger file: past rows and pages that are not what was written."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from lifebus_broker.ledger.refusals import damaged_row
from lifebus_broker.ledger.sqlite.checks.sound_rows import COLUMNS, missing_rows, row_filter, sound
from lifebus_broker.ledger.sqlite.schema import MISREAD, executor, open_reader
from lifebus_broker.ledger.sqlite.watermark import watermarks_beside
from lifebus_broker.ports import DamagedReceipt, Query, StoredReceipt

_UNREADABLE: Final = (*MISREAD, apsw.IOError)
"""What a damaged page may raise; where a disk cannot read it, the pages behind it are read all the same."""

_MOST_STEPS: Final = 1_000_000
"""Most positions that are tried one by one behind a page that cannot be read."""

_FLOOR: Final = (
    "SELECT value FROM meta WHERE key = 'floor' AND typeof(value) = 'integer' AND checksum(key, value) = checksum"
)
_EPOCH: Final = "SELECT value FROM meta WHERE key = 'epoch'"
_HEAD: Final = "SELECT max(position) FROM rows"
_NEXT: Final = f"SELECT {COLUMNS} FROM rows r WHERE r.position > ? ORDER BY r.position"  # noqa: S608  our own names


def rescue_rows(path: Path, query: Query) -> Iterator[StoredReceipt | DamagedReceipt]:
    """Yield the sound rows that a query asks for, in order, and each damaged range in its place; blocks.

    Of a damaged row nobody knows whether the query asks for it, so all of them are named.

    Raises:
        apsw.Error: it is no database at all.
    """
    with closing(open_reader(path)) as connection:
        yield from _Rescue(connection, path, query).run()


class _Rescue:
    """One pass over the rows."""

    def __init__(self, connection: apsw.Connection, path: Path, query: Query) -> None:
        self._execute = executor(connection)
        self._is_wanted = row_filter(query)
        self._following = max(self._value(_FLOOR) or 0, query.after) + 1
        epoch = self._value(_EPOCH)
        # rows that were acknowledged and are not there at the end leave no gap
        noted = [mark.head for mark in watermarks_beside(path) if epoch in (None, mark.epoch)]
        self._head = max(0, *noted, self._value(_HEAD) or 0)
        self._bad: DamagedReceipt | None = None

    def run(self) -> Iterator[StoredReceipt | DamagedReceipt]:
        """Yield everything there is."""
        steps = 0
        while self._following <= self._head and steps < _MOST_STEPS:
            try:
                for values in self._execute(_NEXT, (self._following - 1,)):
                    yield from self._take(values)
                break
            except _UNREADABLE as fault:
                # where a page begins and ends nobody can say: the next position may be readable again
                steps += 1
                yield from self._damaged(damaged_row(self._following, f"cannot be read ({type(fault).__name__})"))
                self._following += 1
        if self._following <= self._head:
            yield from self._damaged(missing_rows(self._following, self._head))
        yield from self._flush()

    def _take(self, values: Any) -> Iterator[StoredReceipt | DamagedReceipt]:
        position = values[0]
        if position < self._following:  # a damaged page leads back to where we were
            return
        if position > self._following:
            yield from self._damaged(missing_rows(self._following, position - 1))
        row = sound(values)
        self._following = position + 1
        if isinstance(row, DamagedReceipt):
            yield from self._damaged(row)
            return
        yield from self._flush()
        if self._is_wanted(row[0]):
            yield row[1]

    def _damaged(self, found: DamagedReceipt) -> Iterator[DamagedReceipt]:
        """Keep a damaged range until it is known how far it goes; yield the one before where it is another."""
        bad = self._bad
        if bad is not None and (bad.through + 1, bad.why) == (found.position, found.why):
            self._bad = damaged_row(bad.position, bad.why, found.through)
            return
        yield from self._flush()
        self._bad = found

    def _flush(self) -> Iterator[DamagedReceipt]:
        if self._bad is not None:
            yield self._bad
        self._bad = None

    def _value(self, statement: str) -> Any:
        """Return one value, None where there is none or it cannot be read."""
        try:
            found = self._execute(statement).fetchone()
        except _UNREADABLE:
            return None
        return None if found is None else found[0]
