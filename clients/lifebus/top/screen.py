"""The terminal of `lifebus top`: what it was is restored, only changes are written, and nobody waits for it."""

import contextlib
import os
import select
import termios
import time
from collections.abc import Generator, Sequence
from typing import Any, Final

import anyio
from rich.text import Text

from lifebus.top.cells import Cell, cells_of, changes, painter

FRAME_S: Final = 0.1
"""Shortest time between two screens."""

_ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, no cursor, no line breaks of its own."""
_LEAVE: Final = b"\x18\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Ends a sequence that was cut off, too."""
_LAST_S: Final = 1.0
"""How long a terminal that nobody reads is waited for at the end."""
_READ: Final = 1_024
_LOCAL_MODES: Final = 3


class LiveScreen:
    """One terminal; `bytes_per_s` bounds what is written to it, in the long run.

    It is opened anew: whoever else uses the terminal keeps a file that blocks.
    """

    def __init__(self, name: str, *, colored: bool, bytes_per_s: int) -> None:
        self._descriptor = os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self._before: list[Any] = termios.tcgetattr(self._descriptor)
        self._paint = painter(colored=colored)
        self._bytes_per_s = bytes_per_s
        self._shown: list[list[Cell]] | None = None

    def enter(self) -> None:
        """Take the terminal: keys come one by one and are not echoed; Ctrl-C and Ctrl-Z stay signals."""
        mode = termios.tcgetattr(self._descriptor)
        mode[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._descriptor, termios.TCSANOW, mode)
        self._write_soon(_ENTER)
        self._shown = None

    def leave(self) -> None:
        """Give the terminal back as it was; one that nobody reads is waited for a second."""
        try:
            self._write_soon(_LEAVE)
        finally:
            # Not after what is still to be written: that may be for ever.
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def close(self) -> None:
        """Close the file; the terminal itself is `leave`'s."""
        os.close(self._descriptor)

    def forget(self) -> None:
        """Have everything drawn again: somebody else may have written on the screen."""
        self._shown = None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now; those of a terminal that does not tell are 80 and 24."""
        size = os.get_terminal_size(self._descriptor)
        return size.columns or 80, size.lines or 24

    async def draw(self, lines: Sequence[Text], width: int) -> float:
        """Write what differs from what is shown; return for how many seconds nothing more is to be written."""
        rows = [cells_of(line, width) for line in lines]
        old = self._shown
        if old is not None and (len(old) != len(rows) or any(len(one) != width for one in old)):
            old = None
        data = changes(old, rows, self._paint).encode(errors="replace")
        # What was cut off in the middle is not shown: then everything is written again.
        self._shown = None
        await self._write(data)
        self._shown = rows
        return max(FRAME_S, len(data) / self._bytes_per_s)

    async def read(self) -> bytes:
        """Return what was typed, empty once the terminal is gone."""
        while True:
            try:
                return os.read(self._descriptor, _READ)
            except BlockingIOError:
                await anyio.wait_readable(self._descriptor)
            except OSError:  # hung up
                return b""

    async def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._descriptor)

    def _write_soon(self, data: bytes) -> None:
        """Write without the event loop, at the end and at the beginning; after a second what waits is dropped."""
        until = time.monotonic() + _LAST_S
        with contextlib.suppress(OSError, termios.error):
            while data:
                if not select.select([], [self._descriptor], [], max(0.0, until - time.monotonic()))[1]:
                    termios.tcflush(self._descriptor, termios.TCOFLUSH)
                    until = float("-inf")
                data = data[os.write(self._descriptor, data) :]


@contextlib.contextmanager
def taken_screen(name: str, *, colored: bool, bytes_per_s: int) -> Generator[LiveScreen]:
    """Take a terminal, and give it back however the block ends.

    Raises:
        OSError: there is no such terminal.
    """
    screen = LiveScreen(name, colored=colored, bytes_per_s=bytes_per_s)
    try:
        screen.enter()
        yield screen
    finally:
        screen.leave()
        screen.close()
