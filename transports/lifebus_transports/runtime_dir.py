"""The runtime directory: ours alone, and held by one broker at a time (docs/reliability.md T1)."""

import fcntl
import json
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lifebus_contract import BrokerBusy, LifebusError
from lifebus_transports.ownership import check_parents, check_private

MAX_SOCKET_PATH_BYTES: Final = 107
"""Longest path of a Unix socket on Linux, without its final zero."""

_LOOKS: Final = 3
_LOOK_S: Final = 0.005
"""Clients that wait look whether the lock is free, and hold it for some microseconds then: a broker tries again."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Lock:
    """The single-instance lock; held until it is closed or the process ends.  Use it in a `with` block."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @property
    def held(self) -> bool:
        """Whether it is still held."""
        return self._descriptor is not None

    def close(self) -> None:
        """Let go; the file stays, because removing it would let two brokers hold two different ones."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take_runtime_dir(directory: Path, *, started_at_epoch_s: int | None = None) -> Lock:
    """Set the umask to 077, make or check the directory, and hold its lock: the first thing a daemon does.

    Raises:
        LifebusError: as `ensure_private_directory` and `hold_lock`.
    """
    # Before anything is made: sockets and files get their mode when they are created.
    os.umask(0o077)
    ensure_private_directory(directory)
    return hold_lock(directory / "lock", started_at_epoch_s=started_at_epoch_s)


def ensure_private_directory(path: Path) -> Path:
    """Make the directory (0700) where it is missing, and return it once it is proved to be ours alone.

    What is missing above it is made in the same way.

    Raises:
        LifebusError: `directory_unusable`, `directory_owner` or `directory_mode`; the text says what to do.
    """
    # Before anything is made there: who may exchange a directory may also follow us into it.
    check_parents(path)
    try:
        for directory in (*reversed(path.parents), path):
            # Each by itself: `parents=True` would give all but the last what the umask allows.
            directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as fault:
        raise _refusal(f"cannot make {path}: {fault.strerror}", "directory_unusable") from fault
    os.close(open_private_directory(path))
    return path


def check_runtime_dir(path: Path) -> bool:
    """Check the directory of a broker that we are to talk to; return whether it is there.

    A link is followed: each directory that it leads through is checked as well.

    Raises:
        LifebusError: as `ensure_private_directory`.
    """
    check_parents(path)
    try:
        check_private(path, path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as fault:
        raise _refusal(f"cannot open {path}: {fault.strerror}", "directory_unusable") from fault
    return True


def open_private_directory(path: Path) -> int:
    """Return a descriptor of the directory; it is no symbolic link, ours, and nobody else can enter or exchange it.

    Raises:
        LifebusError: as `ensure_private_directory`.
    """
    check_parents(path)
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError as fault:
        raise _refusal(f"cannot open {path}: {fault.strerror} (no link is followed)", "directory_unusable") from fault
    try:
        # Of the descriptor and not of the path, which could be exchanged in between.
        check_private(path, os.fstat(descriptor))
    except LifebusError:
        os.close(descriptor)
        raise
    return descriptor


def check_socket_path(path: Path) -> Path:
    """Return the path if a Unix socket can have it.

    Raises:
        LifebusError: `socket_path_too_long`.
    """
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise _refusal(
            f"{path} has {length} bytes, a socket path may have {MAX_SOCKET_PATH_BYTES}; "
            "set LIFEBUS_RUNTIME_DIR to a shorter directory",
            "socket_path_too_long",
        )
    return path


def hold_lock(path: Path, *, started_at_epoch_s: int | None = None) -> Lock:
    """Hold the single-instance lock for as long as the process lives; call it before any bind (docs/ledger.md D5).

    Raises:
        LifebusError: `already_running`, naming the holder; `directory_unusable`.
        OSError: the holder cannot be written down; the disk is full.
    """
    descriptor = open_lock(path)
    if not _take(descriptor):
        holder = _holder(descriptor)
        os.close(descriptor)
        raise _refusal(f"{path.parent} is held by {holder}; stop it, or use another one", "already_running")
    started = int(time.time()) if started_at_epoch_s is None else started_at_epoch_s
    # The holder's name is for messages alone; whether it is held, only the lock says.
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "started_at_epoch_s": started}).encode(), 0)
    except OSError as fault:
        os.close(descriptor)
        fault.filename = str(path)
        raise
    return Lock(path, descriptor)


def open_lock(path: Path) -> int:
    """Return a descriptor of a lock file, made (0600) where it is missing: a regular file of ours, and of one name.

    Raises:
        LifebusError: `directory_unusable` or `directory_owner`; what is there is not touched.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
        found = os.fstat(descriptor)
    except OSError as fault:
        raise _refusal(f"cannot open {path}: {fault.strerror}", "directory_unusable") from fault
    # The holder writes into it: under a second name that would be another file's contents.
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    if found.st_uid != os.geteuid():
        raise _refusal(f"{path} belongs to user {found.st_uid}, not to us", "directory_owner")
    what = "has a second name (a hard link)" if stat.S_ISREG(found.st_mode) else "is no regular file"
    raise _refusal(f"{path} {what}, so it cannot be the lock; move it away", "directory_unusable")


def wait_for_lock(descriptor: int, what: str, seconds: float) -> None:
    """Wait for the lock of an open file, which stands for `what`; blocks.

    Raises:
        BrokerBusy: another process holds it for longer.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            # Not waited for in the kernel: a stopped process would hold this one up without a limit.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise BrokerBusy(f"another process holds {what}; try again", code="busy") from None
            time.sleep(_LOOK_S)
        else:
            return


def lock_holder(path: Path) -> str | None:
    """Return who holds the single-instance lock, in words; None where no process does, or it cannot be known."""
    with _opened(path) as descriptor:
        return None if descriptor is None or _is_free(descriptor) else _holder(descriptor)


def is_lock_free(path: Path) -> bool:
    """Whether nobody holds the single-instance lock; False where there is no such file, which says nothing."""
    with _opened(path) as descriptor:
        return descriptor is not None and _is_free(descriptor)


def broker_of(path: Path) -> str | None:
    """Return what the last holder of a single-instance lock wrote down of itself, None where that is nothing yet."""
    with _opened(path) as descriptor:
        try:
            return None if descriptor is None else os.pread(descriptor, 256, 0).decode("utf-8", "replace") or None
        except OSError:
            return None


def remove_stale_socket(path: Path, lock: Lock) -> None:
    """Remove what a dead broker left at `path`; allowed only to the holder of the lock of that directory.

    Raises:
        LifebusError: `lock_not_held`, or `not_a_socket` where something else is in the way.
    """
    # A socket without its lock may be a living broker's.
    if not lock.held or lock.path.parent != path.parent:
        raise LifebusError(f"the lock of {path.parent} is not held", code="lock_not_held")
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise _refusal(f"{path} is in the way and no socket; move it away", "not_a_socket")
    path.unlink()


@contextmanager
def _opened(path: Path) -> Generator[int | None]:
    """Open a lock file to look at it inside the block; None where that cannot be."""
    descriptor: int | None = None
    # Not by its name alone: to open a pipe that somebody put there would wait for its other end.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)  # and with it the lock, where the block took it


def _is_free(descriptor: int) -> bool:
    """Whether nobody holds the lock of an open file; then it is held until the file is closed."""
    try:
        # Shared, so that two who look do not take each other for a broker.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _take(descriptor: int) -> bool:
    """Take the lock, unless another process holds it for longer than a look at it takes (`is_lock_free`)."""
    for left in reversed(range(_LOOKS)):
        try:
            # flock and not lockf: it belongs to the open file, and closing another descriptor keeps it.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if left:
                # What another process holds raises no event, and a broker that starts serves nobody yet.
                time.sleep(_LOOK_S)
        else:
            return True
    return False


def _holder(descriptor: int) -> str:
    """Describe who wrote the lock file; it is only ever written by the holder, but may be empty just then."""
    try:
        noted: Any = json.loads(os.pread(descriptor, 256, 0))
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(noted["started_at_epoch_s"])))
        return f"process {int(noted['pid'])}, running since {since}"
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return "another process"


def _refusal(detail: str, code: str) -> LifebusError:
    return LifebusError(detail, code=code)
