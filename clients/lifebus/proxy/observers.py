"""The observers of one run, one after the other: where one dies, the next goes on with what it has left unread."""

import os
import sys

from lifebus.proxy.child import stat_of
from lifebus.proxy.shared_memory import SharedMemory

_MOST = 4
"""Observers that are started while the program runs: one that dies again and again is not worth the processor."""


class Observers:
    """Starts observers apart, with none of our streams and in groups of their own; one at a time.

    `server` says whom they observe: the adapter, the runtime directory, the program's process id and when it started.
    `steering` is their end of the way by which they have lines sent.  Where none can be started, the streams pass
    unobserved.
    """

    def __init__(self, memory: SharedMemory, steering: int, server: list[str], origin: str, held: "set[int]") -> None:
        self._memory = memory
        self._steering = steering
        self._server = server
        self._origin = origin
        self._held = held
        self._started = 0
        self._pid = 0
        self._gave_up = False

    def start(self) -> None:
        """Start the next observer."""
        self._started += 1
        # Each numbers its observations from 1, so each is an origin of its own.
        origin = self._origin if self._started == 1 else f"{self._origin}.{self._started}"
        module = [sys.executable, "-P", "-m", "lifebus.observer"]
        streams = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        # In this order: each number is lower than those that come after it, and so overwrites none of them.
        given = (self._memory.file, self._memory.records, self._steering)
        shared = [(os.POSIX_SPAWN_DUP2, number, place) for place, number in enumerate(given, 3)]
        words = [*module, origin, str(self._started), *self._server]
        try:
            self._pid = os.posix_spawn(
                words[0], words, os.environ, file_actions=[*streams, *shared], setpgroup=0, setsigmask=self._held
            )
        except OSError:
            self._pid = 0
            self._give_up()

    def on_exit(self, pid: int) -> None:
        """Take it that a child of ours has ended; if it is the observer, start the next one."""
        if pid != self._pid:
            return
        self._pid = 0
        if self._started < _MOST:
            self.start()
        else:
            self._give_up()

    def ensure_last(self) -> None:
        """See to it that an observer reports the end, and what was lost; then give up our end of the records."""
        if self._pid and _has_ended(self._pid):
            self._pid = 0
        if not self._pid:
            if self._gave_up:
                self._memory.reopen_records()
                self._gave_up = False
            self.start()
        self._give_up()

    def _give_up(self) -> None:
        if not self._gave_up:
            self._gave_up = True
            self._memory.close_reading_end()


def _has_ended(pid: int) -> bool:
    """Whether a child of ours has ended; it is waited for then, unless some of its threads are still about to end."""
    try:
        # A zombie has ended, which is before all its threads are gone and it can be waited for.
        return os.waitpid(pid, os.WNOHANG)[0] == pid or stat_of(pid)[:1] == [b"Z"]
    except ChildProcessError:
        return True
