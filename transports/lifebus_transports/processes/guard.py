"""No child outlives its owner: a guardian beside this process ends what a kill -9 leaves behind.

A signal at the parent's death (`PR_SET_PDEATHSIG`) would have to be asked for in the child between fork and exec, where
no Python may run beside threads, or by a program in between, for every child; and it would not reach what a child has
started.  One guardian for all children costs nothing when a child starts, and ends whole groups.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

import structlog

_PROGRAM: Final = Path(__file__).with_name("guardian.py")

_log = structlog.get_logger("lifebus.commands")


class Guard:
    """This process's guardian.  It is started with the first child, and again if it is gone.

    `pid` is its process id, 0 where there is none, and `pipe` our end of its stdin.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.pipe = -1
        self._owner = 0
        self._groups: set[int] = set()

    def add(self, pid: int) -> None:
        """Have a child's group ended if this process is killed; call it as soon as the child is there."""
        if self._owner != os.getpid():  # a fork: the guardian is its parent's
            self._groups.clear()
            self._start()
        self._groups.add(pid)
        if not self._tell(f"+{pid}\n"):
            self._start()
            self._tell("".join(f"+{group}\n" for group in self._groups))

    def remove(self, pid: int) -> None:
        """Forget a child; call it before the child is waited for, as long as its number is its own."""
        self._groups.discard(pid)
        if self._owner == os.getpid():
            self._tell(f"-{pid}\n")

    def _start(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
        if self.pid and self._owner == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)  # it was killed, or we would not start another one
        theirs, self.pipe = os.pipe()
        os.set_blocking(self.pipe, False)
        self._owner = os.getpid()
        words = [sys.executable, "-I", "-S", str(_PROGRAM)]
        nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        streams = [(os.POSIX_SPAWN_DUP2, theirs, 0), *nowhere]
        try:
            # A group of its own: what ends ours, as Ctrl-C does, must not end the guardian with it.
            self.pid = os.posix_spawn(words[0], words, {}, file_actions=streams, setpgroup=0)
        except OSError as fault:
            self.pid = 0
            _log.warning("guardian_not_started", reason=fault.strerror)
        finally:
            os.close(theirs)

    def _tell(self, text: str) -> bool:
        """Write to the guardian; return False where it is gone."""
        try:
            os.write(self.pipe, text.encode("ascii"))
        except BlockingIOError:  # it is stopped; another one beside it would let it end our children once it goes on
            _log.warning("guardian_does_not_read", pid=self.pid)
        except OSError:
            return False
        return True


GUARD: Final = Guard()
"""The guard of this process."""
