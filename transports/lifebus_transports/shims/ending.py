"""The end of processes: of a whole group, and of everything that descends from this process."""

import contextlib
import os
import signal
from collections.abc import Collection

from lifebus_transports.shims.kernel import Process, start_of


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a group; return whether there is one that is ours."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_each(processes: Collection[Process], number: signal.Signals) -> None:
    """Send a signal to these very processes, as far as they still run."""
    for one in processes:
        # A process of the same number that started later is a stranger.
        if start_of(one.pid) == one.start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, number)


def reap(ours: int) -> int | None:
    """Take in the ends of children until that of `ours`; return its exit code, negative for a signal.

    None where it has not ended.
    """
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == ours:
                return os.waitstatus_to_exitcode(ended[1])
    return None


def has_children() -> bool:
    """Take in the ends of children; return whether some are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
