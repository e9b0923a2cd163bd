"""`verify` in slices, for a broker at idle: the caller paces them and is told at once what is found (docs/ledger.md).

It finds what `verify` finds, but for what only SQLite's own check of its pages does, which cannot be cut.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from lifebus_broker.ledger.scrubbing import ROWS, Pace, ScrubPlace
from lifebus_broker.ledger.sqlite.checks import file as checks
from lifebus_broker.ledger.sqlite.checks.pointers import check_pointers, rows_behind
from lifebus_broker.ledger.sqlite.checks.records import check_ends, check_records
from lifebus_broker.ledger.sqlite.checks.rows import RowsCheck
from lifebus_broker.ledger.sqlite.checks.verify import found_by
from lifebus_broker.ledger.sqlite.format import require_format
from lifebus_broker.ledger.sqlite.schema import MISREAD, open_reader, snapshot
from lifebus_broker.ledger.sqlite.watermark import watermarks_beside

_ROWS_A_SLICE: Final = 64
"""About two milliseconds: nobody who asks meanwhile waits longer for the interpreter."""


def scrub(path: Path, after: int, pace: Pace, found: Callable[[list[str]], None], vfs: str | None = None) -> None:
    """Check a ledger file in slices, its rows from behind a position on; `found` gets the findings of a part.

    Raises:
        apsw.Error: the file cannot be read at all.
        InternalError: it is of another format.
    """
    noted = watermarks_beside(path)  # before the file: what is committed meanwhile is no loss
    with closing(open_reader(path, vfs=vfs)) as connection:
        scrubber = _Scrub(connection, after, pace, found)
        require_format(connection)
        try:
            with snapshot(connection) as execute:
                wrong = checks.check_frame(execute, noted)
        except MISREAD as fault:
            wrong = [f"the file: cannot be read ({type(fault).__name__}: {str(fault)[:160]})"]
        if wrong:  # only a sound frame is worth going on: with a wrong floor every row would be a finding
            found(wrong)
            return
        scrubber.run()


class _Scrub:
    """One scrub.  Each read transaction of the checks is a slice: before it the pace is asked."""

    def __init__(self, connection: apsw.Connection, after: int, pace: Pace, found: Callable[[list[str]], None]) -> None:
        self._connection, self._pace, self._found = connection, pace, found
        self._place = ScrubPlace(ROWS, after)
        connection.set_exec_trace(self._before_statement)  # pyright: ignore[reportUnknownMemberType]  APSW's own types

    def run(self) -> None:
        """Check part after part."""
        self._check_rows()
        connection = self._connection
        parts: list[tuple[str, Callable[[], list[str]]]] = [
            ("notes", lambda: [*check_ends(connection), *check_records(connection)]),
            ("keys", partial(checks.check_keys, connection)),
            ("marks", partial(checks.check_marks, connection)),
            ("tips", partial(check_pointers, connection)),
            *checks.checksum_checks(connection),
        ]
        for part, check in parts:
            self._place = ScrubPlace(part, self._place.position, self._place.head)
            self._tell(found_by(part, check))

    def _check_rows(self) -> None:
        following = self._place.position + 1
        while True:
            # another one for each slice: what a row continues is read again, and nothing grows with the streams
            rows = RowsCheck(self._connection)
            before = following - 1
            following, head = rows.check_slice(following, _ROWS_A_SLICE)
            self._tell(rows.findings or found_by("tips", partial(self._rows_behind, before, following - 1)))
            self._place = ScrubPlace(ROWS, following - 1, head)
            if following > head:
                return

    def _rows_behind(self, after: int, last: int) -> list[str]:
        with snapshot(self._connection) as execute:
            return rows_behind(execute, after, last)

    def _tell(self, findings: list[str]) -> None:
        if findings:
            self._found(findings)

    def _before_statement(self, _cursor: object, statement: str, _bindings: object) -> bool:
        # every check reads in pieces, each in a transaction of its own (`schema.snapshot`)
        if statement == "BEGIN":
            self._pace(self._place)
        return True
