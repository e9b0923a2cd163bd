"""Put another ledger in the place of the present one, so that a kill at any moment leaves the one or the other.

A complete ledger file beside the present one, under the name `next_path`, is a replacement that is decided.  Whoever
holds the lock and opens the ledger calls `settle` first.  What was there before is moved aside, never deleted.
"""

import errno
import os
import time
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Final

from lifebus_broker.atomic_files import remove_unfinished, sync_directory
from lifebus_broker.ledger.sqlite.watermark import watermark_path

_WAL, _SHM = "-wal", "-shm"
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def next_path(path: Path) -> Path:
    """Return where the ledger stands that is to replace the one at `path`; renaming it there decides."""
    return path.with_name(path.name + ".next")


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files of a ledger: database, write-ahead log, index of that; they need not be there."""
    return tuple(path.with_name(path.name + ending) for ending in ("", _WAL, _SHM))


def aside_path(path: Path) -> Path:
    """Return the directory that the present ledger goes into; its name holds the time of the replacement."""
    made = next_path(path).stat().st_mtime_ns
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(made // 1_000_000_000))
    return path.with_name(f"{path.name}.before-{moment}.{made % 1_000_000_000:09d}Z")


def settle(path: Path, companions: Sequence[Path] = ()) -> Path | None:
    """Finish a replacement that was decided; return where the ledger before is now, None where there was none.

    `companions` are what else belongs to the history before; they go with it.  Doing it twice, or going on after a
    kill, is the same as doing it once.  The caller holds the lock; blocks.

    Raises:
        OSError: it cannot be done now; nothing is lost, and it is to be tried again.
    """
    coming = next_path(path)
    if not coming.exists():
        return None
    present = any(file.exists() for file in files_of(path))
    aside = _move_aside(path, companions) if present else None
    # a rename within a directory is atomic: there is a ledger at `path` at every moment
    coming.replace(path)
    sync_directory(path.parent)
    return aside


def settle_files(path: Path, companions: Sequence[Path] = ()) -> None:
    """Settle the ledger at `path`, and remove what was left unfinished beside it.

    The caller holds the lock; blocks.

    Raises:
        OSError: it cannot be done now.
    """
    settle(path, companions)
    remove_unfinished(path.parent, path.name)
    for left in path.parent.glob(f".{escape(path.name)}.*.tmp-*"):
        if not left.with_name(left.name.rpartition("-")[0]).exists():
            left.unlink(missing_ok=True)


def _move_aside(path: Path, companions: Sequence[Path]) -> Path:
    """Give the present ledger another place; its database keeps this one too, until the next takes it."""
    aside = aside_path(path)
    aside.mkdir(mode=0o700, exist_ok=True)
    database, log, index = files_of(path)
    _keep(database, aside / path.name)
    for companion in (log, watermark_path(path), *companions):  # a log beside another database would spoil it
        if companion.exists():
            companion.replace(aside / companion.name)
    # SQLite makes the index anew from the log, and the old one belongs to no file here
    index.unlink(missing_ok=True)
    for directory in {aside, path.parent, *(companion.parent for companion in companions)}:
        if directory.is_dir():
            sync_directory(directory)
    return aside


def _keep(path: Path, target: Path) -> None:
    """Give the file a second name, or make a copy where the file system has no links; done already is done."""
    if not path.exists() or target.exists():
        return
    try:
        os.link(path, target)
    except OSError as fault:
        if fault.errno not in _NO_LINKS:
            raise
        partial = target.with_name(target.name + ".part")
        import shutil  # noqa: PLC0415  rarely needed, and it brings the compressors along

        shutil.copyfile(path, partial)
        with partial.open("rb") as copied:
            os.fsync(copied.fileno())
        partial.replace(target)
