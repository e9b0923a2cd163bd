"""One child process: started, written to, drained, ended and reaped, whatever it does.

It has a session and so a process group of its own, which is ended with it.  Until the child is reaped its number stays
its own, so the group is signalled before that and never after.  What leaves the group and closes its streams is not
followed.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterable
from typing import IO, Final, cast

import anyio
import structlog

from lifebus_transports.processes.exits import watch_exit
from lifebus_transports.processes.guard import GUARD
from lifebus_transports.processes.redaction import StderrTail, redact, secrets_in
from lifebus_transports.processes.spec import CommandSpec, environment_of

TERM_S: Final = 0.5
"""How long a child may take to end once it is asked to, in seconds; then it is killed."""

_REAP_S: Final = 2.0
"""How long the end of a killed child is waited for; the kernel may hold one that waits for a disk."""

_CHUNK: Final = 65_536
_DRAINED: Final = 16
"""How many chunks are taken in at once: as much as a pipe can hold."""

_log = structlog.get_logger("lifebus.commands")


class ChildProcess:
    """A started child.  Runs on the event loop that made it; whoever makes one awaits `end` in any case.

    `ending` is set when it has ended (then `exited` is set, too) or is to be ended; `outputs_closed` when both of its
    outputs are closed.  `on_output` gets what it writes to stdout; `errors` keeps the end of what it writes to stderr,
    which goes where the caller's goes if `keep_errors` is false.  `on_errors` gets it, too.  The descriptors of
    `handing_on` are open in the child, under the same numbers.
    """

    def __init__(
        self,
        spec: CommandSpec,
        on_output: Callable[[bytes], None],
        *,
        keep_errors: bool = True,
        on_errors: Callable[[bytes], None] | None = None,
        handing_on: tuple[int, ...] = (),
    ) -> None:
        """Start the child.

        Raises:
            OSError: it cannot be started.
            ValueError: an argument or variable holds a NUL character.
        """
        self.ending, self.exited, self.outputs_closed = anyio.Event(), anyio.Event(), anyio.Event()
        self.errors = StderrTail()
        self._loop = asyncio.get_running_loop()
        self._on_output, self._on_errors = on_output, on_errors
        self._unsent = memoryview(b"")
        self._last = False
        self._closed = False
        self._environment = environment_of(spec, os.environ)
        # The child's end stays open here: FIONREAD on it says how much the child leaves unread.
        self._stdin_end, self._stdin = os.pipe()
        try:  # a millisecond on the event loop; with an await there would be a moment in which nobody owns the child
            self._process = subprocess.Popen(  # noqa: S603  an argument list that the user has given
                spec.argv,
                stdin=self._stdin_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if keep_errors else None,
                bufsize=0,
                cwd=spec.cwd,
                env=self._environment,
                start_new_session=True,
                pass_fds=handing_on,
            )
        except (OSError, ValueError):
            os.close(self._stdin)
            os.close(self._stdin_end)
            raise
        GUARD.add(self._process.pid)
        self._open()

    def _open(self) -> None:
        self._outputs = {cast("IO[bytes]", self._process.stdout).fileno(): self._on_output}
        if self._process.stderr is not None:
            self._outputs[self._process.stderr.fileno()] = self._take_errors
        self._listening = set(self._outputs)
        # Our ends must never block the event loop; the child's ends stay as they are.
        for descriptor in (*self._outputs, self._stdin):
            os.set_blocking(descriptor, False)
        for descriptor in self._outputs:
            self._loop.add_reader(descriptor, self._read, descriptor)
        self._stop_watching = watch_exit(self._process, self._loop, self._on_exit)

    @property
    def pid(self) -> int:
        """Its process id, which is its group's as well."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit code, negative for a signal; None until it was reaped."""
        return self._process.returncode

    @property
    def unread(self) -> int:
        """How many bytes of what was sent it has not read."""
        if self._closed:
            return 0
        # What the pipe holds was written and not read; what is unsent did not fit into the pipe.
        waiting = struct.unpack("i", fcntl.ioctl(self._stdin_end, termios.FIONREAD, b"\0" * 4))[0]
        return len(self._unsent) + int(waiting)

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Write to its stdin as it reads; after the `last` piece its stdin ends.  One piece at a time."""
        self._unsent, self._last = memoryview(data), last
        self._write()
        if self._unsent:
            self._loop.add_writer(self._stdin, self._write)

    def redacted_errors(self, bodies: Iterable[str]) -> str:
        """Return the end of what it wrote to stderr, fit for a receipt; without its secrets and these bodies."""
        text = self.errors.text()
        return redact(text, secrets_in(self._environment), bodies) if text else ""

    def request_end(self) -> None:
        """Set `ending`, so that its owner ends it."""
        self.ending.set()

    def drain(self) -> None:
        """Take in what it has written so far."""
        for descriptor in tuple(self._listening):
            for _ in range(_DRAINED):
                if descriptor not in self._listening or not self._read(descriptor):
                    break

    async def end(self, term_s: float = TERM_S, *, input_end_s: float = 0.0) -> None:
        """End it and its group, reap it, and close every descriptor; shielded, bounded, and harmless when repeated.

        With `input_end_s` its stdin is closed first, and it has so many seconds to end by itself; after SIGTERM it has
        `term_s` seconds more.
        """
        if self._closed:
            return
        with anyio.CancelScope(shield=True):
            if input_end_s:
                self._end_input()
                with anyio.move_on_after(input_end_s):
                    await self.exited.wait()
            if term_s and not self.exited.is_set():
                self._signal(signal.SIGTERM)
                with anyio.move_on_after(term_s):
                    await self.exited.wait()
            # Also after a clean exit: what the child has started may live on in its group.
            self._signal(signal.SIGKILL)
            with anyio.move_on_after(_REAP_S):
                await self.exited.wait()
            if not self._closed:
                self.drain()
                self._close()

    def _take_errors(self, data: bytes) -> None:
        self.errors.add(data)
        if self._on_errors is not None:
            self._on_errors(data)

    def _signal(self, number: signal.Signals) -> None:
        # Once reaped, the number may belong to a stranger's process.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _on_exit(self) -> None:
        self.exited.set()
        self.ending.set()
        # It outlived SIGKILL by `_REAP_S`, and ends only now.
        if self._closed:
            self._reap()

    def _reap(self) -> None:
        self._stop_watching()
        GUARD.remove(self._process.pid)  # before: from then on the number may be a stranger's
        self._process.wait()

    def _close(self) -> None:
        self._closed = True
        if self.exited.is_set():
            self._reap()
        else:
            _log.error("child_cannot_be_killed", pid=self.pid)
        for descriptor in tuple(self._listening):
            self._stop_reading(descriptor)
        for stream in filter(None, (self._process.stdout, self._process.stderr)):
            stream.close()
        self._end_input()
        os.close(self._stdin_end)

    def _write(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._stdin, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        # A child that reads to the end of its stdin would wait for ever.
        if self._last:
            self._end_input()
        else:
            self._loop.remove_writer(self._stdin)

    def _end_input(self) -> None:
        descriptor, self._stdin = self._stdin, -1
        if descriptor >= 0:
            self._loop.remove_writer(descriptor)
            os.close(descriptor)

    def _read(self, descriptor: int) -> bool:
        """Read once; False when there is nothing more for now, or at all."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        # The end of the stream; a reader that stays would be called again and again.
        if not data:
            self._stop_reading(descriptor)
            return False
        self._outputs[descriptor](data)
        return True

    def _stop_reading(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        self._listening.discard(descriptor)
        if not self._listening:
            self.outputs_closed.set()
