"""The SQL of the ledger, and how many rows go through one statement.

APSW gives up the interpreter's lock at every step of a statement and has to wait for it again afterwards, which
costs more than the row itself when the event loop is busy.  So rows are written by statements with room for many
rows; places that stay empty are bound to NULL and skipped by the trigger.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import apsw

from lifebus_broker.ledger.batching import COLUMNS
from lifebus_broker.ledger.refusals import damaged_row
from lifebus_broker.ledger.sqlite.checks.sound_rows import COLUMNS as ROW_COLUMNS
from lifebus_broker.ledger.sqlite.checks.sound_rows import sound
from lifebus_broker.ledger.sqlite.checksums import unguarded
from lifebus_broker.ledger.sqlite.schema import Execute
from lifebus_broker.ports import DamagedReceipt, Known, StoredReceipt

# few widths, so that the statement cache holds every one of them
_WIDTHS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

WIDEST: Final = _WIDTHS[-1]
"""Most rows that one statement takes."""

TIP: Final = """
SELECT s.stream, coalesce(r.position, b.position, 0), coalesce(r.sequence, b.sequence, 0), coalesce(r.link, b.link),
  coalesce(r.ended, b.ended), iif(r.position, r.open_frames, b.open_frames),
  iif(r.position, r.harness_sequence, b.harness_sequence),
  iif(t.position > (SELECT value FROM meta WHERE key = 'pruned') AND r.position IS NULL, t.position, NULL)
FROM streams s LEFT JOIN tips t USING (stream) LEFT JOIN rows r ON r.position = t.position AND r.stream = s.stream
LEFT JOIN bases b ON b.stream = s.stream
WHERE s.adapter_id = ? AND s.harness_session_id = ?"""
"""A stream's newest row, or what is left of it when it was pruned; last where its pointer leads if to no row of it."""

STREAM: Final = "SELECT stream FROM streams WHERE adapter_id = ? AND harness_session_id = ?"
"""Whether there is a stream; `TIP` takes ten times as long to find none."""

ROW: Final = f"SELECT {ROW_COLUMNS} FROM rows r WHERE r.position = ?"  # noqa: S608  our own names
"""What a row is checked by."""

TAIL_TIPS: Final = """
SELECT s.adapter_id, s.harness_session_id, r.stream, r.position, coalesce(r.sequence, 0), r.link,
  r.ended, r.open_frames, r.harness_sequence
FROM rows r JOIN streams s USING (stream)
WHERE r.position IN (SELECT max(position) FROM rows WHERE position > ? GROUP BY stream)"""
"""The newest row of every stream that has one after a position."""

KEEP_BASES: Final = """
INSERT OR REPLACE INTO bases
SELECT stream, position, sequence, at_epoch_s, event, status, ended, open_frames, harness_sequence, link,
  checksum(stream, position, sequence, at_epoch_s, event, status, ended, open_frames, harness_sequence, link) FROM rows
WHERE position IN (SELECT max(position) FROM rows WHERE position > ? AND position <= ? GROUP BY stream)"""
DROP_MARKS: Final = """
DELETE FROM marks WHERE (stream, position) IN
  (SELECT stream, position FROM rows WHERE position > ? AND position <= ?)"""
KEEP_BASE: Final = "INSERT INTO base VALUES (?, ?, ?)"
DROP_BASE: Final = "DELETE FROM base"
DROP_ROWS: Final = "DELETE FROM rows WHERE position > ? AND position <= ?"
DROP_SECONDS: Final = """
DELETE FROM seconds WHERE position <= ? AND second < (SELECT max(second) FROM seconds WHERE position <= ?)"""

NEW_KEY: Final = "INSERT INTO keys VALUES "
NEW_STREAM: Final = "INSERT INTO streams VALUES "
NEW_SECOND: Final = "INSERT INTO seconds VALUES "
POINT: Final = "INSERT OR REPLACE INTO tips VALUES "
PROBE: Final = (
    "INSERT OR REPLACE INTO meta SELECT 'probe', room, checksum('probe', room) FROM (SELECT zeroblob(?) AS room)"
)
_INTAKE: Final = "INSERT INTO intake VALUES "
_KNOWN: Final = f"""
SELECT k.key, k.digest, k.position, {ROW_COLUMNS} FROM keys k LEFT JOIN rows r ON r.position = k.position
WHERE k.key IN """  # noqa: S608  our own names


def insert_rows(execute: Execute, values: list[object]) -> None:
    """Insert drafted rows, `COLUMNS` values each."""
    step = WIDEST * COLUMNS
    for start in range(0, len(values), step):
        part = values[start : start + step]
        count = len(part) // COLUMNS
        width = next(width for width in _WIDTHS if width >= count)
        execute(_statement(_INTAKE, COLUMNS, width), part + [None] * ((width - count) * COLUMNS))


def insert_all(execute: Execute, statement: str, columns: int, values: Sequence[object]) -> None:
    """Run an INSERT for a flat list of values, many rows a statement."""
    start = 0
    # no trigger skips empty places here: the list is cut into widths that fit exactly
    for width in reversed(_WIDTHS):
        step = width * columns
        while len(values) - start >= step:
            execute(_statement(statement, columns, width), values[start : start + step])
            start += step


def known(execute: Execute, keys: list[str], floor: int) -> dict[str, Known]:
    """Return digest and row of the keys that are there; of the receipts below the floor the digest only.

    A row that is not what was written is a refusal.

    Raises:
        apsw.CorruptError: the file says something else than was written.
    """
    found: dict[str, Known] = {}
    for key, stored, position, *row in select_all(execute, _KNOWN, keys):
        digest = unguarded(key, stored, position)
        if digest is None:
            raise apsw.CorruptError(f"the digest or position of an idempotency key is damaged (row {position})")
        found[key] = (digest, _row_of(position, row) if position > floor else None)
    return found


def select_all(execute: Execute, statement: str, values: Sequence[object]) -> list[Any]:
    """Run a statement that ends in ``IN`` for a list of values, many a statement; return all that it gives."""
    found: list[Any] = []
    for start in range(0, len(values), WIDEST):
        part = values[start : start + WIDEST]
        width = next(width for width in _WIDTHS if width >= len(part))
        found += execute(_statement(statement, width, 1), [*part, *[None] * (width - len(part))]).fetchall()
    return found


def _row_of(position: int, row: Sequence[Any]) -> StoredReceipt | DamagedReceipt:
    """Return the row that a key leads to, where it is what was written."""
    if row[0] is None:
        return damaged_row(position, "is missing")
    found = sound(row)
    return found if isinstance(found, DamagedReceipt) else found[1]


@cache
def _statement(head: str, columns: int, rows: int) -> str:
    """Return the statement with `rows` groups of `columns` places."""
    return head + ",".join([f"({','.join('?' * columns)})"] * rows)
