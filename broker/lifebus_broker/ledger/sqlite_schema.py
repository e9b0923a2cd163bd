"""The ledger file: its tables, how it is opened, and which SQLite may touch it.

Above: sqlite_store, sqlite_reader.  Below: APSW.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw

from lifebus_contract import InternalError

__all__ = [
    "FORMAT",
    "MARK_EVERY",
    "OLDEST_LIBRARY",
    "Execute",
    "check_library",
    "create",
    "executor",
    "open_reader",
    "open_writer",
]

Execute = Callable[..., Any]
"""`apsw.Cursor.execute`: a statement, its values; a cursor over what it selects."""


FORMAT: Final = 2
"""Version of the file's layout, in `PRAGMA user_version`.  Format 1 had no notes; opening it to write adds them."""

OLDEST_LIBRARY: Final = (3, 51, 3)
"""SQLite 3.7.0 to 3.51.2 can corrupt a write-ahead log (design 4.1)."""

MARK_EVERY: Final = 64
"""A session's every 64th sequence leaves a mark, so that reading a session can start anywhere near."""

_BEFORE_NOTES: Final = 1
_PAGE_BYTES: Final = 4096
_WRITER_CACHE_KIB: Final = 65_536
_READER_CACHE_KIB: Final = 8_192
_BUSY_MS: Final = 5000

_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE streams (
  stream INTEGER PRIMARY KEY, adapter_id TEXT NOT NULL, harness_session_id TEXT NOT NULL,
  first_position INTEGER NOT NULL, started_at_epoch_s INTEGER NOT NULL,
  UNIQUE (adapter_id, harness_session_id));
CREATE TABLE rows (
  position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, previous INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER,
  link BLOB NOT NULL, receipt BLOB NOT NULL);
CREATE TABLE keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tips (stream INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE bases (
  stream INTEGER PRIMARY KEY, position INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER, link BLOB NOT NULL);
CREATE TABLE marks (stream INTEGER, position INTEGER, PRIMARY KEY (stream, position)) WITHOUT ROWID;
CREATE TABLE seconds (second INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE VIEW intake AS SELECT position, stream, previous, sequence, at_epoch_s, event, status,
  ended, open_frames, harness_sequence, link, receipt, '' AS key, x'' AS digest FROM rows;
CREATE TRIGGER take INSTEAD OF INSERT ON intake WHEN NEW.position IS NOT NULL BEGIN
  INSERT INTO rows VALUES (NEW.position, NEW.stream, NEW.previous, NEW.sequence, NEW.at_epoch_s, NEW.event,
    NEW.status, NEW.ended, NEW.open_frames, NEW.harness_sequence, NEW.link, NEW.receipt);
  INSERT INTO keys SELECT NEW.key, NEW.digest, NEW.position WHERE NEW.key IS NOT NULL;
  INSERT INTO marks SELECT NEW.stream, NEW.position WHERE NEW.sequence % 64 = 0;
END;
"""
_NOTES: Final = """
CREATE TABLE note_streams (
  id INTEGER PRIMARY KEY, stream TEXT NOT NULL UNIQUE,
  head INTEGER NOT NULL, floor INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE notes (
  id INTEGER NOT NULL, number INTEGER NOT NULL, at_epoch_s INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX notes_by_number ON notes (id, number);
"""
# rows      one receipt each; `previous` leads to the stream's receipt before it, which costs no index
#           (an index by session would touch as many pages a commit as there are sessions in it);
#           ended, open_frames and harness_sequence are the fold over the session up to this row
# keys      idempotency key -> digest and position; a position at or below the floor is a tombstone
# tips      stream -> its newest row up to meta.pointed; newer rows speak for themselves
# bases     the head of a stream as of its newest pruned row
# marks     every 64th receipt of a session
# seconds   second -> the first position whose receipt is that late; every row before it is earlier
# notes     the journal, in the order of writing; note_streams holds the head, floor and bytes of each stream
# intake    one statement stores rows, keys and marks: one transaction in one call, the interpreter's lock
#           is given up once a commit and not once a row


def check_library(version: str) -> None:
    """Refuse a SQLite with the write-ahead log bug.

    Raises:
        InternalError: `version`, such as ``3.40.1``, is older than `OLDEST_LIBRARY`.
    """
    if tuple(int(part) for part in version.split(".")) < OLDEST_LIBRARY:
        oldest = ".".join(map(str, OLDEST_LIBRARY))
        raise InternalError(
            f"SQLite {version} can corrupt a write-ahead log; need {oldest} or newer", code="sqlite_too_old"
        )


def open_writer(path: Path, *, relaxed: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open the ledger file for its only writer, creating it empty and private if it is not there.

    Raises:
        apsw.Error: the file cannot be opened or is not a database.
    """
    if vfs is None and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path), vfs=vfs, statementcachesize=64)
    return _prepared(
        connection,
        f"page_size = {_PAGE_BYTES}",
        "synchronous = EXTRA",  # or the first journal may come back after a power cut and undo everything
        "journal_mode = WAL",
        "synchronous = NORMAL" if relaxed else "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        "wal_autocheckpoint = 0",  # the writer does it by hand: SQLite swallows the errors of its own
        f"cache_size = -{_WRITER_CACHE_KIB}",
        "trusted_schema = OFF",
    )


def open_reader(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """Open a second, read-only connection; in WAL mode it never waits for the writer, nor the writer for it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs, statementcachesize=64)
    return _prepared(connection, f"cache_size = -{_READER_CACHE_KIB}", "temp_store = MEMORY")


def create(connection: apsw.Connection, epoch: str) -> None:
    """Create the tables in an empty file, or add what an older format lacks, in one transaction.

    Raises:
        InternalError: the file is a database of another format.
    """
    execute = executor(connection)
    (version,) = execute("PRAGMA user_version").fetchone()
    if version == FORMAT:
        return
    if version != _BEFORE_NOTES and (version or execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,)):
        raise InternalError(f"ledger format {version}; this program knows {FORMAT}", code="ledger_format")
    with connection:
        if not version:
            execute(_TABLES)
            execute("INSERT INTO meta VALUES ('epoch', ?), ('floor', 0), ('pruned', 0), ('pointed', 0)", (epoch,))
        execute(_NOTES)
        execute(f"PRAGMA user_version = {FORMAT}")


def executor(connection: apsw.Connection) -> Execute:
    """Return a way to run statements; APSW's own types leave out the buffer protocol and so say little."""
    execute: Execute = connection.cursor().execute  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return execute


def _prepared(connection: apsw.Connection, *pragmas: str) -> apsw.Connection:
    """Apply the settings; a file that refuses them is closed again."""
    try:
        connection.set_busy_timeout(_BUSY_MS)
        for pragma in pragmas:
            executor(connection)(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
