"""Ledger files as a user names them: which one, whether it can be touched now, and what goes wrong in plain words."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lifebus_broker.atomic_files import sync_directory
from lifebus_broker.ledger import factory
from lifebus_broker.ledger.sqlite.errors import unreadable
from lifebus_broker.ledger.sqlite.transfer.copy import is_in_use
from lifebus_broker.ledger.sqlite.transfer.swap import files_of, next_path, settle_files
from lifebus_contract import BrokerBusy, LifebusError
from lifebus_supervisor.configuration.ledger_files import check_ledger_files
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.runtime_dir import ensure_private_directory, hold_lock, take_runtime_dir


def ledger_file(settings: Settings) -> Path:
    """Return the ledger file that the settings name; it need not be there.

    Raises:
        LifebusError: the settings name none.
    """
    return factory.ledger_file(settings.ledger_location)


def regular_file(path: Path, what: str = "ledger") -> Path:
    """Return the path of a file that is there and can be read.

    Raises:
        LifebusError: it is not; the text says why.
    """
    if path.is_dir():
        raise unreadable(path, f"it is a directory, and no {what}")
    if not path.exists():
        hint = "; `lifebus config show --origin` shows where lifebus keeps its own" if what == "ledger" else ""
        raise unreadable(path, f"there is no such {what}{hint}")
    if not path.is_file():
        raise unreadable(path, f"it is no regular file, so no {what}")
    if not os.access(path, os.R_OK):
        raise unreadable(path, "we may not read it; see its owner and its mode")
    # until the swap is finished, the file at this path is the ledger before
    if next_path(path).exists():
        raise BrokerBusy(f"{path} is being replaced; the next start of a broker finishes that", code="busy")
    return path


@contextmanager
def held_ledger(settings: Settings) -> Generator[Path]:
    """Hold the lock that a broker would hold, so that the ledger is nobody else's, and yield its path.

    Raises:
        LifebusError: a broker runs, somebody else has the file open, or it is another user's; the text says what to do.
    """
    path = ledger_file(settings)
    with ExitStack() as locks:
        try:
            locks.enter_context(take_runtime_dir(settings.runtime_dir))
            ensure_private_directory(settings.state_dir)
            check_ledger_files(settings)
            # in the broker's own order, so that the two cannot wait for each other
            for lock in settings.writer_locks:
                locks.enter_context(hold_lock(lock))
        except LifebusError as fault:
            if fault.code != "already_running":
                raise
            detail = (
                f"{fault.detail}\nthis needs the ledger for itself: end the broker (SIGTERM, or Ctrl-C) and try again"
            )
            raise _held(detail) from None
        settle_files(path, settings.ledger_companions)
        # the locks are files that somebody may have deleted; SQLite's own lock is not
        if is_in_use(path):
            raise _held(f"{path} is open in another process, perhaps a broker whose locks were deleted; end it")
        yield path


@contextmanager
def unfinished_file(path: Path) -> Generator[Path]:
    """Yield an empty private file beside `path` to write into; whatever is left of it at the end is removed.

    Raises:
        OSError: it cannot be made.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)  # of a process that had our number
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        yield unfinished
    finally:
        for left in files_of(unfinished):
            with suppress(OSError):
                left.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Yield a file to write into that becomes `path` at the end of the block, whole, durable and private.

    Raises:
        LifebusError: there is something at `path`, or its directory is not there; nothing is overwritten.
        OSError: it cannot be written.
    """
    if not path.parent.is_dir():
        raise unreadable(path.parent, "there is no such directory")
    if path.exists() or path.is_symlink():
        raise _exists(path)
    with unfinished_file(path) as unfinished:
        yield unfinished
        # synced before it gets its name: a power cut must not leave a name without contents
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        try:
            # a link fails where the name exists; a rename would overwrite it
            os.link(unfinished, path)
        except FileExistsError:
            raise _exists(path) from None
        except OSError:  # a file system without links
            if path.exists():
                raise _exists(path) from None
            unfinished.rename(path)
        sync_directory(path.parent)


def _exists(path: Path) -> LifebusError:
    detail = f"{path} exists already and is not overwritten; name another file, or move it away"
    return LifebusError(detail, code="exists")


def _held(detail: str) -> LifebusError:
    return LifebusError(detail, code="already_running")
