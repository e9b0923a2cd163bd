"""What an installation remembers of each file that it changes, durably, and before it changes it (docs/hooks.md S5).

Everything lies in `hooks/` of the state directory, so that nothing of it lands in the harness's own folders: `lock`,
`records/`, `backups/`, `unfinished/`.  A write in place that was interrupted is mended from `unfinished`;
nothing depends on the others for correctness: without a record, ours are taken out by what they are.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from lifebus_admin.installer.file_state import TargetFile, digest_of
from lifebus_admin.installer.in_place import UnfinishedWrite
from lifebus_broker.atomic_files import remove_file, write_file
from lifebus_broker.disk import Disk
from lifebus_supervisor.supervision.installed_hooks import RECORDS
from lifebus_transports.runtime_dir import ensure_private_directory

KEPT_BACKUPS: Final = 3
"""Backups of one file that are kept, among them the one that its record still needs."""

# File systems allow 255 bytes in a name, and the backup's stamp needs some of them.
_LONGEST_NAME: Final = 180
_UNFINISHED: Final = "unfinished"


class InstallRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One file that we touched.

    `users` are the installations that need it.  `before` and `backup` are the digest and the place of the bytes from
    before the first of them; `known` the digests of what we wrote, newest first.  `made_file` and `made_directories`
    (outermost first) did not exist before.
    """

    path: str
    users: tuple[str, ...] = ()
    before: str | None = None
    backup: str | None = None
    known: tuple[str, ...] = ()
    made_file: bool = False
    made_directories: tuple[str, ...] = ()


class InstallRecords:
    """The directory of lock, records and backups of one user."""

    def __init__(self, state_dir: Path, disk: Disk) -> None:
        self._root, self._disk = state_dir / RECORDS.parent, disk

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold the lock of all installations of this user; waits for another one to end."""
        for name in ("", "records", "backups", _UNFINISHED):
            ensure_private_directory(self._root / name)
        descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # The kernel releases it when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Nobody else writes here under the lock, so that these are a crashed run's.
            for path in (self._root / _UNFINISHED).glob("*.new"):
                self._disk.unlink(path)
            yield
        finally:
            os.close(descriptor)

    def of(self, real: Path) -> InstallRecord | None:
        """Return the record of a file; one that cannot be read is as good as none."""
        return _decoded(self._place(real))

    def all(self) -> list[InstallRecord]:
        """Return the records of all files, in no order."""
        found = (_decoded(path) for path in (self._root / RECORDS.name).glob("*.json"))
        return [record for record in found if record is not None]

    def write(self, record: InstallRecord) -> None:
        """Write a record, on the disk before this returns."""
        place = self._place(Path(record.path))
        write_file(place, msgspec.json.encode(record), unfinished=place.with_suffix(".new"), disk=self._disk)

    def drop(self, record: InstallRecord) -> None:
        """Forget a file that is as it was before us; its backups stay."""
        remove_file(self._place(Path(record.path)), disk=self._disk)

    def unfinished(self, real: Path) -> UnfinishedWrite | None:
        """Return the write in place of a file that was begun and not ended."""
        try:
            return msgspec.json.decode(self._unfinished_place(real).read_bytes(), type=UnfinishedWrite)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None

    def begin_write(self, write: UnfinishedWrite) -> None:
        """Keep what a write in place is going to do, on the disk before this returns."""
        place = self._unfinished_place(Path(write.path))
        write_file(place, msgspec.json.encode(write), unfinished=place.with_suffix(".new"), disk=self._disk)

    def end_write(self, real: Path) -> None:
        """Forget a write in place: the file is whole."""
        remove_file(self._unfinished_place(real), disk=self._disk)

    def back_up(self, file: TargetFile, stamp: str, needed: str | None) -> str:
        """Keep a copy of a file, and return where; three copies stay, the needed one among them."""
        backups = self._backups(file.real)
        # The same bytes are kept once: repeated installs do not push older backups out.
        for path in backups:
            if path.read_bytes() == file.contents:
                return str(path)
        prefix = self._root / "backups" / self._encoded(file.real)
        place, count = Path(f"{prefix}.lifebus-{stamp}.bak"), 0
        # Two runs within one second have the same stamp.
        while place.exists():
            count += 1
            place = Path(f"{prefix}.lifebus-{stamp}-{count}.bak")
        write_file(place, file.contents or b"", unfinished=place.with_suffix(".part"), disk=self._disk)
        old = [path for path in backups if str(path) != needed]
        kept = KEPT_BACKUPS - 1 - (len(backups) - len(old))
        for path in old[: max(len(old) - kept, 0)]:
            self._disk.unlink(path)
        return str(place)

    def backup_of(self, record: InstallRecord) -> bytes | None:
        """Return the bytes from before us, if the backup still holds them."""
        if record.backup is None or record.before is None:
            return None
        try:
            contents = Path(record.backup).read_bytes()
        except OSError:
            return None
        # A backup that somebody edited is not what was there before us.
        return contents if digest_of(contents) == record.before else None

    def _backups(self, real: Path) -> list[Path]:
        """Return the backups of a file, oldest first."""
        prefix = f"{self._encoded(real)}.lifebus-"
        found = [path for path in (self._root / "backups").iterdir() if path.name.startswith(prefix)]
        return sorted((path for path in found if path.suffix == ".bak"), key=_age)

    def _unfinished_place(self, real: Path) -> Path:
        return self._root / _UNFINISHED / self._place(real).name

    def _place(self, real: Path) -> Path:
        return self._root / RECORDS.name / f"{digest_of(os.fsencode(real))[:32]}.json"

    def _encoded(self, real: Path) -> str:
        name = quote(os.fsencode(real), safe="")
        return name if len(name) <= _LONGEST_NAME else f"{digest_of(os.fsencode(real))[:16]}-{name[-_LONGEST_NAME:]}"


def _decoded(path: Path) -> InstallRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstallRecord)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name
