"""Check a ledger file against itself: everything in it, or what a start checks (docs/ledger.md D4).

Reads in pieces on a connection of its own, so that neither the writer nor other readers wait, and the
write-ahead log can be reset meanwhile.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from lifebus_broker.ledger.sqlite.checks import file as checks
from lifebus_broker.ledger.sqlite.checks.records import check_ends, check_records
from lifebus_broker.ledger.sqlite.checks.rows import RowsCheck
from lifebus_broker.ledger.sqlite.format import require_format
from lifebus_broker.ledger.sqlite.schema import MISREAD, open_reader, snapshot
from lifebus_broker.ledger.sqlite.watermark import watermarks_beside

_MOST: Final = 20

_Check = Callable[[], list[str]]


def verify(path: Path, tail: int | None = None, vfs: str | None = None, *, numbered: bool = True) -> list[str]:
    """Return what is wrong with the newest `tail` rows, or with everything in the file; at most 20 findings.

    Each names the first bad place, in the order of positions.  With a `tail` also the tables' definitions, the ledger's
    own values, the base, the ends of the journal's streams and what was acknowledged last are checked.  `numbered`
    says whether receipts claim their sequences.

    Raises:
        apsw.Error: the file cannot be read at all.
        InternalError: it is of another format.
    """
    noted = watermarks_beside(path)  # before the file: what is committed meanwhile is no loss
    with closing(open_reader(path, vfs=vfs)) as connection:
        try:
            require_format(connection)
            with snapshot(connection) as execute:
                wrong = checks.check_frame(execute, noted)
        except MISREAD as fault:
            return [_unreadable("the file", fault)]
        if wrong:
            return wrong
        # only a sound frame is worth going on: with a wrong floor every row would be a finding
        rows = RowsCheck(connection, numbered=numbered)
        wrong += found_by("rows", lambda: rows.run(tail, _MOST))
        wrong += found_by("notes", lambda: check_ends(connection))
        if tail is None:
            wrong += _whole(connection, rows)
        return wrong[:_MOST]


def _whole(connection: apsw.Connection, rows: RowsCheck) -> list[str]:
    """Return what only a check of everything finds."""
    parts: list[tuple[str, _Check]] = [
        ("streams", rows.check_streams),
        ("notes", lambda: check_records(connection)),
        ("keys", lambda: checks.check_keys(connection)),
        ("marks", lambda: checks.check_marks(connection)),
        *checks.checksum_checks(connection),
        ("SQLite", lambda: checks.check_structure(connection)),
    ]
    return [finding for what, check in parts for finding in found_by(what, check)]


def found_by(what: str, check: Callable[[], list[str]]) -> list[str]:
    """Return the findings of one check; what it cannot read is one."""
    try:
        return check()
    except MISREAD as fault:
        return [_unreadable(what, fault)]


def _unreadable(what: str, fault: BaseException) -> str:
    return f"{what}: cannot be read ({type(fault).__name__}: {str(fault)[:160]})"
