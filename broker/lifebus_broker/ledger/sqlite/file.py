"""Open a ledger file for one writer and one reader, and close it again."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import anyio
import apsw
import msgspec
from msgspec import Struct

from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.errors import unreadable
from lifebus_broker.ledger.sqlite.file_system import check_file_system
from lifebus_broker.ledger.sqlite.format import FORMAT, format_of
from lifebus_broker.ledger.sqlite.reader import Reader
from lifebus_broker.ledger.sqlite.schema import MISREAD, Durability, executor, open_writer
from lifebus_broker.ledger.sqlite.sealed_file import new_sealed_items
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.watermark import HighWaterMark, watermarks_beside
from lifebus_broker.state.sealed import SealedItems
from lifebus_contract import InternalError

BOOT_TAIL: Final = 1000
"""Rows whose chain is verified at every open."""

_STANDING: Final = """
SELECT (SELECT value FROM meta WHERE key = 'epoch'), coalesce((SELECT max(position) FROM rows), 0)"""

_NO_ROOM: Final = (
    "there is no room on its disk to open it, not even for the index of its write-ahead log (32 KiB or more); nothing "
    "in it was changed: make room on the disk, then start again"
)

UNTRUSTED: Final = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError, msgspec.DecodeError)
"""Errors of the disk or of its contents, after which the file is not trusted (docs/ledger.md D3)."""


_ADVICE: Final = (
    "nothing in it was changed: `lifebus ledger verify` lists what is wrong, `lifebus ledger restore` goes back to a "
    "backup, `lifebus receipts export --rescue` saves what can be read"
)


class LedgerFile(Struct, frozen=True, kw_only=True):
    """An open ledger file."""

    path: Path
    vfs: str | None
    durability: Durability
    store: Store
    reader: Reader
    beside: list[SealedItems] = msgspec.field(default_factory=list[SealedItems])

    @property
    def is_kept(self) -> bool:
        """Whether the file outlives its ledger."""
        return self.durability != "none"

    @property
    def synced_log(self) -> str | None:
        """The path of the write-ahead log, where commits wait for it to be synced; None behind a `vfs` of its own."""
        return self.store.connection.filename_wal if self.durability == "full" and self.vfs is None else None

    def new_sealed_items(self) -> SealedItems:
        """Return a file without a name beside this one, which is closed with it; blocks."""
        self.beside.append(new_sealed_items(self.path.parent))
        return self.beside[-1]

    def close(self, *, failed: bool = False) -> None:
        """Close both connections, the writing one last, because it tidies up unless the disk `failed`; blocks."""
        self.reader.close()
        self.store.close(failed=failed)
        for items in self.beside:
            items.close()


async def open_file(path: Path, *, epoch: str, durability: Durability, vfs: str | None) -> LedgerFile:
    """Open the file, or create it with this epoch, in a thread, and check its newest rows.

    Who is cancelled meanwhile waits for the thread and leaves the file closed.

    Raises:
        InternalError: the file cannot be read, is of another format or on a file system that no ledger may be on, or
            its tail is damaged.
    """
    opening = asyncio.get_running_loop().run_in_executor(None, _open, path, epoch, durability, vfs)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # the thread cannot be stopped: without waiting, the file would stay open and locked
        with anyio.CancelScope(shield=True):
            await asyncio.wait((opening,))
        if opening.exception() is None:
            opening.result().close()
        raise


def _open(path: Path, epoch: str, durability: Durability, vfs: str | None) -> LedgerFile:
    """Open both connections; what is in the file is checked before anything is written to it.  Blocks."""
    if vfs is None and durability != "none":  # a file that is not kept needs no disk that keeps its word
        check_file_system(path)
    try:
        was_there = path.exists()  # who wants to begin anew takes the file away
        with ExitStack() as undo:
            # the writer's connection first: it makes the write-ahead log that a reader needs
            connection = open_writer(path, durability=durability, vfs=vfs)
            undo.callback(_leave, connection)
            is_current = format_of(connection) == FORMAT
            if is_current:
                _check(path, vfs)
            elif was_there:
                _check_older(path, connection)
            numbered = durability != "none"
            mark = HighWaterMark.beside(path) if durability == "full" else None  # it may claim only what is durable
            store = Store(connection, epoch, mark, numbered=numbered)
            # an older format can be checked only once it is upgraded
            if not is_current:
                _check(path, vfs)
            reader = Reader(path, vfs=vfs, numbered=numbered)
            undo.pop_all()
            return LedgerFile(path=path, vfs=vfs, durability=durability, store=store, reader=reader)
    except apsw.Error as fault:
        if _is_short_of_room(fault):
            raise unreadable(path, _NO_ROOM) from fault
        what = f"cannot be opened: {type(fault).__name__}: {str(fault)[:200]}"
        raise InternalError(f"the ledger {path.name} {what}; {_ADVICE}", code="ledger_failed") from fault
    except MISREAD as fault:
        raise _damaged(path, f"{type(fault).__name__}: {str(fault)[:200]}") from fault


def _check(path: Path, vfs: str | None) -> None:
    """Refuse a file that is not what was written."""
    if wrong := verify(path, BOOT_TAIL, vfs):
        raise _damaged(path, wrong[0])


def _check_older(path: Path, connection: apsw.Connection) -> None:
    """Refuse a file that seems empty, or of an older format, although more than it holds was acknowledged."""
    execute = executor(connection)
    tables = {name for (name,) in execute("SELECT name FROM sqlite_schema").fetchall()}
    if tables and not tables >= {"meta", "rows"}:
        return  # no ledger at all, which is found out later
    epoch, head = execute(_STANDING).fetchone() if tables else (None, 0)
    missing = max((note.head for note in watermarks_beside(path) if epoch in (None, note.epoch)), default=0)
    if missing > head:
        raise _damaged(path, f"row {head + 1}: was acknowledged and is missing, as is everything up to row {missing}")


def _is_short_of_room(fault: apsw.Error) -> bool:
    """Whether a file could not be opened because its disk is full; SQLite calls a full disk an I/O error there."""
    return isinstance(fault, apsw.FullError) or getattr(fault, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE


def _damaged(path: Path, what: str) -> InternalError:
    return InternalError(f"the ledger {path.name} is damaged: {what}; {_ADVICE}", code="ledger_damaged")


def _leave(connection: apsw.Connection) -> None:
    """Close a file that was refused, and leave its write-ahead log where it is."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
