"""Check the journal of a ledger file: the ends of each stream, the chain of its notes, and their bytes."""

from typing import Any, Final

import apsw

from lifebus_broker.ledger.sqlite.record_chain import BrokenChain, RecordChain
from lifebus_broker.ledger.sqlite.schema import MISREAD, snapshot

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


def check_ends(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the ends of the streams."""
    with snapshot(connection) as execute:
        return _findings(execute(_ENDS).fetchall())


def check_records(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the notes between the ends: missing ones, others' ones, changed ones."""
    with snapshot(connection) as execute:
        streams: list[Any] = execute("SELECT id, stream FROM note_streams ORDER BY id").fetchall()
    breaks = {stream: _first_break(connection, number) for number, stream in streams}
    wrong = [f"notes `{stream[:128]}`: {found}" for stream, found in breaks.items() if found is not None]
    with snapshot(connection) as execute:
        # after the chains: a broken chain explains a wrong sum, and is not reported twice
        sums: list[Any] = execute(_SUMS).fetchall()
    return wrong + _findings([found for found in sums if breaks.get(found[0]) is None])


def _first_break(connection: apsw.Connection, stream: int) -> str | None:
    """Return the first break of the chain of a stream, if there is one."""
    chain = RecordChain(connection, stream)
    try:
        for _ in chain:
            pass
    except MISREAD as fault:
        return f"note {chain.through + 1}: cannot be read ({type(fault).__name__})"
    except BrokenChain as fault:
        return str(fault)
    return None


def _findings(found: list[Any]) -> list[str]:
    return [f"notes `{stream[:128]}`: note {number}: {what}" for stream, number, what in found]
