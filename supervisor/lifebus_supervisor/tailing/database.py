"""One harness's SQLite database, queried for what is new, and left exactly as it was.

A database in WAL mode has a log beside it and an index of that log, which an ordinary reader would create, and leave
behind.  So it is opened in one of three ways, by what is there:

- a rollback database: read-only, with the locks that every reader takes;
- a WAL database whose log is empty or gone: as an immutable file, and the answers are dropped if it changed meanwhile;
- a WAL database with a log: read-only, and its index too, which has to exist.
"""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from lifebus_adapters.shared.telemetry import DatabaseReader, Fact, RowQuery
from lifebus_supervisor.tailing.decode import Decoder, ReadResult
from lifebus_supervisor.tailing.safe_open import FilePlace, UnusableFile, check_status, open_checked

_MAGIC: Final = b"SQLite format 3\0"
_WAL_VERSION: Final = 2
_BUSY_S: Final = 0.1
_STEPS: Final = 1_000
"""After how many steps of SQLite's machine the deadline is checked."""
_LONGEST_VALUE: Final = 64 * 1024 * 1024
_SETTLED_S: Final = 2.0
"""A file that changed less than this ago may change again without another time stamp."""
_IMMUTABLE: Final = "&immutable=1"
_FAULTS: Final = {
    sqlite3.SQLITE_ERROR: "SQLError",
    sqlite3.SQLITE_BUSY: "BusyError",
    sqlite3.SQLITE_READONLY: "ReadOnlyError",
    sqlite3.SQLITE_IOERR: "IOError",
    sqlite3.SQLITE_CORRUPT: "CorruptError",
    sqlite3.SQLITE_CANTOPEN: "CantOpenError",
    sqlite3.SQLITE_NOTADB: "NotADBError",
}
"""What the evidence in receipts calls SQLite's primary result codes."""
_PRIMARY: Final = 0xFF
"""The bits of an extended result code that are the primary one."""

_Version = tuple[tuple[int, ...] | None, ...]
_Answers = list[tuple[RowQuery, list[tuple[Any, ...]]]]


class DatabaseTail:
    """A database that is queried when it or its log has changed, or when an answer was as long as it may be."""

    def __init__(self, decoder: Decoder, make_reader: Callable[[], DatabaseReader], *, uid: int, history: bool) -> None:
        """Follow a database; `history` says whether what it holds at first is old."""
        self.decoder = decoder
        self.size = 0
        self.changed_at = 0.0
        self._make_reader, self._uid = make_reader, uid
        self._history = history
        self._absent = False
        self._identity: tuple[int, int] | None = None
        self._queried: _Version | None = None
        self._settled = False
        self.is_behind = False

    def is_news(self, place: FilePlace, status: os.stat_result, now: float) -> bool:  # noqa: ARG002  a file's is alike
        """Whether to query: something changed since the last answers, or may have."""
        return self.is_behind or not self._settled or self._queried != _version_of(place.path)

    def mark_absent(self) -> None:
        """Note that there is no such file now: whatever appears is new."""
        self._absent = True

    def read(self, place: FilePlace, now: float, expired: Callable[[], bool]) -> list[ReadResult]:
        """Query what is new; a query is stopped when the time has `expired`.

        Raises:
            UnusableFile: the file cannot be opened, is no database, or SQLite cannot read it now.
        """
        # Before the query: a change during it makes the versions differ, and the next poll queries again.
        version = _version_of(place.path)
        with open_checked(place, self._uid) as (file, status):
            header = os.pread(file, 100, 0)
        if self._identity != (status.st_dev, status.st_ino):
            self._restart(status)
        if not header:
            return []  # nothing has been stored yet
        options = self._options(place.path, header)
        try:
            answers = self._query(place.path, options, expired)
        except UnusableFile:
            # Without locks a writer's half-written page looks like damage: it counts only where nothing was written.
            if options == _IMMUTABLE and _version_of(place.path) != version:
                return []
            raise
        if options == _IMMUTABLE and _version_of(place.path) != version:
            return []  # it changed while we read; what was read may be neither the old nor the new
        return self._decode(answers, version, now)

    def _restart(self, status: os.stat_result) -> None:
        """Query from the beginning; a database that took another's place may be a copy, so what it holds is old."""
        self._reader = self._make_reader()
        self._history = not self._absent and (self._history or self._identity is not None)
        self._identity, self._absent = (status.st_dev, status.st_ino), False
        self.decoder.reset()

    def _query(self, path: str, options: str, expired: Callable[[], bool]) -> _Answers:
        try:
            with _connected(path, options, expired) as connection:
                return [(query, _rows(connection, query)) for query in self._reader.queries()]
        except sqlite3.Error as fault:
            raise UnusableFile("unreadable", _evidence(fault)) from fault

    def _options(self, path: str, header: bytes) -> str:
        """Return how to open the file so that nothing is created beside it."""
        if not header.startswith(_MAGIC):
            raise UnusableFile("unreadable", "not a SQLite database")
        # Bytes 18 and 19 are the file format's write and read versions.
        if _WAL_VERSION not in header[18:20]:
            return ""
        # Opened in any other way, SQLite would create the log and its index beside another program's database.
        if not self._has_log(f"{path}-wal"):
            return _IMMUTABLE
        if not self._has_log(f"{path}-shm"):
            raise UnusableFile("unreadable", "the database's log has no index; only its owner may make one")
        return "&readonly_shm=1"

    def _has_log(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        check_status(status, self._uid)
        return status.st_size > 0

    def _decode(self, answers: _Answers, version: _Version, now: float) -> list[ReadResult]:
        facts: list[Fact] = []
        skipped = self.decoder.skipped
        for query, rows in answers:
            facts += self.decoder.decode(partial(self._reader.read, query, rows), len(rows))
        self._queried = version
        self.changed_at = max(part[3] for part in version if part) / 1e9
        self._settled = now - self.changed_at > _SETTLED_S
        # An answer as long as its limit may be cut off there.
        self.is_behind = any(len(rows) >= query.limit for query, rows in answers)
        self.size = sum(part[2] for part in version if part)
        result = ReadResult(
            facts=tuple(facts),
            grown=0 if self._history else sum(len(rows) for _, rows in answers),
            skipped=self.decoder.skipped - skipped,
            history=self._history,
        )
        self._history = self._history and self.is_behind
        return [result] if result.is_news else []


def _version_of(path: str) -> _Version:
    """Return what shows whether a database changed: identity, size and time of the file and of its log."""
    return _stat_of(path), _stat_of(f"{path}-wal")


def _stat_of(path: str) -> tuple[int, ...] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _connected(path: str, options: str, expired: Callable[[], bool]) -> Generator[sqlite3.Connection]:
    """Yield a connection that reads only, whose queries are short, and to which a schema is data and no program.

    Raises:
        UnusableFile: what was opened is not the file at this very path.
    """
    uri = f"file:{quote(path)}?mode=ro{options}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)) as connection:
        # SQLite resolves links on the way to a file, and does not follow any afterwards.  A link that appeared since
        # the path was checked shows in the name that it has resolved, before a byte is read.
        ((_, _, opened),) = connection.execute("PRAGMA database_list")
        if opened != path:
            raise UnusableFile("refused", "a symbolic link on the way")
        connection.set_progress_handler(expired, _STEPS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")  # views and triggers of others may not call functions
        yield connection


def _rows(connection: sqlite3.Connection, query: RowQuery) -> list[tuple[Any, ...]]:
    # A cursor that is not at its end holds the writer's checkpoints up, until it is closed.
    with closing(connection.execute(query.sql, query.values)) as cursor:
        return list(islice(cursor, query.limit))


def _evidence(fault: sqlite3.Error) -> str:
    code: int | None = getattr(fault, "sqlite_errorcode", None)
    if code is None:
        return type(fault).__name__  # a fault of the module itself, whose text may quote a value of the database
    if code == sqlite3.SQLITE_INTERRUPT:
        return "the query took too long"
    return f"{_FAULTS.get(code & _PRIMARY, type(fault).__name__)}: {str(fault)[:120]}"
