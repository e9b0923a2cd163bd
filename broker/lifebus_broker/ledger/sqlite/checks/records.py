"""Check the journal of a ledger file: the ends of each stream, the chain of its notes, and their bytes."""

from typing import Any, Final

import apsw

from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ledger.sqlite.schema import MISREAD, Execute, executor, snapshot

_PIECE: Final = 1024
_ENDS: Final = """
SELECT stream, head, 'the newest note is not the head' FROM note_streams s
WHERE coalesce((SELECT max(number) FROM notes n WHERE n.id = s.id), floor) <> head OR floor > head
UNION ALL
SELECT stream, floor + 1, 'the oldest note does not follow the floor' FROM note_streams s
WHERE coalesce((SELECT min(number) FROM notes n WHERE n.id = s.id), floor + 1) <> floor + 1
UNION ALL
SELECT stream, head, 'the newest note has another link than its stream' FROM note_streams s
WHERE coalesce((SELECT link FROM notes n WHERE n.id = s.id AND n.number = head), floor_link) IS NOT link"""
_SUMS: Final = """
SELECT coalesce(s.stream, '?'), coalesce(s.floor + 1, n.first), 'notes are missing, or belong to no stream'
FROM (SELECT id, count(*) AS kept, sum(length(body)) AS size, min(number) AS first FROM notes GROUP BY id) n
FULL JOIN note_streams s ON s.id = n.id
WHERE s.id IS NULL OR coalesce(n.kept, 0) <> s.head - s.floor OR coalesce(n.size, 0) <> s.bytes"""
_TIP: Final = "SELECT floor, floor_link, head, link FROM note_streams WHERE id = ?"
_NOTES: Final = "SELECT number, at_epoch_s, body, link FROM notes WHERE id = ? AND number > ? ORDER BY number LIMIT ?"


def check_ends(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the ends of the streams."""
    with snapshot(connection) as execute:
        return _findings(execute(_ENDS).fetchall())


def check_records(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the notes between the ends: missing ones, others' ones, changed ones."""
    with snapshot(connection) as execute:
        streams: list[Any] = execute("SELECT id, stream FROM note_streams ORDER BY id").fetchall()
    breaks = {stream: _Chain(connection, number).run() for number, stream in streams}
    wrong = [f"notes `{stream[:128]}`: {found}" for stream, found in breaks.items() if found is not None]
    with snapshot(connection) as execute:
        # after the chains: a broken chain explains a wrong sum, and is not reported twice
        sums: list[Any] = execute(_SUMS).fetchall()
    return wrong + _findings([found for found in sums if breaks.get(found[0]) is None])


class _Chain:
    """The links of one stream, followed from its floor."""

    def __init__(self, connection: apsw.Connection, stream: int) -> None:
        self._connection, self._stream = connection, stream
        self._through, self._link = -1, b""

    def run(self) -> str | None:
        """Return the first break of the chain, if there is one."""
        try:
            while True:
                with snapshot(self._connection) as execute:
                    found, more = self._piece(execute)
                if found is not None or not more:
                    return found
        except MISREAD as fault:
            return f"note {self._through + 1}: cannot be read ({type(fault).__name__})"

    def _piece(self, execute: Execute) -> tuple[str | None, bool]:
        """Follow some notes as of one moment; return the first break, and whether more may follow."""
        floor, floor_link, head, link = execute(_TIP, (self._stream,)).fetchone()
        if self._through < floor:  # where the stream begins, or what was dropped meanwhile
            self._through, self._link = floor, floor_link
        count = 0
        for number, at, body, stored in executor(self._connection)(_NOTES, (self._stream, self._through, _PIECE)):
            if number != self._through + 1:
                return f"note {self._through + 1}: is missing", False
            if record_link(self._link, at, body) != stored:
                return f"note {number}: link (hash chain) does not match", False
            self._through, self._link = number, stored
            count += 1
        if count < _PIECE and (self._through, self._link) != (head, link):
            return f"note {self._through + 1}: the chain does not end as its stream says", False
        return None, count == _PIECE


def _findings(found: list[Any]) -> list[str]:
    return [f"notes `{stream[:128]}`: note {number}: {what}" for stream, number, what in found]
