"""Make the tables of a new ledger file, or bring those of an older format up to date."""

from typing import Final

import apsw

from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ledger.sqlite.schema import Execute, executor
from lifebus_broker.ledger.sqlite.tables import CHECKED, TABLES
from lifebus_broker.state.stream_digests import NO_LINK
from lifebus_contract import InternalError

FORMAT: Final = 3
"""Version of the file's layout, in `PRAGMA user_version`.

Format 1 had no notes, format 2 no links between them, no checksums, no base and no tombstones.
"""

_WITHOUT_NOTES: Final = 1
_OLDER: Final = (1, 2)
_META: Final = "INSERT OR REPLACE INTO meta SELECT ?1, ?2, checksum(?1, ?2)"


def create(connection: apsw.Connection, epoch: str) -> None:
    """Create the tables in an empty file, or bring those of an older format up to date, in one transaction.

    Raises:
        InternalError: the file is a database of another format, or its tables are not what its format says.
    """
    execute = executor(connection)
    version = format_of(connection)
    if version == FORMAT:
        return
    if version not in _OLDER and (version or execute("SELECT count(*) FROM sqlite_schema").fetchall() != [(0,)]):
        raise InternalError(f"ledger format {version}; this program knows {FORMAT}", code="ledger_format")
    # one transaction: a kill leaves the old format whole, and the next start upgrades again
    with connection:
        if version:
            _upgrade(connection, version)
        else:
            for statement in TABLES.values():
                execute(statement)
            set_meta(execute, epoch=epoch, floor=0, pruned=0, pointed=0)
        execute(f"PRAGMA user_version = {FORMAT}")


def format_of(connection: apsw.Connection) -> int:
    """Return the version of the file's layout, 0 where it is empty."""
    ((version,),) = executor(connection)("PRAGMA user_version").fetchall()
    return int(version)


def require_format(connection: apsw.Connection) -> None:
    """Make sure that a file, opened to be read, has the tables of this format.

    Raises:
        InternalError: it is of another format; an older one is brought up to date when a broker opens it.
    """
    version = format_of(connection)
    if version != FORMAT:
        older = "; the next start of a broker brings it up to date" if version in _OLDER else ""
        raise InternalError(f"ledger format {version}; this program reads {FORMAT}{older}", code="ledger_format")


def set_meta(execute: Execute, **values: int | str) -> None:
    """Write what the ledger as a whole is: `epoch`, `floor`, `pruned`, `pointed`; inside the caller's transaction."""
    for key, value in values.items():
        execute(_META, (key, value))


def _upgrade(connection: apsw.Connection, version: int) -> None:
    """Build the tables that changed anew, beside the old ones, and drop those."""
    execute = executor(connection)
    if execute("SELECT value FROM meta WHERE key = 'floor'").fetchall() != [(0,)]:
        raise InternalError(f"a pruned ledger of format {version} holds no base to go on from", code="ledger_format")
    # rows and keys are not copied: they are nearly the whole file, and their layout did not change
    kept = ["rows", "keys", "tips", "marks", "intake", "take"]
    rebuilt = ["meta", "streams", "bases", "seconds"]
    noted = [] if version == _WITHOUT_NOTES else ["note_streams", "notes"]
    if noted:
        # an index keeps its name when its table is renamed, and would stand in the way of the new one
        execute("DROP INDEX notes_by_number")
    for name in rebuilt + noted:
        execute(f"ALTER TABLE {name} RENAME TO old_{name}")
    for name, statement in TABLES.items():
        if name not in kept:
            execute(statement)
    for name in rebuilt:
        execute(f"INSERT INTO {name} SELECT {CHECKED[name]}, checksum({CHECKED[name]}) FROM old_{name}")  # noqa: S608  our own names
    if noted:
        _link_notes(connection)
    for name in rebuilt + noted:
        execute(f"DROP TABLE old_{name}")
    execute("UPDATE keys SET digest = guarded(key, digest, position)")


def _link_notes(connection: apsw.Connection) -> None:
    """Copy the notes, each with its link; what was dropped before cannot be linked any more."""
    old, new = executor(connection), executor(connection)
    tips: dict[int, bytes] = {}
    for stream, number, at, body in old("SELECT id, number, at_epoch_s, body FROM old_notes ORDER BY rowid"):
        link = tips[stream] = record_link(tips.get(stream, NO_LINK), at, body)
        new("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", (stream, number, at, body, link))
    for values in old("SELECT id, stream, head, floor, bytes FROM old_note_streams"):
        ends = (tips.get(values[0], NO_LINK), NO_LINK)
        new(
            "INSERT INTO note_streams SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, checksum(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (*values, *ends),
        )
