"""The checkpoints of one project in a directory of ours: one file each, changed by one process at a time.

A file is whole or not there, wherever its writer is killed.  Its number is the order: the newest checkpoint of a name
is the one that was saved last, whatever the clocks of those who made it said.
"""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import structs

from lifebus.checkpoints.records import (
    Checkpoint,
    CheckpointInfo,
    FileName,
    damaged,
    decode_record,
    encode_record,
    file_name_of,
    parse_file_name,
    slot_of,
)
from lifebus_contract import LifebusError
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.runtime_dir import ensure_private_directory, open_lock, wait_for_lock
from lifebus_transports.workspace.changes import FileChanges
from lifebus_transports.workspace.workspace import WorkspaceFiles

MAX_KEPT: Final = 256
"""Most checkpoints of one name that are kept; beyond that, the oldest go."""

_LOCK: Final = "lock"
_RECORDED: Final = ".recorded"
_MAX_RECORD_BYTES: Final = 2 * MAX_MESSAGE_BYTES
# Longer than any step under the lock takes, saving the largest checkpoint among them
_LOCK_TIMEOUT_S: Final = 5.0


class CheckpointStore:
    """The checkpoints in a directory; any number of processes may use it.  `clock_ms` returns wall-clock time.

    Every method may block, and raises:
        LifebusError: the directory is not ours alone (`directory_owner`, `directory_mode`), another process holds the
            store (`busy`), or the disk refused (`disk_full`, `file_denied`, `unreadable`).
    """

    def __init__(
        self,
        directory: Path,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        changes: FileChanges | None = None,
    ) -> None:
        self._directory = directory
        self._clock_ms = clock_ms
        self._changes = changes or FileChanges()

    def save(self, checkpoint: Checkpoint) -> tuple[CheckpointInfo, bool]:
        """Save a checkpoint; return it as it stands there, and whether it is new.  It is durable when this returns.

        What says the same as one that is there is that one.

        Raises:
            LifebusError: as every method.
        """
        ensure_private_directory(self._directory)
        with self._locked() as files:
            names = _names(files)
            number = max((one.number for one in names), default=0) + 1
            for one in names:
                if one.checkpoint_id == checkpoint.info.checkpoint_id:
                    if (there := _read_sound(files, one)) is not None:
                        return there.info, False
                    # What it has to say is here again: the damaged file is written over, in its place.
                    number = one.number
            info = structs.replace(checkpoint.info, number=number, saved_at_ms=self._clock_ms())
            name = file_name_of(info)
            files.write_bytes(str(name), encode_record(structs.replace(checkpoint, info=info)))
            # After the new one is durable: a crash in between leaves one too many, and the next save removes it.
            for old in [one for one in names if one.slot == name.slot][: -(MAX_KEPT - 1)]:
                self._remove(files, old)
        return info, True

    def by_id(self, checkpoint_id: str) -> Checkpoint | None:
        """Return the checkpoint with an id, None where there is none.

        Raises:
            LifebusError: `checkpoint_damaged`; else as every method.
        """
        return self._newest(lambda one: one.checkpoint_id == checkpoint_id, lambda _: True)

    def newest(self, kind: str, name: str, run_id: str | None = None) -> Checkpoint | None:
        """Return the checkpoint of a name that was saved last, of one run or of any; None where there is none.

        Raises:
            LifebusError: `checkpoint_damaged`: it is there, and an older one is no answer; else as every method.
        """
        slot = slot_of(kind, name)
        return self._newest(
            lambda one: one.slot == slot,
            lambda info: (info.kind, info.name) == (kind, name) and run_id in (None, info.run_id),
        )

    def infos(self, last: int | None = None) -> tuple[list[CheckpointInfo], list[str]]:
        """Return what is known of each checkpoint, the oldest first, and the ids of those that are damaged.

        With `last` only so many, the newest.

        Raises:
            LifebusError: as every method.
        """
        infos: list[CheckpointInfo] = []
        broken: list[str] = []
        if self._directory.is_dir():
            with self._locked() as files:
                names = _names(files)
                for name in names if last is None else names[max(0, len(names) - last) :]:
                    found = _read_sound(files, name)
                    if found is None:
                        broken.append(name.checkpoint_id)
                    else:
                        infos.append(found.info)
        return infos, broken

    def unrecorded(self) -> list[CheckpointInfo]:
        """Return the checkpoints whose receipts are not known to be on record, the oldest first; damaged ones never.

        Raises:
            LifebusError: as every method.
        """
        found: list[CheckpointInfo] = []
        if self._directory.is_dir():
            with self._locked() as files:
                recorded = {name.removesuffix(_RECORDED) for name in files.list() if name.endswith(_RECORDED)}
                waiting = [one for one in _names(files) if one.checkpoint_id not in recorded]
                found += [sound.info for one in waiting if (sound := _read_sound(files, one)) is not None]
        return found

    def mark_recorded(self, checkpoint_id: str) -> None:
        """Note that the receipt of a checkpoint is on record; lost, the note only makes it be emitted again.

        Raises:
            LifebusError: as every method.
        """
        with self._locked() as files:
            if any(one.checkpoint_id == checkpoint_id for one in _names(files)):
                files.write_bytes(f"{checkpoint_id}{_RECORDED}", b"")

    def _newest(
        self, is_wanted: Callable[[FileName], bool], fits: Callable[[CheckpointInfo], bool]
    ) -> Checkpoint | None:
        if not self._directory.is_dir():
            return None
        with self._locked() as files:
            for name in reversed(_names(files)):
                if is_wanted(name) and fits((found := _read(files, name)).info):
                    return found
        return None

    def _remove(self, files: WorkspaceFiles, name: FileName) -> None:
        for path in (f"{name.checkpoint_id}{_RECORDED}", str(name)):
            if files.exists(path):
                files.delete(path)

    @contextmanager
    def _locked(self) -> Generator[WorkspaceFiles]:
        """Hold the store in the block.

        Raises:
            BrokerBusy: another process holds it for too long.
        """
        ensure_private_directory(self._directory)
        descriptor = open_lock(self._directory / _LOCK)
        try:
            wait_for_lock(descriptor, "the checkpoints", _LOCK_TIMEOUT_S)
            with WorkspaceFiles(self._directory, max_file_bytes=_MAX_RECORD_BYTES, changes=self._changes) as files:
                yield files
        finally:
            os.close(descriptor)


def _names(files: WorkspaceFiles) -> list[FileName]:
    """Return the files of checkpoints by their numbers."""
    return sorted(
        (found for name in files.list() if (found := parse_file_name(name)) is not None), key=lambda one: one.number
    )


def _read(files: WorkspaceFiles, name: FileName) -> Checkpoint:
    try:
        contents = files.read_bytes(str(name))
    except LifebusError as fault:
        if fault.code not in {"file_too_large", "not_a_file", "path_is_link"}:
            raise
        raise damaged(name, "it is no file of ours") from None
    return decode_record(name, contents)


def _read_sound(files: WorkspaceFiles, name: FileName) -> Checkpoint | None:
    """Return the checkpoint in a file, None where the file is damaged."""
    try:
        return _read(files, name)
    except LifebusError as fault:
        if fault.code != "checkpoint_damaged":
            raise
        return None
