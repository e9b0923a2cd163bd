"""One file from what it is to what it should be: compare, back up, record, write, compare again (docs/hooks.md S4).

What is going to be done is recorded before it is done, so that after a crash anywhere it can be run again, or undone.
"""

import errno
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, OwnedFile
from lifebus_admin.installer.bytecode import remove_bytecode
from lifebus_admin.installer.file_state import TargetFile, digest_of, read_target, require_writable
from lifebus_admin.installer.in_place import UnfinishedWrite, is_torn, overwrite_file
from lifebus_admin.installer.plan import Action
from lifebus_admin.installer.planner import FileChange, plan_change, settings_hold_ours
from lifebus_admin.installer.records import InstallRecord, InstallRecords
from lifebus_admin.installer.refusals import FileBusy, FileRefused
from lifebus_admin.installer.writer import ChangedMeanwhile, clean_up, make_directories, remove_file, replace_file
from lifebus_broker.disk import Disk

TRIES: Final = 5
"""How often a file is merged again that somebody else keeps changing."""

_KNOWN: Final = 4


class FileDone(Struct, frozen=True, kw_only=True):
    """What was done to one file, and where the copy from before is kept."""

    path: str
    action: Action
    backup: str | None = None
    notes: tuple[str, ...] = ()


class Transaction:
    """Carries out one installation or removal, file by file, under the lock that its `records` hold."""

    def __init__(self, records: InstallRecords, disk: Disk, *, stamp: str, user: str, installs: bool) -> None:
        self._records, self._disk, self._stamp, self._user = records, disk, stamp, user
        self._installs = installs

    def plan(self, asset: Asset) -> tuple[TargetFile, InstallRecord | None, FileChange]:
        """Return the file, its record, and the change that it needs.

        Raises:
            InstallRefused: as `plan_change`, and where the file or its directory may not be written.
        """
        file = self._read(asset)
        record = self._records.of(file.real)
        before = None if record is None else self._records.backup_of(record)
        change = plan_change(asset, file, record, before, user=self._user, installs=self._installs)
        if change.action != "keep":
            require_writable(file)
        return file, record, change

    def _read(self, asset: Asset) -> TargetFile:
        """Return the file; one that an interrupted write has torn as it was before that."""
        file = read_target(asset.path)
        write = self._records.unfinished(file.real)
        if write is None or not is_torn(file.contents, write):
            return file
        return msgspec.structs.replace(file, contents=write.before)

    def recover(self, asset: Asset) -> None:
        """Put back what a file held before a write in place that was interrupted.

        Raises:
            FileRefused: the system does not let us.
        """
        file = read_target(asset.path)
        write = self._records.unfinished(file.real)
        if write is None:
            return
        try:
            if is_torn(file.contents, write):
                overwrite_file(self._disk, file, write.before)
            self._records.end_write(file.real)
        except OSError as fault:
            raise _refused(asset, fault) from fault

    def carry_out(self, asset: Asset) -> FileDone:
        """Bring one file to what it should be, merging again where somebody else changed it meanwhile.

        Raises:
            InstallRefused: as `plan_change`; `FileBusy` where it kept changing.
        """
        try:
            return self._try_to_carry_out(asset)
        except OSError as fault:
            raise _refused(asset, fault) from fault

    def _try_to_carry_out(self, asset: Asset) -> FileDone:
        clean_up(self._disk, read_target(asset.path).real)
        for _ in range(TRIES):
            file, record, change = self.plan(asset)
            try:
                if self._installs:
                    backup = self._install(asset, file, record, change)
                else:
                    backup = self._remove(asset, file, record, change)
            except ChangedMeanwhile:
                continue
            return FileDone(path=asset.path, action=change.action, backup=backup, notes=change.notes)
        raise FileBusy(asset.path, TRIES)

    def _install(self, asset: Asset, file: TargetFile, record: InstallRecord | None, change: FileChange) -> str | None:
        backup = None
        if change.action == "change" and not isinstance(asset, OwnedFile):
            backup = self._records.back_up(file, self._stamp, None if record is None else record.backup)
        following = self._next_record(asset, file, record, change, backup)
        # On record before the file changes, so that a crash in between can be undone.
        if following != record:
            self._records.write(following)
        if change.action != "keep" and change.contents is not None:
            make_directories(self._disk, following.made_directories)
            self._write(asset, file, change.contents, change.mode)
        return backup

    def _write(self, asset: Asset, file: TargetFile, contents: bytes, mode: int) -> None:
        """Write a file: another one in its place, or into it where settings have other names that must follow."""
        if isinstance(asset, OwnedFile) or file.contents is None or file.links == 1:
            replace_file(self._disk, file, contents, mode)
            # Python tells old bytecode by size and second alone.
            remove_bytecode(self._disk, file.real)
            return
        write = UnfinishedWrite(path=str(file.real), before=file.contents, after=contents)
        self._records.begin_write(write)
        try:
            overwrite_file(self._disk, file, contents)
        except (OSError, ChangedMeanwhile):
            self.recover(asset)
            raise
        self._records.end_write(file.real)

    def _next_record(
        self, asset: Asset, file: TargetFile, record: InstallRecord | None, change: FileChange, backup: str | None
    ) -> InstallRecord:
        """Return the record of a file that is about to be changed."""
        old = record or InstallRecord(path=str(file.real))
        users = tuple(dict.fromkeys((*old.users, self._user)))
        known = tuple(dict.fromkeys((digest_of(change.contents or b""), *old.known)))[:_KNOWN]
        directories = tuple(dict.fromkeys((*old.made_directories, *_missing_directories(file.real))))
        following = msgspec.structs.replace(old, users=users, known=known, made_directories=directories)
        if file.digest in old.known:
            return following
        if isinstance(asset, OwnedFile) or change.action == "keep" or settings_hold_ours(asset, file):
            return msgspec.structs.replace(following, before=None, backup=None)
        return msgspec.structs.replace(following, before=file.digest, backup=backup, made_file=file.contents is None)

    def _remove(self, asset: Asset, file: TargetFile, record: InstallRecord | None, change: FileChange) -> str | None:
        backup = None
        if change.action == "change" and not change.exact:
            backup = self._records.back_up(file, self._stamp, None if record is None else record.backup)
        if change.action == "change" and change.contents is not None:
            self._write(asset, file, change.contents, change.mode)
        elif change.action == "remove":
            remove_file(self._disk, file)
            remove_bytecode(self._disk, file.real)
        if record is not None:
            self._forget(record)
        return backup

    def _forget(self, record: InstallRecord) -> None:
        """Remove the directories that were made for a file and are empty, and its record."""
        users = tuple(name for name in record.users if name != self._user)
        if users and Path(record.path).exists():
            self._records.write(msgspec.structs.replace(record, users=users))
            return
        # Innermost first, as only an empty directory can be removed.
        for name in reversed(record.made_directories):
            path = Path(name)
            if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                self._disk.remove_directory(path)
                self._disk.sync_directory(path.parent)
        self._pass_on_directories(record)
        self._records.drop(record)

    def _pass_on_directories(self, record: InstallRecord) -> None:
        """Name the directories that are still in use in the records of our other files in them."""
        left = [name for name in record.made_directories if Path(name).is_dir()]
        for other in self._records.all() if left else ():
            inside = [name for name in left if Path(name) in Path(other.path).parents]
            made = tuple(dict.fromkeys((*inside, *other.made_directories)))
            if other.path != record.path and made != other.made_directories:
                self._records.write(msgspec.structs.replace(other, made_directories=made))


def _refused(asset: Asset, fault: OSError) -> FileRefused:
    why = f"{fault.strerror} ({fault.filename})" if fault.filename else str(fault.strerror)
    full = fault.errno in {errno.ENOSPC, errno.EDQUOT}
    return FileRefused(asset.path, why, then=f"{'make room on that disk' if full else 'mend that'}, then try again")


def _missing_directories(real: Path) -> list[str]:
    """Return the directories above a file that do not exist yet, outermost first."""
    return [str(path) for path in reversed(real.parents) if not path.exists()]
