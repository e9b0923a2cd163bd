"""Every system call that changes a file of ours or of a harness, one method each; tests crash between any two."""

import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
# What kernels and file systems answer that cannot exchange two names.
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP, errno.EXDEV}


class Disk:
    """The file system as stores of small files use it; every method raises OSError."""

    def make_directory(self, path: Path, mode: int) -> None:
        """Make one directory."""
        path.mkdir(mode=mode)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def create(self, path: Path) -> int:
        """Make a new file for its owner only, and return a descriptor for writing."""
        # O_EXCL and O_NOFOLLOW: nothing that stands there is ever opened, not even through a link.
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def open_existing(self, path: Path) -> int:
        """Return a descriptor for writing over a file that is there."""
        return os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(self, descriptor: int, contents: memoryview) -> int:
        """Write what the system takes at once, and return how much that was."""
        return os.write(descriptor, contents)

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut a file off at a length in bytes."""
        os.ftruncate(descriptor, length)

    def set_owner(self, descriptor: int, user: int, group: int) -> None:
        """Give a new file the owner and group of the old one."""
        os.fchown(descriptor, user, group)

    def set_mode(self, descriptor: int, mode: int) -> None:
        """Give a new file the mode of the old one."""
        os.fchmod(descriptor, mode)

    def sync(self, descriptor: int) -> None:
        """Wait until the file is on the disk."""
        os.fsync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Wait until the directory's names are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Put the source in place of the target."""
        source.rename(target)

    def exchange(self, one: Path, other: Path) -> bool:
        """Let two files change their names in one step; False where the system cannot."""
        # Python has no name for this call.
        call = _renameat2()
        if call is None:
            return False
        if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return True
        import ctypes  # noqa: PLC0415  few files are exchanged, and the library is not small

        fault = ctypes.get_errno()
        if fault in _UNSUPPORTED:
            return False
        raise OSError(fault, os.strerror(fault), str(other))

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name that nobody has yet."""
        # Unlike rename, this fails where the name is taken.
        target.hardlink_to(source)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()


@cache
def _renameat2() -> Callable[..., Any] | None:
    # macOS has renamex_np instead; there the caller renames.
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  as above

    call: Callable[..., Any] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return call
