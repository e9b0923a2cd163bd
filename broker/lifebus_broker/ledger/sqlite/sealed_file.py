"""What is kept of sessions that ended, in a file without a name beside the ledger, so that it takes no memory.

It is derived from the log and goes with the process, so nothing of it is ever synced.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import apsw

from lifebus_broker.ledger.sqlite.schema import Execute, executor
from lifebus_broker.state.sealed import SealedInMemory, SealedItem, SealedItems
from lifebus_contract import InternalError

_PIECE: Final = 256
_SETTINGS: Final = (
    "page_size = 4096",
    "cache_size = -256",
    "locking_mode = EXCLUSIVE",
    "journal_mode = MEMORY",
    "synchronous = OFF",
    "temp_store = MEMORY",
)
_TABLE: Final = """
CREATE TABLE sealed(adapter TEXT, session TEXT, value BLOB, PRIMARY KEY (adapter, session)) WITHOUT ROWID"""
_GET: Final = "SELECT value FROM sealed WHERE adapter = ? AND session = ?"
_PUT: Final = "INSERT OR REPLACE INTO sealed VALUES (?, ?, ?)"
_DROP: Final = "DELETE FROM sealed WHERE adapter = ? AND session = ?"
_NEXT: Final = """
SELECT adapter, session, value FROM sealed WHERE (adapter, session) > (?, ?) ORDER BY adapter, session LIMIT ?"""


def new_sealed_items(folder: Path) -> SealedItems:
    """Return an empty place for sealed sessions: a file in the folder, or memory where none can be made there."""
    try:
        connection = _open_unnamed(folder)
    except (apsw.Error, OSError):
        return SealedInMemory()
    return SealedInFile(connection, folder)


class SealedInFile:
    """Implements `SealedItems` in a file; once the disk takes no more, in memory."""

    def __init__(self, connection: apsw.Connection, folder: Path) -> None:
        """Take over a connection of `_open_unnamed`."""
        self._connection, self._folder = connection, folder
        self._execute: Execute = executor(connection)
        self._count = 0
        self._memory: SealedInMemory | None = None

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return self._count if self._memory is None else len(self._memory)

    def get(self, key: tuple[str, str]) -> bytes | None:
        """Return what is kept of a session, None where nothing is."""
        if self._memory is not None:
            return self._memory.get(key)
        if not self._count:
            return None
        with _reading():
            found: list[tuple[bytes]] = self._execute(_GET, key).fetchall()
        return found[0][0] if found else None

    def put(self, items: Iterable[SealedItem]) -> None:
        """Keep the items."""
        items = list(items)
        if self._memory is None and items:
            added = sum(self.get(key) is None for key, _ in items)
            try:
                with self._connection:
                    for (adapter, session), value in items:
                        self._execute(_PUT, (adapter, session, value))
                self._count += added
            except apsw.Error:
                self._give_up()
        if self._memory is not None:
            self._memory.put(items)

    def drop(self, key: tuple[str, str]) -> None:
        """Forget a session."""
        if self._memory is None and self.get(key) is not None:
            try:
                self._execute(_DROP, key)
                self._count -= 1
            except apsw.Error:
                self._give_up()
        if self._memory is not None:
            self._memory.drop(key)

    def in_order(self) -> Iterator[SealedItem]:
        """Yield everything, by adapter and session."""
        return self._pieces() if self._memory is None else self._memory.in_order()

    def copy(self) -> SealedItems:
        """Return an independent copy."""
        other = new_sealed_items(self._folder)
        pieces = self.in_order()
        while piece := list(islice(pieces, _PIECE)):
            other.put(piece)
        return other

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _pieces(self) -> Iterator[SealedItem]:
        """Yield what the file holds; each piece is a read of its own, so that none stays open."""
        key = ("", "")
        while True:
            with _reading():
                rows: list[tuple[str, str, bytes]] = self._execute(_NEXT, (*key, _PIECE)).fetchall()
            for adapter, session, value in rows:
                key = (adapter, session)
                yield key, value
            if len(rows) < _PIECE:
                return

    def _give_up(self) -> None:
        """Go on in memory: the disk takes no more, and what has been kept can still be read."""
        self._memory = SealedInMemory(self._pieces())
        self._connection.close()


def _open_unnamed(folder: Path) -> apsw.Connection:
    """Return a connection to a new file that only this process has."""
    name = str(folder / f".sealed.{os.urandom(8).hex()}.tmp")
    os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        connection = apsw.Connection(name)
        try:
            for setting in _SETTINGS:
                executor(connection)(f"PRAGMA {setting}").fetchall()
            executor(connection)(_TABLE)
        except BaseException:
            connection.close()
            raise
    finally:
        Path(name).unlink()
    return connection


@contextmanager
def _reading() -> Generator[None]:
    try:
        yield
    except apsw.Error as fault:
        detail = f"what is kept of sessions that ended cannot be read: {type(fault).__name__}: {str(fault)[:200]}"
        raise InternalError(detail, code="ledger_failed") from fault
