"""A command under a shim, as its owner sees it: started, asked to end, ended."""

import asyncio
import contextlib
import os
import signal
from typing import Any, Final

import anyio

from lifebus_transports.processes.guard import GUARD
from lifebus_transports.processes.identity import is_alive, started_as
from lifebus_transports.processes.shim_pool import SHIMS, Shim
from lifebus_transports.shims.messages import ShimCommand, ShimEnd, StartFault, Unpacker, pack

_CHUNK: Final = 65_536
_LAUNCHES: Final = 3
"""How often a shim is asked for: an idle one may have been killed."""


class ShimChild:
    """A command that a shim runs.  Runs on the event loop that made it.

    `begun` is set when it has started or is known not to, `ended` when it is over.  Then `fault` says why it did not
    start, or `end` how it ended; neither is there where the shim was killed.  `pid` and `start` (as the kernel counts)
    are there once it has started.
    """

    def __init__(self, command: ShimCommand) -> None:
        self.begun, self.ended = anyio.Event(), anyio.Event()
        self.pid = 0
        self.start = ""
        self.fault: StartFault | None = None
        self.end: ShimEnd | None = None
        self._command = command
        self._loop = asyncio.get_running_loop()
        self._shim: Shim | None = None
        self._taken = False
        self._launches = 0
        self._grace_ms: int | None = None
        self._messages = Unpacker()
        self._unsent = b""

    def launch(self) -> None:
        """Have it started; where no shim is to be had `fault` says so, with the stage ``launch``."""
        self._launches += 1
        try:
            self._shim = SHIMS.take()
        except OSError as fault:
            self.fault = {"stage": "launch", "number": fault.errno or 0}
            self.begun.set()
            self.ended.set()
            return
        self._loop.add_reader(self._shim.channel, self._read)
        self._send(pack(self._command))
        if self._grace_ms is not None:
            self.ask_to_end(self._grace_ms)

    def ask_to_end(self, grace_ms: int) -> None:
        """Have it sent SIGTERM, and SIGKILL after the grace; asked again, the grace that ends first counts."""
        self._grace_ms = grace_ms
        self._send(pack({"end": grace_ms}))
        if self._shim is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._shim.pid, signal.SIGCONT)  # one that somebody has stopped would not see it

    def _send(self, data: bytes) -> None:
        self._unsent += data
        self._write()

    def _write(self) -> None:
        if self._shim is None:
            return
        try:
            while self._unsent:
                self._unsent = self._unsent[self._shim.channel.send(self._unsent) :]
        except BlockingIOError:
            self._loop.add_writer(self._shim.channel, self._write)
            return
        except OSError:  # the end of the channel is read as well, and says the same
            self._unsent = b""
        self._loop.remove_writer(self._shim.channel)

    def _read(self) -> None:
        if self._shim is None:
            return
        try:
            data = self._shim.channel.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in self._messages.feed(data):
            self._take(message)
        if not data or self.end is not None or self.fault is not None:
            self._finish(self._shim)

    def _take(self, message: dict[str, Any]) -> None:
        self._taken = True
        if "pid" in message:
            self.pid, self.start = message["pid"], message["start"]
            # A second line: the guardian ends its group where this process and the shim are killed together.
            GUARD.add(self.pid)
            self.begun.set()
        self.fault = message.get("fault")
        self.end = message.get("end")

    def _finish(self, shim: Shim) -> None:
        self._shim = None
        self._loop.remove_reader(shim.channel)
        self._loop.remove_writer(shim.channel)
        if self.fault is not None or (self.end is not None and not self.end["stuck"]):
            SHIMS.release(shim)
        else:
            SHIMS.discard(shim)
        if not self._taken and self._launches < _LAUNCHES:
            self._unsent = b""
            self.launch()  # nothing of it has begun
            return
        if self.pid:
            self._leave()
        elif not self._taken:
            self.fault = {"stage": "launch", "number": 0}
        self.begun.set()
        self.ended.set()

    def _leave(self) -> None:
        """Have the guardian forget it; without its shim nobody else ends what runs of it."""
        process = started_as(self.pid, self.start)
        if self.end is None and process is not None and is_alive(process):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        GUARD.remove(self.pid)
