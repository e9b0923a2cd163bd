"""`lifebus top` on a terminal of its own: what it writes is shown by a terminal emulator that others wrote."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyte

from lifebus.top.cells import BEGIN, END
from support.command_line import Shell, fork
from support.fork_server import Forked
from support.patience import PATIENCE, PATIENCE_S

ENTER = b"\x1b[?1049h"
LEAVE = b"\x1b[?1049l"
_BEGIN, _END = (word.encode() for word in (BEGIN, END))
_LOOK_S = 0.1
"""Between two looks where nothing is written: what is waited for need not be on the screen."""


class TopTerminal:
    """A terminal with the program on it; `raw` is all that was written so far."""

    def __init__(self, ours: int, theirs: int, process: Forked, size: tuple[int, int]) -> None:
        self.process, self.raw = process, b""
        self._ours, self._theirs = ours, theirs
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.before = _settings(theirs)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen now."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def settings(self) -> list[Any]:
        """The terminal's settings."""
        return _settings(self._theirs)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        set_size(self._ours, columns, lines)

    def until(self, holds: Callable[[str], object]) -> str:
        """Read until the screen is as is waited for, and return it; of an update that has begun all has come."""
        deadline = time.monotonic() + PATIENCE_S
        while self.raw.rfind(_BEGIN) > self.raw.rfind(_END) or not holds(self.text):
            assert time.monotonic() < deadline, f"the screen stayed so:\n{self.text}"
            self.read(_LOOK_S)
        return self.text

    def until_shown(self, *words: str) -> str:
        return self.until(lambda text: all(word in text for word in words))

    def read(self, seconds: float) -> bool:
        """Take what was written, waiting at most so long for it; False where nothing came."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        data = os.read(self._ours, 65_536)
        self.raw += data
        self._stream.feed(data)
        return True

    def ended(self) -> int:
        """Wait for the end of the program, read what it wrote last, and return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(_LOOK_S)
        code = self.process.wait(PATIENCE_S)
        while self.read(0):
            pass
        return code


@contextmanager
def top_on_terminal(
    shell: Shell, *arguments: str, columns: int = 80, lines: int = 24, **variables: str
) -> Iterator[TopTerminal]:
    """`lifebus top` in a terminal of this size; it waits for answers as long as a test does."""
    ours, theirs = pty.openpty()
    set_size(ours, columns, lines)
    environment = {**shell.environment, "TERM": "xterm-256color", **variables}
    process = fork(["top", "--timeout", PATIENCE, *arguments], environment, stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        yield TopTerminal(ours, theirs, process, (columns, lines))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(PATIENCE_S)
        os.close(ours)
        os.close(theirs)


def set_size(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def shown_by(data: Sequence[str], columns: int, lines: int) -> pyte.Screen:
    """Return the screen of a terminal that got some texts, one after the other."""
    screen = pyte.Screen(columns, lines)
    stream = pyte.Stream(screen)
    # As the program has it: the last column is followed by no line of its own.
    for text in ("\x1b[?7l", *data):
        stream.feed(text)
    return screen


def _settings(terminal: int) -> list[Any]:
    return termios.tcgetattr(terminal)
