"""A file system of a few MiB, to be filled to its last byte; tests skip where none can be mounted."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_BYTES = 4 * 1_048_576


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of its own, of 4 MiB."""
    disk = directory / "disk"
    disk.mkdir(mode=0o700)
    options = f"size={DISK_BYTES},mode=0700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root and a kernel that allows it")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    """Leave only so many bytes free."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - leave)))
    return ballast
