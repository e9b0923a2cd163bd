"""A broker on a disk whose every sync takes its time: `python -m bench.slow_disk MILLISECONDS up`.

The disk is an APSW VFS that becomes SQLite's default before the command line runs, so that the product needs no switch
for it.  A sync is really done, and then as much is waited as is missing.
"""

# ruff: noqa: N802  the methods have the names that APSW calls

import sys
import time
from typing import Any

import apsw


def command(milliseconds: int) -> list[str]:
    """Return the command that is a broker on such a disk."""
    return [sys.executable, "-m", "bench.slow_disk", str(milliseconds), "up"]


class SlowDisk(apsw.VFS):
    """SQLite's default disk; each sync takes at least so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.real = seconds, apsw.vfs_names()[0]
        super().__init__("slow-disk", base=self.real, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        """Open a file that syncs slowly."""
        return _SlowFile(self, name, flags)


class _SlowFile(apsw.VFSFile):
    def __init__(self, disk: SlowDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.real, name, flags)

    def xSync(self, flags: int) -> None:
        began = time.perf_counter()
        super().xSync(flags)
        time.sleep(max(0.0, self._disk.seconds - (time.perf_counter() - began)))


if __name__ == "__main__":
    from lifebus.cli import run

    _disk = SlowDisk(int(sys.argv[1]) / 1000)
    sys.exit(run(sys.argv[2:]))
