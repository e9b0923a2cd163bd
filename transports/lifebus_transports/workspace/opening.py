"""Directories beneath a root, opened so that no name on the way is followed out of it: by the kernel, or name by name.

Either way only the last directory stays open, and whatever is done then is done to a name in it: a link that somebody
puts on the way afterwards changes nothing.  Both raise the same errors of the system for the same paths.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

OpenDirectory = Callable[[int, Sequence[str]], int]
"""Opens the directory to which names lead from a descriptor; returns a descriptor, of no use but for names in it.

ELOOP says that one of the names is a link; ENOENT, ENOTDIR and EACCES are what they always are.
"""

_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_OPENAT2: Final = 437
"""The number of openat2 on every machine that Linux runs on, but for Alpha."""
_RESOLVE: Final = 0x08 | 0x04 | 0x02
"""RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS."""
_TRIES: Final = 16


def open_by_walk(root: int, names: Sequence[str]) -> int:
    """Open a directory name by name, from each descriptor the next, and follow no link: an `OpenDirectory`.

    Raises:
        OSError: the system refused.
    """
    place = os.dup(root)
    try:
        for name in names:
            place, left = _step(place, name), place
            os.close(left)
    except OSError:
        os.close(place)
        raise
    return place


def _step(place: int, name: str) -> int:
    try:
        return os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=place)
    except NotADirectoryError:
        # A link that is not followed is no directory, either; callers are told which of the two it is.
        if stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def open_by_kernel(root: int, names: Sequence[str]) -> int:
    """Open a directory in one call of the system, which refuses to leave the root: an `OpenDirectory`.

    Raises:
        OSError: the system refused, or has no such call.
    """
    call = _openat2()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if not names:
        return os.dup(root)
    path = os.fsencode("/".join(names))
    how = struct.pack("QQQ", _PLACE, 0, _RESOLVE)
    for _ in range(_TRIES):
        found = int(call(_OPENAT2, root, path, how, len(how)))
        if found >= 0:
            return found
        fault = ctypes.get_errno()
        # The kernel was not sure while somebody renamed on the way; nothing was opened.
        if fault not in (errno.EAGAIN, errno.EINTR):
            raise OSError(fault, os.strerror(fault), os.fsdecode(path))
    return open_by_walk(root, names)


def best_opening(root: int) -> OpenDirectory:
    """Return the kernel's way where it works on this system, else the walk."""
    if _openat2() is None:
        return open_by_walk
    try:
        os.close(open_by_kernel(root, (".",)))
    except OSError:
        # Linux before 5.6 has no such call, and some sandboxes forbid it.
        return open_by_walk
    return open_by_kernel


@cache
def _openat2() -> Callable[..., Any] | None:
    # Python has no name for this call.
    if sys.platform != "linux" or os.uname().machine == "alpha":
        return None
    call: Callable[..., Any] | None = getattr(ctypes.CDLL(None, use_errno=True), "syscall", None)
    if call is not None:
        call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]  # type: ignore[attr-defined]
        call.restype = ctypes.c_long  # type: ignore[attr-defined]
    return call
