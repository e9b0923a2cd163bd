"""How a ledger file is opened, and which SQLite may touch it."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import apsw
import msgspec

from lifebus_broker.ledger.sqlite.checksums import checksum, guarded
from lifebus_contract import InternalError

MISFIT: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a value that is not of its kind may raise where it is used."""

MISREAD: Final = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
    apsw.FormatError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.NoMemError,
    apsw.ConstraintError,
    msgspec.DecodeError,
    *MISFIT,
)
"""What reading a damaged file may raise: SQLite finds no sense in it, or a value is not of its kind.

An error of the disk is none of these: what it holds is unknown.
"""

Durability = Literal["full", "relaxed", "none"]
"""What a commit survives: ``full`` a power cut, ``relaxed`` the end of the process, ``none`` nothing at all."""

Execute = Callable[..., Any]
"""`apsw.Cursor.execute`: a statement, its values; a cursor over what it selects."""


OLDEST_LIBRARY: Final = (3, 51, 3)
"""SQLite 3.7.0 to 3.51.2 can corrupt a write-ahead log (docs/ledger.md D1)."""

MARK_EVERY: Final = 64
"""A session's every 64th sequence leaves a mark, so that reading a session can start anywhere near."""

_PAGE_BYTES: Final = 4096
_WRITER_CACHE_KIB: Final = 65_536
_READER_CACHE_KIB: Final = 2_048
_BUSY_MS: Final = 5000
_SYNCHRONOUS: Final[dict[Durability, str]] = {"full": "FULL", "relaxed": "NORMAL", "none": "OFF"}


def library_version() -> str:
    """Return the version of SQLite, such as ``3.51.3``."""
    return apsw.sqlite_lib_version()


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


def open_writer(path: Path, *, durability: Durability = "full", vfs: str | None = None) -> apsw.Connection:
    """Open the ledger file for its only writer, creating it empty and private if it is not there.

    Raises:
        apsw.Error: the file cannot be opened or is not a database.
    """
    if vfs is None and not path.exists():
        _create(path)
    connection = apsw.Connection(str(path), vfs=vfs, statementcachesize=64)
    return _prepared(
        connection,
        "synchronous = OFF"
        if durability == "none"
        else "synchronous = EXTRA",  # or the first journal may come back after a power cut and undo everything
        "journal_mode = WAL",
        f"synchronous = {_SYNCHRONOUS[durability]}",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        "wal_autocheckpoint = 0",  # the writer does it by hand: SQLite swallows the errors of its own
        f"cache_size = -{_WRITER_CACHE_KIB}",
        "trusted_schema = OFF",
        new=(f"page_size = {_PAGE_BYTES}", "auto_vacuum = INCREMENTAL"),
    )


def _create(path: Path) -> None:
    """Create an empty file, private whatever the umask; its log and its index get the mode that it has.

    Before SQLite opens it, which would give it the mode that the umask allows.
    """
    # A file that somebody made just now is not touched; whose it is, is checked by those who open ledgers.
    with suppress(FileExistsError):
        descriptor = os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def open_reader(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """Open a second, read-only connection; in WAL mode it never waits for the writer, nor the writer for it."""
    # read-only by flag: a bug in a query cannot write
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs, statementcachesize=64)
    return _prepared(connection, f"cache_size = -{_READER_CACHE_KIB}", "temp_store = MEMORY")


def executor(connection: apsw.Connection) -> Execute:
    """Return a way to run statements; APSW's own types leave out the buffer protocol and so say little."""
    execute: Execute = connection.cursor().execute  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return execute


@contextmanager
def busy_timeout(connection: apsw.Connection, wait_ms: int = 0) -> Generator[None]:
    """Wait for others no longer than this inside the block: `apsw.BusyError` comes at once, or soon."""
    connection.set_busy_timeout(wait_ms)
    try:
        yield
    finally:
        connection.set_busy_timeout(_BUSY_MS)


@contextmanager
def snapshot(connection: apsw.Connection) -> Generator[Execute]:
    """One read transaction, in which everything is as of one moment."""
    execute = executor(connection)
    execute("BEGIN")
    try:
        yield execute
    finally:
        if connection.in_transaction:  # some errors end it by themselves
            execute("ROLLBACK")


def meta_of(execute: Execute) -> dict[str, Any]:
    """Return the ledger's own values: `epoch`, `floor`, `pruned`, `pointed`."""
    return dict(execute("SELECT key, value FROM meta").fetchall())


def _prepared(connection: apsw.Connection, *pragmas: str, new: Sequence[str] = ()) -> apsw.Connection:
    """Apply the settings and lend SQL our checksums; a file that refuses them is closed again.

    Those of a `new` file are not applied to any other, where `auto_vacuum` would be a write.
    """
    try:
        connection.set_busy_timeout(_BUSY_MS)
        _lend(connection, "checksum", checksum)
        _lend(connection, "guarded", guarded)
        # page size and auto-vacuum can be set only before the first page is written
        is_new = new and executor(connection)("PRAGMA page_count").fetchall() == [(0,)]
        for pragma in (*new, *pragmas) if is_new else pragmas:
            executor(connection)(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _lend(connection: apsw.Connection, name: str, function: Callable[..., Any]) -> None:
    """Make a function of ours callable from SQL; APSW's types leave out the buffer protocol here as well."""
    connection.create_scalar_function(name, function, deterministic=True)  # pyright: ignore[reportUnknownMemberType]
