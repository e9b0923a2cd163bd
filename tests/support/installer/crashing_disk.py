"""Disks for the tests: one that crashes before its nth call, one on which somebody else writes meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lifebus_broker.disk import Disk

CALLS = [name for name in vars(Disk) if not name.startswith("_")]


class Crash(BaseException):
    """The process is gone; nothing tidies up after it."""


class CountingDisk(Disk):
    """Counts the calls, and lets a test act before one of them."""

    def __init__(self, before: Callable[[int, str], None] | None = None) -> None:
        self.calls: list[str] = []
        self._before = before

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        def called(*arguments: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if self._before is not None:
                self._before(number, name)
            return found(*arguments)

        return called


class CrashingDisk(CountingDisk):
    """Crashes before the nth call; a write is torn: half of it arrives."""

    def __init__(self, at: int) -> None:
        super().__init__(self._crash)
        self._at = at

    def _crash(self, number: int, name: str) -> None:
        if number == self._at and name != "write":
            raise Crash

    def write(self, descriptor: int, contents: memoryview) -> int:
        if len(self.calls) - 1 == self._at:
            super().write(descriptor, contents[: len(contents) // 2])
            raise Crash
        return super().write(descriptor, contents)


class WrittenDisk(CountingDisk):
    """Somebody else replaces a file before calls of one kind; of several in a row, before the first."""

    def __init__(self, call: str, path: Path, versions: list[bytes], *, in_place: bool) -> None:
        super().__init__(self._meddle)
        self._call, self._path, self._versions, self._in_place = call, path, versions, in_place

    def _meddle(self, number: int, name: str) -> None:
        if name != self._call or not self._versions or self.calls[number - 1 : number] == [name]:
            return
        version = self._versions.pop(0)
        if self._in_place:
            self._path.write_bytes(version)
        else:
            other = self._path.with_name("theirs.tmp")
            other.write_bytes(version)
            other.rename(self._path)
