"""What tests may leave behind: processes, zombies, descriptors.  Linux tells; elsewhere nothing is found."""

import gc
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil

from lifebus_transports.processes.guard import GUARD
from lifebus_transports.processes.shim_pool import SHIMS
from support.patience import PATIENCE_S

MARK = "LC_LIFEBUS_MARK"
"""A variable that every command gets by the allow-list, and that its children keep."""


def marked(mark: str) -> list[str]:
    """Return the ids of the processes that were started under a mark and live, their descendants included."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(path.parent.name)
        except OSError:  # somebody else's, or gone
            continue
    return found


def descriptors() -> dict[int, str]:
    """Return the open descriptors of this process, and what each is."""
    found: dict[int, str] = {}
    for path in Path("/proc/self/fd").glob("*"):
        try:
            found[int(path.name)] = str(path.readlink())
        except OSError:  # that of the listing itself
            continue
    for number in (GUARD.pipe, *(shim.channel.fileno() for shim in SHIMS.idle)):
        found.pop(number, None)
    return found


def children() -> dict[int, str]:
    """Return the children of this process, zombies among them, and what each is."""
    found: dict[int, str] = {}
    for child in psutil.Process().children():
        if child.pid in (GUARD.pid, *(shim.pid for shim in SHIMS.idle)):  # they stay as long as this process
            continue
        try:
            found[child.pid] = child.status()
            found[child.pid] += f": {' '.join(child.cmdline())[:200]}"
        except psutil.Error:  # a zombie has no command, and one that is gone has nothing
            continue
    return found


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only its parent has not asked for its end yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class Watch:
    """What there was before; `leftovers` tells what has come and not gone."""

    mark: str = field(default_factory=lambda: uuid4().hex)
    descriptors: dict[int, str] = field(default_factory=descriptors)
    children: dict[int, str] = field(default_factory=children)

    def leftovers(self, *, descriptors_too: bool = True) -> list[str]:
        """Return a line for each thing that is still there."""
        found = [f"process {pid}" for pid in marked(self.mark)]
        found += [f"child {pid}, {what}" for pid, what in children().items() if pid not in self.children]
        if not descriptors_too:
            return found
        found += [
            f"descriptor {number}, {what}" for number, what in descriptors().items() if number not in self.descriptors
        ]
        return found

    def wait(self) -> list[str]:
        """Return what is still there after a while."""
        gc.collect()
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found
