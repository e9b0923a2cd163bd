"""Which process a harness is, and whether it still lives: by id and start time together, never by the id alone.

Only Linux has both cheaply (`/proc`).  On other systems every question here is answered with None, and nothing is
known about a harness's life: its sessions then end by their hooks or by silence.
"""

import os
import time
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_adapters.adapter import CallerProcess

_PROC: Final = "/proc"
_SHELLS: Final = frozenset({"bash", "dash", "env", "fish", "ksh", "lifebus-hook", "sh", "zsh"})
"""What stands between a harness and our hook: harnesses run commands through shells, and our launcher is one."""
_MAX_STAT: Final = 4096
_MAX_CLIMB: Final = 5
_MAX_ANCESTRY: Final = 8
_INIT: Final = 1
_GONE: Final = "gone"
"""The start of a process that ended before anybody asked for it: no living one has it."""
_CLOCK_SLACK_S: Final = 1.0
"""By how much the start of a process may seem to lie behind a call that it made: calls tell whole seconds."""
_DEAD: Final = frozenset("ZXx")
"""States of a process that has ended and whose parent has not waited for it yet."""


class _Stat(Struct, frozen=True):
    """What `/proc/<pid>/stat` says, as far as it matters here; `started` counts clock ticks since the boot."""

    name: str
    state: str
    parent: int
    started: str


def identify(pid: int) -> CallerProcess | None:
    """Return the process that has this id now; None if there is none, it has ended, or the system does not say."""
    try:
        stat = _stat(pid)
    except OSError:
        return None
    return _identity(pid, stat)


def _identity(pid: int, stat: _Stat | None) -> CallerProcess | None:
    """Return the living process that a stat is of."""
    boot = _boot_id()
    if stat is None or stat.state in _DEAD or boot is None:
        return None
    return CallerProcess(pid=pid, started=f"{boot}:{stat.started}")


def started_as(pid: int, ticks: str) -> CallerProcess | None:
    """Return the process with this id that started so many clock ticks after this boot, whether or not it still lives.

    None where the system does not count so.
    """
    boot = _boot_id()
    return CallerProcess(pid=pid, started=f"{boot}:{ticks}") if boot is not None and ticks else None


def harness_of(pid: int) -> CallerProcess | None:
    """Return the first process from `pid` upwards that is no shell and not our launcher; never the first of all."""
    for _ in range(_MAX_CLIMB + 1):
        stat = _stat_or_none(pid)
        if stat is None or pid <= _INIT:
            return None
        # Through a shell we may be the grandchild of the harness; through `exec` its child.
        if stat.name not in _SHELLS:
            return _identity(pid, stat)
        pid = stat.parent
    return None


def caller_of(claimed: int, peer: int | None) -> CallerProcess | None:
    """Return the harness behind a call that claims to come from a process; `peer` is who the kernel says it was.

    A claim counts only for the peer itself and what it descends from: nobody speaks for a stranger's process.
    """
    if peer is None or claimed <= _INIT:
        return None
    pid = peer
    for _ in range(_MAX_ANCESTRY + 1):
        if pid == claimed:
            return harness_of(claimed)
        stat = _stat_or_none(pid)
        if stat is None or stat.parent <= _INIT:
            return None
        pid = stat.parent
    return None


def late_caller_of(claimed: int, called_at_epoch_s: int) -> CallerProcess | None:
    """Return the harness behind a call that was made some time ago, as wall-clock seconds, and comes from the spool.

    The process that has this id now is the caller if it ran already when the call was made: an id stays with its
    process.  Otherwise the caller is gone, and so is whoever is returned.  None where the system does not say.
    """
    if claimed <= _INIT or _boot_id() is None:
        return None
    try:
        stat = _stat(claimed)
    except OSError:
        return None
    gone = CallerProcess(pid=claimed, started=_GONE)
    if stat is None or stat.state in _DEAD or _started_at(stat) > called_at_epoch_s + _CLOCK_SLACK_S:
        return gone
    return harness_of(claimed)


def is_alive(process: CallerProcess) -> bool:
    """Whether this very process still runs; an ended one whose parent has not waited for it yet does not.

    Where the system refuses to say, nothing proves its death, and it counts as alive.
    """
    try:
        stat = _stat(process.pid)
    except OSError:
        return True
    return stat is not None and stat.state not in _DEAD and process.started == f"{_boot_id()}:{stat.started}"


def _started_at(stat: _Stat) -> float:
    """Return when a process started, in wall-clock seconds."""
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat.started) / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def _stat_or_none(pid: int) -> _Stat | None:
    try:
        return _stat(pid)
    except OSError:
        return None


def _stat(pid: int) -> _Stat | None:
    """Return what the kernel says of a process, None where there is none.

    Raises:
        OSError: the kernel does not answer.
    """
    try:
        with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  a third of pathlib's time
            text = file.read(_MAX_STAT)
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    return _parse((text or b"").decode(errors="replace"))


def _parse(text: str) -> _Stat | None:
    """Read a line of stat; the name stands in parentheses and may itself hold any of them, and spaces."""
    name, closing, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if not closing or len(fields) < 20:  # noqa: PLR2004  the start time is the 22nd of all fields
        return None
    return _Stat(name=name, state=fields[0], parent=int(fields[1]), started=fields[19])


@cache
def _boot_id() -> str | None:
    """Return an id of this boot: start times count from it."""
    try:
        return (Path(_PROC) / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
