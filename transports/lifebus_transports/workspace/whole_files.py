"""Files that are whole or as they were: written beside their place, synced, renamed, and their directory synced.

A process that is killed may leave an unfinished file.  Whoever writes one holds a lock on it, so that another process
can tell what is left over, and removes it.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import Final

from lifebus_transports.workspace.changes import FileChanges
from lifebus_transports.workspace.paths import is_unfinished, unfinished_name

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TRIES: Final = 64


def look_at(place: int, name: str) -> os.stat_result | None:
    """Return what has a name in an open directory, None where nothing has.

    Raises:
        OSError: ELOOP where it is a link, which nobody follows here; or the system refused.
    """
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return found


def open_file(place: int, name: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return the descriptor and what it is.

    Raises:
        OSError: EISDIR or ENXIO where it is something else; or the system refused.
    """
    found = look_at(place, name)
    if found is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    # Before it is opened: opening a device may do something.
    _require_file(found, name)
    descriptor = os.open(name, _READ, dir_fd=place)
    try:
        # Again, of what was really opened: somebody may have put something else there in between.
        found = os.fstat(descriptor)
        _require_file(found, name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, found


def write_whole(place: int, name: str, contents: bytes, changes: FileChanges) -> None:
    """Write a file in one step, in place of one that is there: durable when this returns.

    Mode and owner of an old file stay as they were; another name of it (a hard link) keeps the old contents.

    Raises:
        OSError: the system refused; what was there before stands, unless it is the last sync that failed.
    """
    old = look_at(place, name)
    if old is not None:
        _require_file(old, name)
    unfinished, descriptor = _create_locked(place, changes)
    try:
        rest = memoryview(contents)
        while rest:
            rest = rest[changes.write(descriptor, rest) :]
        if old is not None:
            _keep_owner(descriptor, old, changes)
            changes.set_mode(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
        changes.sync(descriptor)
        # A rename replaces a link itself, and fails over a directory: neither needs to be looked for again.
        changes.rename(place, unfinished, name)
    except OSError:
        with suppress(OSError):
            changes.unlink(place, unfinished)
        raise
    finally:
        os.close(descriptor)
    changes.sync_directory(place)


def remove_left_over(place: int, changes: FileChanges) -> None:
    """Remove from a directory what writers that are gone left unfinished there.

    Raises:
        OSError: the directory cannot be read.
    """
    listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        names = [entry.name for entry in os.scandir(listing) if is_unfinished(entry.name)]
    finally:
        os.close(listing)
    for name in names:
        # Another process may remove it as well, and one of another user's may stay.
        with suppress(OSError):
            descriptor, _ = open_file(place, name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                changes.unlink(place, name)
            finally:
                os.close(descriptor)


def _create_locked(place: int, changes: FileChanges) -> tuple[str, int]:
    """Make an unfinished file and hold its lock; return its name and descriptor."""
    for _ in range(_TRIES):
        name = unfinished_name(os.urandom(8))
        with suppress(FileExistsError):
            descriptor = changes.create(place, name)
            # Between the two calls another process may have taken it for one that is left over.
            if _hold(descriptor) and os.fstat(descriptor).st_nlink:
                return name, descriptor
            os.close(descriptor)
    raise OSError(errno.EAGAIN, "other processes kept removing the unfinished file")


def _hold(descriptor: int) -> bool:
    """Whether the lock of a file is ours, or there are none on this file system: then nobody removes anything."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        return fault.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _keep_owner(descriptor: int, old: os.stat_result, changes: FileChanges) -> None:
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
        return
    # Only root may give files away; for everybody else the writer owns what it wrote.
    with suppress(PermissionError):
        changes.set_owner(descriptor, old.st_uid, old.st_gid)


def _require_file(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        fault = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.ENXIO
        raise OSError(fault, os.strerror(fault), name)
