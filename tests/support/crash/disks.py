"""Disks that fail: one that forgets what was not synced, one that errs at the Nth call, one that runs full.

Each is an APSW VFS; a ledger is put on it with `vfs=disk.name`.
"""

# ruff: noqa: N802  the methods have the names that APSW calls

import random
import sys
import threading
from pathlib import Path
from typing import Any, cast

import apsw

from support.patience import PATIENCE_S

_SECTOR = 512
_SYSTEM = apsw.vfs_names()[0]


class Disk(apsw.VFS):
    """A disk that asks `check` before each call, by the call's name, and otherwise does what the real one does."""

    def __init__(self, name: str, *, makedefault: bool = False) -> None:
        self.name = name
        self.calls: list[str] = []
        super().__init__(name, base=_SYSTEM, makedefault=makedefault)

    def check(self, call: str, path: str) -> None:
        """Record the call; subclasses raise here."""
        self.calls.append(f"{call} {Path(path).suffix}")

    def wrote(self, path: str, offset: int, data: bytes) -> None:
        """A write was done."""

    def truncated(self, path: str, size: int) -> None:
        """A truncation was done."""

    def synced(self, path: str) -> None:
        """A sync was done."""

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.check("delete", filename)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__(_SYSTEM, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.check("read", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.check("write", self._path)
        super().xWrite(data, offset)
        self._disk.wrote(self._path, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        self._disk.check("truncate", self._path)
        super().xTruncate(newsize)
        self._disk.truncated(self._path, newsize)

    def xSync(self, flags: int) -> None:
        self._disk.check("sync", self._path)
        super().xSync(flags)
        self._disk.synced(self._path)


class PowerCut(apsw.IOError):
    """The power is gone: this call and all that follow."""


class ForgetfulDisk(Disk):
    """Keeps what was synced; `image` tells what may be left after a power cut at the `cut_at`th call.

    Writes after the last sync may have reached the disk or not, each on its own, and may be torn.  One that `lies`
    says that it synced, and did not.
    """

    def __init__(self, name: str, cut_at: int, *, lies: bool = False) -> None:
        self._left, self._lies = cut_at, lies
        self._durable: dict[str, bytes] = {}
        self._pending: dict[str, list[tuple[int, bytes | None]]] = {}
        super().__init__(name)

    def repair(self) -> None:
        """Let what is still open be closed without complaint."""
        self._left = sys.maxsize

    @property
    def is_cut(self) -> bool:
        return self._left < 0

    def check(self, call: str, path: str) -> None:
        self._left -= call != "read"
        if self.is_cut:
            raise _error(PowerCut, apsw.SQLITE_IOERR_FSYNC)

    def load(self, directory: Path) -> None:
        """Take the files that are there already as durable."""
        for path in directory.iterdir():
            if not path.name.endswith("-shm"):
                self._durable[path.name] = path.read_bytes()

    def wrote(self, path: str, offset: int, data: bytes) -> None:
        self._pending.setdefault(Path(path).name, []).append((offset, data))

    def truncated(self, path: str, size: int) -> None:
        self._pending.setdefault(Path(path).name, []).append((size, None))

    def synced(self, path: str) -> None:
        name = Path(path).name
        if self._lies:
            return
        self._durable[name] = _apply(self._durable.get(name, b""), self._pending.pop(name, []))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        name = Path(filename).name
        self._pending.pop(name, None)
        if syncdir:
            self._durable.pop(name, None)

    def image(self, chance: random.Random) -> dict[str, bytes]:
        """Return the files as a machine may find them when the power is back."""
        files = dict(self._durable)
        for name, writes in self._pending.items():
            kept = [_torn(write, chance) for write in writes if chance.random() < 0.5]
            if name in files or kept:
                files[name] = _apply(files.get(name, b""), kept)
        return files

    def leave(self, chance: random.Random, directory: Path) -> None:
        """Write an image into a new directory: what the next start finds."""
        directory.mkdir()
        for name, content in self.image(chance).items():
            if not name.endswith("-shm"):
                (directory / name).write_bytes(content)


class FaultyDisk(Disk):
    """Fails the `fail_at`th call of a kind, once or from then on; `fault` is the extended result code."""

    def __init__(self, name: str, fail_at: int, *, sticky: bool, kinds: tuple[str, ...] = ("write", "sync")) -> None:
        self.left = fail_at
        self.failed = 0
        self._sticky, self._kinds = sticky, kinds
        super().__init__(name)

    def check(self, call: str, path: str) -> None:
        if call in self._kinds:
            self.left -= 1
            if self.left == 0 or (self.left < 0 and self._sticky):
                self.failed += 1
                raise _error(apsw.IOError, _CODES[call])


class FullDisk(Disk):
    """Has room for `room` bytes of writes; more of them find the disk full."""

    def __init__(self, name: str) -> None:
        self.room: int | None = None
        super().__init__(name)

    def check(self, call: str, path: str) -> None:
        if call == "write" and self.room is not None and self.room <= 0:
            raise apsw.FullError("database or disk is full")

    def wrote(self, path: str, offset: int, data: bytes) -> None:
        if self.room is not None:
            self.room -= len(data)


class SlowDisk(Disk):
    """Stops in `xSync` of the write-ahead log while `gate` is closed; fails there afterwards if it is `broken`."""

    def __init__(self, name: str) -> None:
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.broken = False
        self.gate.set()
        super().__init__(name)

    def check(self, call: str, path: str) -> None:
        if call == "sync" and path.endswith("-wal") and not self.gate.is_set():
            self.waiting.set()
            if not self.gate.wait(PATIENCE_S) or self.broken:
                raise _error(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)


_CODES = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


def _error(kind: type[apsw.Error], code: int) -> apsw.Error:
    fault: Any = kind("injected")
    fault.extendedresult = code
    return cast("apsw.Error", fault)


def _torn(write: tuple[int, bytes | None], chance: random.Random) -> tuple[int, bytes | None]:
    """Return the write, or its first sectors only."""
    offset, data = write
    if data is None or chance.random() < 0.7:
        return write
    return offset, data[: chance.randrange(0, len(data) + 1, _SECTOR)]


def _apply(content: bytes, writes: list[tuple[int, bytes | None]]) -> bytes:
    buffer = bytearray(content)
    for offset, data in writes:
        if data is None:
            del buffer[offset:]
        else:
            buffer.extend(bytes(max(0, offset - len(buffer))))
            buffer[offset : offset + len(data)] = data
    return bytes(buffer)
