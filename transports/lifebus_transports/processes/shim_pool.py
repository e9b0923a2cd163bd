"""The shims of this process: started when a command needs one, kept for the next."""

import contextlib
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Final

from msgspec import Struct

_MOST_IDLE: Final = 2
"""How many shims are kept that have nothing to do."""

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from lifebus_transports.shims.shim import main; main()"


class Shim(Struct, frozen=True):
    """A shim: its process id, and our end of its channel, which does not block."""

    pid: int
    channel: socket.socket


class ShimPool:
    """Shims that have nothing to do; the end of this process is theirs."""

    def __init__(self) -> None:
        self.idle: list[Shim] = []
        self._owner = os.getpid()
        self._ending: list[threading.Thread] = []

    def take(self) -> Shim:
        """Return a shim, an idle one or a new one; give it back with `release` or `discard`.

        Raises:
            OSError: it cannot be started.
        """
        if self._owner != os.getpid():  # a fork: these shims serve its parent
            self.idle.clear()
            self._ending.clear()
            self._owner = os.getpid()
        return self.idle.pop() if self.idle else _start()

    def release(self, shim: Shim) -> None:
        """Take back a shim whose command has ended."""
        if len(self.idle) < _MOST_IDLE:
            self.idle.append(shim)
        else:
            self.discard(shim)

    def discard(self, shim: Shim) -> None:
        """End a shim that has no command, or take in the end of one that was killed; returns at once."""
        shim.channel.close()
        # It ends with its channel, if it has not yet: it has nothing else to wait for.
        if _has_ended(shim.pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(shim.pid, signal.SIGCONT)  # one that somebody has stopped would not see it
        # Its end may take as long as the machine likes, and this is called on an event loop.
        waiting = threading.Thread(target=_wait_for, args=(shim.pid,), name="shim-end", daemon=True)
        waiting.start()
        self._ending = [one for one in self._ending if one.is_alive()] + [waiting]

    def close(self) -> None:
        """End the idle ones, and wait for the end of those that were discarded; blocks."""
        while self.idle:
            self.discard(self.idle.pop())
        while self._ending:
            self._ending.pop().join()


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; its end is taken in."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else took it in
        return True


def _wait_for(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _start() -> Shim:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    words = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT)]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    streams = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *nowhere]
    try:
        return Shim(os.posix_spawn(words[0], words, {}, file_actions=streams), ours)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()


SHIMS: Final = ShimPool()
"""The shims of this process."""
