"""A file that is to be changed: where its links lead, whose it is, its bytes; or why it may not be changed."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_admin.installer.refusals import FileRefused

MAX_BYTES: Final = 8 * 1024 * 1024
"""The largest file that is read."""

_WRITABLE: Final = stat.S_IWUSR


class TargetFile(Struct, frozen=True, kw_only=True):
    """A file as it was read: `real` is where `path` leads, `contents` None where there is no file.

    `stamp` is (mtime in ns, size, inode).
    """

    path: str
    real: Path
    contents: bytes | None = None
    mode: int = 0
    user: int = -1
    group: int = -1
    links: int = 0
    stamp: tuple[int, int, int] | None = None

    @property
    def digest(self) -> str | None:
        """The sha256 of the contents, in hexadecimal."""
        return None if self.contents is None else digest_of(self.contents)

    @property
    def inode(self) -> int | None:
        """The number of the file behind all its names."""
        return None if self.stamp is None else self.stamp[2]

    @property
    def linked(self) -> bool:
        """Whether the path leads elsewhere by a symbolic link of its own."""
        return Path(self.path).is_symlink()

    def is_as(self, other: "TargetFile") -> bool:
        """Whether both readings found the same file with the same contents."""
        return (self.real, self.stamp, self.contents) == (other.real, other.stamp, other.contents)


def digest_of(contents: bytes) -> str:
    """Return the sha256 in hexadecimal."""
    return hashlib.sha256(contents).hexdigest()


def read_target(path: str, *, max_bytes: int = MAX_BYTES) -> TargetFile:
    """Follow the links of a path and read the file that they lead to.

    Raises:
        FileRefused: a link leads nowhere, or the file is not regular, not ours, too large, or cannot be read.
    """
    real = _resolved(path)
    try:
        # O_NONBLOCK: a pipe in the place of the file must not block.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if Path(path).is_symlink():
            raise FileRefused(path, f"it is a link to {real}, which does not exist", then="mend the link") from None
        return TargetFile(path=path, real=real)
    except OSError as fault:
        raise FileRefused(path, f"it cannot be opened: {fault.strerror}", then="look at what stands there") from fault
    try:
        return _read(path, real, descriptor, max_bytes)
    finally:
        os.close(descriptor)


def _resolved(path: str) -> Path:
    if not path.startswith("/"):
        raise FileRefused(path, "the path is not absolute", then="give the whole path")
    # Links are followed once and here: everything later works on the real file.
    real = Path(os.path.realpath(path))
    try:
        real.lstat()
    except FileNotFoundError:
        return real
    except OSError as fault:
        raise FileRefused(path, f"it leads nowhere: {fault.strerror}", then="mend the path") from fault
    return real


def _read(path: str, real: Path, descriptor: int, max_bytes: int) -> TargetFile:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(path, "it is no regular file", then="move away what stands there")
    if found.st_uid != os.geteuid():
        why = f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
        raise FileRefused(path, why, then="run this as the owner of the file")
    if found.st_size > max_bytes:
        raise FileRefused(path, f"it has {found.st_size} bytes, more than {max_bytes}", then="make it smaller")
    # A duplicate, because the caller closes the descriptor.
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        contents = stream.read(max_bytes + 1)
    return TargetFile(
        path=path,
        real=real,
        contents=contents,
        mode=stat.S_IMODE(found.st_mode),
        user=found.st_uid,
        group=found.st_gid,
        links=found.st_nlink,
        stamp=(found.st_mtime_ns, found.st_size, found.st_ino),
    )


def require_writable(found: TargetFile) -> None:
    """Refuse a file that is read-only, or is in a directory that is; the owner meant it so.

    Raises:
        FileRefused: read-only, or no directory.
    """
    if found.contents is not None and not found.mode & _WRITABLE:
        raise FileRefused(found.path, f"it is read-only (mode {found.mode:04o})", then=f"run: chmod u+w {found.real}")
    directory = found.real.parent
    # The nearest directory that is there decides whether the missing ones can be made.
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    state = directory.stat()
    if not stat.S_ISDIR(state.st_mode):
        raise FileRefused(found.path, f"{directory} is no directory", then="move away what stands there")
    if not os.access(directory, os.W_OK | os.X_OK) or not state.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        why = f"its directory {directory} is read-only (mode {stat.S_IMODE(state.st_mode):04o})"
        raise FileRefused(found.path, why, then=f"run: chmod u+w {directory}")
