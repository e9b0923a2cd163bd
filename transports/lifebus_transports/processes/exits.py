"""Waiting for the end of a child: by a descriptor of the process, or by a thread where there are none."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable


def watch_exit(
    process: "subprocess.Popen[bytes]", loop: asyncio.AbstractEventLoop, ended: Callable[[], None]
) -> Callable[[], None]:
    """Call `ended` once on the loop when the process has ended; return what stops the watch.

    The process is not reaped, so that its number, and its group's, stays its own; where neither `pidfd_open` nor
    `waitid` is there, it is.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # an old kernel, or one that is not let
            return _watch_descriptor(os.pidfd_open(process.pid), loop, ended)
    # A daemon thread: it must not keep the interpreter alive for a child that never ends.
    threading.Thread(target=_wait_for, args=(process, loop, ended), daemon=True).start()
    return _nothing


def _watch_descriptor(
    descriptor: int, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]
) -> Callable[[], None]:
    def note() -> None:
        loop.remove_reader(descriptor)
        ended()

    def stop() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)

    loop.add_reader(descriptor, note)
    return stop


def _wait_for(process: "subprocess.Popen[bytes]", loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            # WNOWAIT leaves the child unreaped, so that its process id stays its own.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        loop.call_soon_threadsafe(ended)


def _nothing() -> None:
    """Stop nothing: the thread ends with the child."""
