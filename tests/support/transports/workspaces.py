"""Workspaces in both ways of opening, and processes that swap names beneath them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from lifebus_transports.workspace.opening import OpenDirectory, best_opening, open_by_kernel, open_by_walk

OPENINGS: Final[dict[str, OpenDirectory]] = {"kernel": open_by_kernel, "walk": open_by_walk}

_SWAPPER: Final = """
import ctypes, os, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
directory, other_directory = (os.open(os.path.dirname(path), os.O_RDONLY) for path in sys.argv[1:3])
one, other = (os.fsencode(os.path.basename(path)) for path in sys.argv[1:3])
print("ready", flush=True)
while True:
    if exchange(directory, one, other_directory, other, 2):
        sys.exit(f"cannot swap: {os.strerror(ctypes.get_errno())}")
"""


def openings() -> list[object]:
    """Both ways, as parameters; the kernel's only where there is one."""
    return [pytest.param(one, id=name) for name, one in OPENINGS.items() if name == "walk" or _has_kernel()]


def _has_kernel() -> bool:
    root = os.open("/", os.O_RDONLY)
    try:
        return best_opening(root) is open_by_kernel
    finally:
        os.close(root)


@contextmanager
def swapping(pairs: Sequence[tuple[Path, Path]]) -> Iterator[None]:
    """Processes that exchange two names each, as fast as they can, until the end of the block; inner ones first."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for pair in pairs:
            # One after the other: each opens its directories before those above it are swapped.
            processes.append(subprocess.Popen([sys.executable, "-S", "-c", _SWAPPER, *pair], stdout=subprocess.PIPE))
            outlet = processes[-1].stdout
            assert outlet is not None
            assert outlet.readline() == b"ready\n"
        yield
        assert [process.poll() for process in processes] == [None] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
