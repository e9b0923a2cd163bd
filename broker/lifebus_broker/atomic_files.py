"""Small files of our own, whole or not there: written beside their place, synced, renamed, the directory synced.

A file is only ever read back by who can prove what stands in it, by a hash or by building it again; so nothing here is
a promise about contents.
"""

import os
import re
import stat
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Final

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED: Final = re.compile(r"\..+\.(\d+)\.tmp")


def make_directory(path: Path) -> None:
    """Make a directory for its owner only where it is missing; its parent is there.

    Raises:
        OSError: the system refused.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        sync_directory(path.parent)


def write_whole(path: Path, contents: bytes) -> None:
    """Put a file in its place, in one step; durable when this returns.

    Raises:
        OSError: the system refused; what stood there before stands there still, and nothing unfinished is left.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(unfinished, _WRITE, 0o600)
        try:
            rest = memoryview(contents)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_whole(path: Path, most: int) -> bytes | None:
    """Return what a regular file of ours holds, up to `most` bytes and one more; None where there is no such file.

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
        return file.read(most + 1)


def remove_whole(path: Path) -> bool:
    """Remove a file; False where it was not there.

    Raises:
        OSError: the system refused.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    sync_directory(path.parent)
    return True


def clean_up(directory: Path, name: str | None = None) -> None:
    """Remove what processes that are gone left unfinished, of every file or of those for one name.

    Raises:
        OSError: the system refused.
    """
    for path in directory.glob(".*.tmp" if name is None else f".{escape(name)}.*.tmp"):
        found = _UNFINISHED.fullmatch(path.name)
        if found is not None and not _is_there(int(found[1])):
            path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make what was made, renamed or removed in a directory survive a power cut.

    Raises:
        OSError: the system refused.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_there(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
