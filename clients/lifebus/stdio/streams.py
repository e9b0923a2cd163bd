"""Descriptors that were given to us, read and written without ever blocking the event loop.

They are never made non-blocking: that would be so for everybody who shares them (a terminal, the stderr of the same
pipe).  Pipes, sockets and terminals are waited for; whatever else there is, files above all, never keeps one waiting
and is used in a thread.
"""

import errno
import os
import select
import socket
import stat
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

_CHUNK: Final = 65_536
# What reading says when a terminal or a socket has lost its other side
_HUNG_UP: Final = frozenset({errno.EIO, errno.ECONNRESET})


class DescriptorReader:
    """Reads a descriptor as data comes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = _is_waited_for(descriptor)

    async def read(self) -> bytes:
        """Return the next bytes, up to 64 KiB; empty at the end.  Cancelling loses nothing.

        Raises:
            OSError: it cannot be read.
        """
        while True:
            try:
                if not self._waits:
                    return await anyio.to_thread.run_sync(os.read, self._descriptor, _CHUNK)
                # Waited for first, because the descriptor may block, and a read would stop the event loop.
                await anyio.wait_readable(self._descriptor)
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:  # another process that shares it made it non-blocking, and read first
                continue
            except OSError as fault:
                if fault.errno in _HUNG_UP:
                    return b""
                raise


class DescriptorWriter:
    """Writes a descriptor as fast as it is read.  `close` it in the end; the descriptor itself stays open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = _is_waited_for(descriptor)
        # Only a pipe becomes readable for its writer when the reader has gone.
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._socket: socket.socket | None = None
        self._terminal: int | None = None
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            self._socket = socket.socket(fileno=os.dup(descriptor))
        elif os.isatty(descriptor):
            self._terminal = _reopened(descriptor)

    def close(self) -> None:
        """Free what was opened beside the descriptor."""
        if self._socket is not None:
            self._socket.close()
        if self._terminal is not None:
            os.close(self._terminal)

    async def write(self, data: bytes) -> None:
        """Write all of it.  Cancelling may leave a part unwritten.

        Raises:
            BrokenPipeError: the reader has gone.
            OSError: it cannot be written.
        """
        rest = memoryview(data)
        while rest:
            if not self._waits:
                sent = await anyio.to_thread.run_sync(os.write, self._descriptor, rest)
            else:
                sent = self._write_now(rest)
                if not sent:
                    await anyio.wait_writable(self._descriptor)
            rest = rest[sent:]
        await anyio.lowlevel.checkpoint()

    async def hung_up(self) -> None:
        """Wait until the reader of a pipe has gone; other kinds show it only when they are written."""
        if not self._is_pipe:
            await anyio.sleep_forever()
        await anyio.wait_readable(self._descriptor)

    def _write_now(self, data: memoryview) -> int:
        """Write as much as there is room for, and return how much that was."""
        try:
            if self._socket is not None:
                return self._socket.send(data, socket.MSG_DONTWAIT)
            if self._terminal is not None:
                return os.write(self._terminal, data)
            # A pipe that blocks can only be written as much as is known to fit.
            if not select.select((), (self._descriptor,), (), 0)[1]:
                return 0
            return os.write(self._descriptor, data[: select.PIPE_BUF])  # so much fits when there is room at all
        except BlockingIOError:
            return 0


def _is_waited_for(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _reopened(descriptor: int) -> int | None:
    """Return a descriptor of our own for the same terminal, non-blocking, or None where it cannot be opened."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None
