"""Copies of a ledger file: a consistent one beside a running broker, a new history, the same file without holes.

A copy is made by `VACUUM INTO` on a connection of its own.  It reads one snapshot of the write-ahead log, which the
writer never waits for; SQLite's backup interface would have to begin again after every commit, unless it takes the
same snapshot, and would copy pages that are free as well.
"""

from contextlib import closing
from pathlib import Path

import apsw

from lifebus_broker.ledger.sqlite.format import FORMAT, set_meta
from lifebus_broker.ledger.sqlite.schema import executor, open_reader, open_writer
from lifebus_broker.ledger.sqlite.store import Store


def copy_ledger(path: Path, target: Path) -> None:
    """Write the ledger as of now into an empty file; what is not committed yet is not in it; blocks.

    Raises:
        apsw.Error: the ledger cannot be read, or the copy not be written.
    """
    with closing(open_reader(path)) as connection:
        executor(connection)("VACUUM INTO ?", (str(target),))


def bring_up_to_date(path: Path) -> None:
    """Give a copy of an older format this program's; blocks.

    Raises:
        apsw.Error: it cannot be read or written.
        InternalError: it is no ledger that this program knows.
    """
    with closing(open_reader(path)) as connection:
        if executor(connection)("PRAGMA user_version").fetchone() == (FORMAT,):
            return
    store = Store.open(path, epoch="")
    with closing(store.connection):
        executor(store.connection)("PRAGMA journal_mode = DELETE")  # one file, as copies are


def renew(path: Path, epoch: str) -> None:
    """Begin a new history in a copy, bringing it up to date with this program's format; blocks.

    Raises:
        apsw.Error: it cannot be read or written.
        InternalError: it is no ledger that this program knows.
    """
    store = Store.open(path, epoch=epoch)
    with closing(store.connection):
        set_meta(executor(store.connection), epoch=epoch)


def compact(path: Path) -> None:
    """Write the whole file anew without what is free in it; a kill leaves it as it was, or done; blocks.

    Raises:
        apsw.Error: it cannot be read or written; it is as it was.
    """
    with closing(open_writer(path)) as connection:
        executor(connection)("PRAGMA auto_vacuum = INCREMENTAL")  # which files of older formats do not have yet
        executor(connection)("VACUUM")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def is_in_use(path: Path) -> bool:
    """Whether another process, a broker perhaps, has the file open; one that cannot be read is nobody's.  Blocks."""
    if not path.is_file():
        return False
    try:
        # SQLite's locks go with the process: a broker that was killed does not keep its ledger locked
        return _is_locked(path)
    except apsw.Error:
        return False


def _is_locked(path: Path) -> bool:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # to ask changes nothing
        execute = executor(connection)
        execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except apsw.BusyError:
            return True
    return False
