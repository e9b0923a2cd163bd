"""What only Linux does for the parent of a command; elsewhere each of these does nothing."""

import ctypes
import os
import sys
from typing import Final, NamedTuple

_LIBRARY: Final = ctypes.CDLL(None)

_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_DEAD: Final = "ZXx"
"""States of a process that has ended and that its parent has not waited for yet."""


def adopt_orphans() -> bool:
    """Become the parent of each descendant whose own parent ends; return whether the system does so."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Give this process a name of at most 15 characters, for `ps` and `top`."""
    _prctl(_PR_SET_NAME, name.encode("ascii"))


class Process(NamedTuple):
    """A process that runs; its start, as the kernel counts it, tells it from a later one of the same number."""

    pid: int
    start: str
    group: int


def descendants() -> set[Process]:
    """Return the processes that descend from this one and have not ended; empty where the system does not say."""
    children: dict[int, list[int]] = {}
    running: dict[int, Process] = {}
    for name in _listing():
        if name.isdecimal() and (fields := _stat(name)):
            pid = int(name)
            children.setdefault(int(fields[1]), []).append(pid)
            if fields[0] not in _DEAD:
                running[pid] = Process(pid, fields[19], int(fields[2]))
    found, new = set[Process](), [os.getpid()]
    while new:
        new = [child for pid in new for child in children.get(pid, ())]
        found |= {running[pid] for pid in new if pid in running}
    return found


def start_of(pid: int) -> str:
    """Return when a process started, as the kernel counts it; empty where there is none, or nobody says."""
    fields = _stat(str(pid))
    return fields[19] if fields else ""


def _listing() -> list[str]:
    try:
        return os.listdir("/proc")  # noqa: PTH208  pathlib costs start-up time
    except OSError:
        return []


def _stat(pid: str) -> list[str]:
    """Return what `/proc/<pid>/stat` says behind the name: the state first, then the parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  pathlib costs start-up time
            fields = (file.read(4_096) or b"").rpartition(b")")[2].split()
    except OSError:
        return []
    # The start is the 22nd field of all.
    return [field.decode() for field in fields] if len(fields) > 19 else []  # noqa: PLR2004


def _prctl(option: int, value: int | bytes) -> bool:
    if sys.platform != "linux":
        return False
    argument = ctypes.c_ulong(value) if isinstance(value, int) else ctypes.c_char_p(value)
    return int(_LIBRARY.prctl(option, argument, 0, 0, 0)) == 0
