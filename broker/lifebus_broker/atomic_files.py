"""Files that are whole or not there: written beside their place, synced, renamed, and their directory synced.

All stores of small files use these functions: snapshots, compactions, continuations, the installer's records.  A reader
proves what a file says by a hash or by building it again, so nothing here promises anything about contents.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Final

from lifebus_broker.disk import Disk

# O_NONBLOCK: to open a pipe that somebody put in the place of a file must not wait for its other end.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNFINISHED: Final = re.compile(r"\..+\.(\d+)\.tmp")
_DISK: Final = Disk()


def make_directory(path: Path) -> None:
    """Make a directory for its owner only where it is missing; its parent is there.

    Raises:
        OSError: the system refused.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        sync_directory(path.parent)


def create_file(
    path: Path,
    contents: bytes | Iterable[bytes],
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    disk: Disk = _DISK,
) -> None:
    """Write a new file and sync it; its name is durable once the directory is synced.  `owner` is (user, group).

    What comes in pieces is written as it comes, and may raise what it wants.

    Raises:
        OSError: the system refused; nothing unfinished is left.
    """
    descriptor = disk.create(path)
    try:
        for piece in [contents] if isinstance(contents, bytes) else contents:
            rest = memoryview(piece)
            while rest:
                rest = rest[disk.write(descriptor, rest) :]
        if owner is not None and owner != (os.geteuid(), os.fstat(descriptor).st_gid):
            disk.set_owner(descriptor, *owner)
        # After the change of owner, which may clear bits of the mode.
        disk.set_mode(descriptor, mode)
        disk.sync(descriptor)
    except BaseException as fault:
        # A write through a descriptor does not know its file, and the user has to find the disk.
        if isinstance(fault, OSError):
            fault.filename = fault.filename or str(path)
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def write_file(
    path: Path, contents: bytes | Iterable[bytes], *, unfinished: Path | None = None, disk: Disk = _DISK
) -> None:
    """Put a file in its place in one step, over the one that stands there; durable when this returns.

    `unfinished` is the name beside it under which it is written, by default one of this process alone.

    Raises:
        OSError: the system refused; what stood there before stands there still, and nothing unfinished is left.
    """
    unfinished = unfinished or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _create_anew(unfinished, contents, disk)
    try:
        disk.rename(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    # The rename itself is durable only once the directory is.
    disk.sync_directory(path.parent)


def add_file(path: Path, contents: bytes, *, unfinished: Path, disk: Disk = _DISK) -> None:
    """Put a new file in its place in one step, where none may stand; durable when this returns.

    Raises:
        FileExistsError: another file stands there, and stays as it is.
        OSError: the system refused; nothing unfinished is left.
    """
    _create_anew(unfinished, contents, disk)
    try:
        # A link fails where a rename would replace the file of somebody who was faster.
        disk.link(unfinished, path)
    except OSError:
        disk.unlink(unfinished)
        raise
    disk.unlink(unfinished)
    disk.sync_directory(path.parent)


def read_file(path: Path, max_bytes: int) -> bytes | None:
    """Return what a regular file of ours holds, up to `max_bytes` and one more; None where there is no such file.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        return file.read(max_bytes + 1)


def remove_file(path: Path, *, disk: Disk = _DISK) -> bool:
    """Remove a file durably; False where it was not there.

    Raises:
        OSError: the system refused.
    """
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    disk.sync_directory(path.parent)
    return True


def remove_unfinished(directory: Path, name: str | None = None) -> None:
    """Remove what processes that are gone left unfinished, of every file or of those for one name.

    Raises:
        OSError: the system refused.
    """
    for path in directory.glob(".*.tmp" if name is None else f".{escape(name)}.*.tmp"):
        found = _UNFINISHED.fullmatch(path.name)
        if found is not None and not _is_running(int(found[1])):
            path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make what was made, renamed or removed in a directory survive a power cut.

    Raises:
        OSError: the system refused.
    """
    _DISK.sync_directory(path)


def _create_anew(path: Path, contents: bytes | Iterable[bytes], disk: Disk) -> None:
    """Create a file in place of what a process that crashed left under its name."""
    if os.path.lexists(path):
        disk.unlink(path)
    create_file(path, contents, disk=disk)


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # It runs, and is another user's.
        return True
    return True
