"""The pointers to the newest rows of streams, checked a piece at a time (docs/ledger.md, "The scrub").

A pointer is right where it leads to a row of its stream, and no row of the stream that has one is behind it.
"""

from typing import Any, Final

import apsw

from lifebus_broker.ledger.sqlite.schema import Execute, snapshot

_ASTRAY: Final = """
SELECT t.stream, t.position, r.stream IS t.stream OR t.position <= (SELECT value FROM meta WHERE key = 'pruned')
FROM tips t LEFT JOIN rows r ON r.position = t.position WHERE t.stream > ? ORDER BY t.stream LIMIT ?"""
_BEHIND: Final = """
SELECT r.stream, max(r.position) FROM rows r LEFT JOIN tips t USING (stream)
WHERE r.position > ? AND r.position <= min(?, (SELECT value FROM meta WHERE key = 'pointed'))
  AND coalesce(t.position, 0) < r.position GROUP BY r.stream"""
_PIECE: Final = 1_000


def check_pointers(connection: apsw.Connection) -> list[str]:
    """Return the pointers that lead to no row of their stream."""
    wrong: list[str] = []
    last = -1
    while True:
        with snapshot(connection) as execute:
            found: list[Any] = execute(_ASTRAY, (last, _PIECE)).fetchall()
        wrong += [_astray(stream, position) for stream, position, is_right in found if not is_right]
        if len(found) < _PIECE:
            return wrong
        last = found[-1][0]


def rows_behind(execute: Execute, after: int, last: int) -> list[str]:
    """Return the rows from behind a position up to `last` that a pointer of their stream should have passed."""
    return [_astray(stream, position) for stream, position in execute(_BEHIND, (after, last)).fetchall()]


def _astray(stream: int, position: int) -> str:
    return f"row {position}: the pointer of stream {stream} is not as the rows say"
