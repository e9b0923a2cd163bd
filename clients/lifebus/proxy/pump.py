"""One direction of the proxy: what is read from one side is written to the other, byte for byte."""

import os
import select

from lifebus.proxy.shared_memory import RingBuffer

TYPE_CHECKING = False  # `typing` costs more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

_LAST_BYTES = 1_048_576
"""Bytes that are still passed on after the program's end: more than a pipe holds, so all that it wrote itself."""


class Pump:
    """Copies bytes from a descriptor to another; both are closed when either side has ended."""

    def __init__(self, source: int, target: int, ring: RingBuffer) -> None:
        self._source = source
        self._target = target
        self._ring = ring
        self._is_over = False
        self._left = _LAST_BYTES

    def run(self, at_end: "Callable[[], None] | None" = None) -> None:
        """Copy until the source has ended or the target takes no more; `at_end` is called where it was the source."""
        try:
            while self._left > 0 and self._copy():
                pass
            self._finish()
        except OSError:  # the other side notices by the end of its pipe
            at_end = None
        finally:
            _close(self._source)
            _close(self._target)
        if at_end is not None:
            at_end()

    def end_soon(self) -> None:
        """Copy only what is there already: the program has ended, but others may still hold its end of the pipe.

        A read that waits does so until a signal interrupts it.
        """
        self._is_over = True
        # The flag belongs to the open file: it takes effect for the next read, not for one that already waits.
        try:
            os.set_blocking(self._source, False)
        except OSError:  # it has just been closed
            return

    def _copy(self) -> bool:
        """Copy one chunk; return whether there may be another."""
        room = self._ring.reserve()
        length = self._read(room)
        if not length:
            return False
        # Before it is passed on: no answer can be recorded before its question.
        begins_line = self._ring.commit(length)
        self._pass_on(room[:length], begins_line=begins_line)
        if self._is_over:
            self._left -= length
        return True

    def _pass_on(self, data: memoryview, *, begins_line: bool) -> None:  # noqa: ARG002  for pumps that look at lines
        """Write a chunk that was read."""
        self._write(data)

    def _finish(self) -> None:
        """Write what was kept back, at the end of the source."""

    def _read(self, room: memoryview) -> int:
        """Read what is there, waiting for the first byte; return 0 at the end."""
        while True:
            try:
                return os.readv(self._source, (room,))
            except BlockingIOError:  # another process that shares the descriptor may have set it non-blocking
                if self._is_over:
                    return 0
                _wait(self._source, select.POLLIN)

    def _write(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._target, data) :]
            except BlockingIOError:
                _wait(self._target, select.POLLOUT)


def _wait(descriptor: int, event: int) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    ready.poll()


def _close(descriptor: int) -> None:
    """Close a descriptor; the low numbers stay taken, or something else would get them."""
    if descriptor > 2:  # noqa: PLR2004  stdin, stdout, stderr
        os.close(descriptor)
        return
    # `dup2` replaces the number in one step; between a close and an open another thread could take it.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
