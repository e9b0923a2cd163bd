"""Ends process groups whose owner was killed: ``python -I -S guardian.py``, started by `guard.Guard` beside it.

On stdin are lines ``+PID`` and ``-PID``, one for each child that the owner starts and that is gone again.  The end of
stdin is the end of the owner, however it came.  Standard library only, and little of that.
"""

import os
import signal
import time

GRACE_S = 0.5
"""How long a child may take to end by itself once its stdin has ended, and again after SIGTERM; then it is killed."""

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Read until the owner is gone, then end what it has left behind."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # or what the owner's caller gave it would stay open with us
    os.chdir("/")
    for number in _IGNORED:  # what is sent to the owner and all around it must not end its guardian first
        signal.signal(number, signal.SIG_IGN)
    left: dict[int, str] = {}
    rest = b""
    while data := os.read(0, 65_536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            pid = int(line[1:])
            if line.startswith(b"+"):
                left[pid] = _start_of(pid)
            else:
                left.pop(pid, None)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if left:
            time.sleep(GRACE_S)  # a process of its own, which has nothing else to do, and no parent of these to wait
        left = {pid: start for pid, start in left.items() if _signal(pid, start, number)}


def _signal(pid: int, start: str, number: int) -> bool:
    """Send a signal to a child's group; return whether there is one."""
    # The child itself may be gone and its group not; a process of the same number that started later is a stranger.
    if _start_of(pid) not in {start, ""}:
        return False
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _start_of(pid: int) -> str:
    """Return when a process started, as the kernel counts it; empty where there is none, or nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  pathlib costs start-up time
            fields = file.read(4_096).rpartition(b")")[2].split()
    except OSError:
        return ""
    return fields[19].decode() if len(fields) > 19 else ""  # noqa: PLR2004  the start is the 22nd field of all


if __name__ == "__main__":
    main()
