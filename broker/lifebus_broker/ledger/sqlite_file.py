"""Open a ledger file for one writer and one reader, and close it again.

Above: sqlite.  Below: sqlite_store, sqlite_reader, sqlite_verify.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import anyio
import apsw
from msgspec import Struct

from lifebus_broker.ledger.sqlite_reader import Reader
from lifebus_broker.ledger.sqlite_store import Store
from lifebus_broker.ledger.sqlite_verify import verify
from lifebus_contract import InternalError

__all__ = ["BOOT_TAIL", "UNTRUSTED", "LedgerFile", "open_file"]

BOOT_TAIL: Final = 1000
"""Rows whose chain is verified at every open."""

UNTRUSTED: Final = (apsw.IOError, apsw.CorruptError, apsw.NotADBError)
"""Errors after which nothing that the file says can be trusted (design 4.3)."""


class LedgerFile(Struct, frozen=True, kw_only=True):
    """An open ledger file; `relaxed` when the last commits may be lost in a power cut."""

    path: Path
    vfs: str | None
    relaxed: bool
    store: Store
    reader: Reader

    def close(self, *, failed: bool = False) -> None:
        """Close both connections, the writing one last, because it tidies up unless the disk `failed`; blocks."""
        self.reader.close()
        self.store.close(failed=failed)


async def open_file(path: Path, *, epoch: str, relaxed: bool, vfs: str | None) -> LedgerFile:
    """Open the file, or create it with this epoch, in a thread, and check its newest rows.

    Who is cancelled meanwhile waits for the thread and leaves the file closed.

    Raises:
        InternalError: the file cannot be read, is of another format, or its tail is damaged.
    """
    opening = asyncio.get_running_loop().run_in_executor(None, _open, path, epoch, relaxed, vfs)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait((opening,))
        if opening.exception() is None:
            opening.result().close()
        raise


def _open(path: Path, epoch: str, relaxed: bool, vfs: str | None) -> LedgerFile:
    """Open both connections and check the newest rows; blocks."""
    try:
        with ExitStack() as undo:
            store = Store.open(path, epoch=epoch, relaxed=relaxed, vfs=vfs)
            undo.callback(store.close)
            reader = Reader(path, vfs=vfs)
            undo.callback(reader.close)
            if wrong := verify(path, BOOT_TAIL, vfs):
                raise InternalError(f"the ledger {path.name} is damaged: {wrong[0]}", code="ledger_damaged")
            undo.pop_all()
            return LedgerFile(path=path, vfs=vfs, relaxed=relaxed, store=store, reader=reader)
    except apsw.Error as fault:
        detail = f"the ledger {path.name} cannot be opened: {type(fault).__name__}: {str(fault)[:200]}"
        raise InternalError(detail, code="ledger_failed") from fault
