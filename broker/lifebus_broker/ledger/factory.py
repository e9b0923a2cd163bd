"""Open the ledger that the settings name; no other module knows which backend that is."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread

from lifebus_broker.ledger.backends import LedgerLocation
from lifebus_broker.ledger.log import LedgerLog
from lifebus_broker.ledger.scrubbing import Pace
from lifebus_broker.ledger.sqlite.errors import read_errors
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.transfer.swap import files_of, next_path, settle_files
from lifebus_broker.ledger.sqlite.watermark import watermark_path
from lifebus_broker.ports import Ledger, StoredReceipt
from lifebus_contract import LifebusError

_UNKEPT: Final = "ledger-not-kept-"


async def open_ledger(
    location: LedgerLocation,
    *,
    companions: Sequence[Path] = (),
    scratch: Path | None = None,
    committed: Callable[[list[StoredReceipt]], None] | None = None,
    failed: Callable[[Exception], None] | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
    clock: Callable[[], float] = time.time,
) -> Ledger:
    """Open the ledger to write it; the caller holds the locks that keep other writers out.

    A replacement that was cut off is finished first; `companions` are what else belongs to the history before, and go
    with it.  A ledger that is not kept has its files in `scratch` while it is open (`open_unkept`); what a killed
    process left there is removed, whichever ledger is opened.  `committed`, `failed` and `clock` are as for
    `SqliteLedger.open`.

    Raises:
        InternalError: it cannot be opened, or is damaged.
        OSError: a replacement cannot be finished now.
    """
    if location.file is None:
        return await open_unkept(scratch, committed=committed, failed=failed, entropy=entropy, clock=clock)
    await anyio.to_thread.run_sync(_remove_unkept, scratch)
    # what was decided before a kill comes first: else two histories would be mixed
    await anyio.to_thread.run_sync(settle_files, location.path.resolve(), companions)
    return await SqliteLedger.open(location.path, entropy=entropy, committed=committed, failed=failed, clock=clock)


async def open_unkept(
    scratch: Path | None = None,
    *,
    committed: Callable[[list[StoredReceipt]], None] | None = None,
    failed: Callable[[Exception], None] | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
    clock: Callable[[], float] = time.time,
) -> Ledger:
    """Open a new ledger that is gone when it is closed.

    `scratch` is a directory of the caller's alone: what a process that was killed left in it is removed.  Without one
    the system's directory for temporary files is taken.

    Raises:
        InternalError: it cannot be opened.
        OSError: there is no room for it.
    """
    # in a thread: what a killed process left may be large
    directory = await anyio.to_thread.run_sync(_make_directory, scratch)
    try:
        return await SqliteLedger.open(
            directory / "ledger.db",
            entropy=entropy,
            committed=committed,
            failed=failed,
            clock=clock,
            durability="none",
        )
    # a cancelled opening as well: the directory may hold up to 256 MiB
    except BaseException:
        import shutil  # noqa: PLC0415  rarely needed, and it brings the compressors along

        shutil.rmtree(directory, ignore_errors=True)
        raise


def open_log(location: LedgerLocation) -> LedgerLog:
    """Open the log of the ledger, beside a broker or without one; blocks.

    Raises:
        LifebusError: no such file is kept, or it cannot be read.
    """
    path = ledger_file(location, "nothing to save or to boot")
    if not path.is_file():
        why = "there is no such ledger; `lifebus up` makes it, `lifebus config show --origin` shows where"
        raise LifebusError(f"{location.path}: {why}", code="unreadable")
    return SqliteLog(path)


def scrub_ledger(location: LedgerLocation, after: int, pace: Pace, found: Callable[[list[str]], None]) -> None:
    """Check the ledger in slices, its rows from behind a position on, beside a broker; blocks (`checks.scrub`).

    Raises:
        LifebusError: no such file is kept, or it cannot be read.
    """
    from lifebus_broker.ledger.sqlite.checks.scrub import scrub  # noqa: PLC0415  nothing is checked before it is idle

    path = ledger_file(location)
    with read_errors(path):
        scrub(path, after, pace, found)


def ledger_file(location: LedgerLocation, lacking: str = "no file") -> Path:
    """Return the file of the ledger, which need not be there; links are followed.

    Raises:
        LifebusError: there is none to open; the text ends in what is `lacking` therefore.
    """
    if location.file is None:
        raise LifebusError(f"the ledger is not kept: there is {lacking}", code="configuration")
    return location.file.resolve()  # what replaces it must not replace a link to it


def files_of_ledger(location: LedgerLocation) -> tuple[Path, ...]:
    """Return every path at which a ledger has a file, or may have one; none where it is not kept.

    The first is the path that the settings name, the others lie where links lead.
    """
    if location.file is None:
        return ()
    real = location.file.resolve()
    return (location.file, *files_of(real), watermark_path(real), next_path(real))


def _make_directory(scratch: Path | None) -> Path:
    """Return a new private directory, once what an earlier process left is removed."""
    _remove_unkept(scratch)
    import tempfile  # noqa: PLC0415  rarely needed, as shutil

    return Path(tempfile.mkdtemp(prefix=_UNKEPT, dir=scratch))


def _remove_unkept(scratch: Path | None) -> None:
    """Remove the ledgers that killed processes left in `scratch`; blocks."""
    if scratch is None:
        return
    # the caller holds the lock of `scratch`: nobody else's ledger can be there
    for left in scratch.glob(f"{_UNKEPT}*"):
        import shutil  # noqa: PLC0415  rarely needed, and it brings the compressors along

        shutil.rmtree(left, ignore_errors=True)
