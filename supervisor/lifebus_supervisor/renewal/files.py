"""The files of the continuation store: one a record, in a directory of ours alone, changed by one process at a time.

A record is written beside its place and synced; it then takes its place in one step, and the directory is synced
before a caller goes on.  A new one is linked, which fails where another stands; a changed one is renamed over itself.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lifebus_broker.atomic_files import add_file, read_file, remove_file, write_file
from lifebus_broker.disk import Disk
from lifebus_contract import StateConflict
from lifebus_supervisor.renewal.records import MAX_RECORD_BYTES, Continuation, decode_record, encode_record
from lifebus_transports.runtime_dir import ensure_private_directory, wait_for_lock

_LOCK: Final = "lock"
_SUFFIX: Final = ".json"
_UNFINISHED: Final = "unfinished.tmp"
# Longer than any step under the lock takes; a hook call waits for this.
_LOCK_TIMEOUT_S: Final = 2.0


class RecordFiles:
    """The records in a directory.  Every method needs the lock, unless it says otherwise.

    Raises:
        LifebusError: the directory is not ours alone.
        OSError: the system refused.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk

    @property
    def exists(self) -> bool:
        """Whether the directory exists; no lock is needed."""
        return os.path.lexists(self._directory)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the store; what a process that crashed left unfinished is gone then.

        Raises:
            BrokerBusy: another process holds it for too long.
        """
        if not self._directory.is_dir():
            ensure_private_directory(self._directory)
            self._disk.sync_directory(self._directory.parent)
        ensure_private_directory(self._directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._directory / _LOCK, flags, 0o600)
        try:
            wait_for_lock(descriptor, "the continuation store", _LOCK_TIMEOUT_S)
            # Under the lock, whatever is unfinished belongs to a process that is gone.
            if self._unfinished.exists():
                self._disk.unlink(self._unfinished)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> tuple[list[Continuation], list[str]]:
        """Return every record, the oldest first, and the names of files that hold none."""
        records: list[Continuation] = []
        unreadable: list[str] = []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            record = decode_record(_contents(path))
            # A sound record under another name was copied there by somebody.
            if record is None or self._path(record) != path:
                unreadable.append(path.name)
            else:
                records.append(record)
        return sorted(records, key=lambda one: (one.created_at, one.payload_id)), unreadable

    def add(self, record: Continuation) -> None:
        """Write a new record; durable when this returns.

        Raises:
            StateConflict: another one stands in its place; it stays as it is.
        """
        try:
            add_file(self._path(record), encode_record(record), unfinished=self._unfinished, disk=self._disk)
        except FileExistsError:
            raise StateConflict("a continuation of this thread is there already", code="pending") from None

    def replace(self, record: Continuation) -> None:
        """Write a record in the place of the one that stands there; durable when this returns."""
        write_file(self._path(record), encode_record(record), unfinished=self._unfinished, disk=self._disk)

    def remove(self, record: Continuation) -> None:
        """Remove a record."""
        remove_file(self._path(record), disk=self._disk)

    @property
    def _unfinished(self) -> Path:
        return self._directory / _UNFINISHED

    def _path(self, record: Continuation) -> Path:
        return self._directory / f"{record.slot}{_SUFFIX}"


def _contents(path: Path) -> bytes:
    """Return what a file holds; nothing, where it is none of ours."""
    try:
        return read_file(path, MAX_RECORD_BYTES) or b""
    except OSError:
        return b""
