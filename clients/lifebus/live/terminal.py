"""A harness in a terminal of its own: what it shows, and keys that are pressed as a person presses them."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio

from lifebus.live.sandbox import MARK, Sandbox, Started

_ROWS: Final = 40
_COLUMNS: Final = 120
_READ_BYTES: Final = 65_536
_KEPT_BYTES: Final = 4_000_000
_RETRY_S: Final = 0.05
_AGAIN_S: Final = 1.0

# What programs ask a terminal when they begin: some draw nothing before they are answered.
_ANSWERS: Final = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?1;2c"}
_CONTROLS: Final = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|[\x00-\x1f]+")


class Terminal:
    """A terminal's other end.  `started` is the program in it; what it shows is also written to the file `out`."""

    def __init__(self, descriptor: int, started: Started, out: Path) -> None:
        self.started = started
        self._descriptor = descriptor
        self._out = out
        self._shown = bytearray()
        # A thread: a program whose terminal is not read stops, whatever is waited for meanwhile.
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    @property
    def screen(self) -> str:
        """What was shown so far, controls as blanks; of very much the end."""
        return _CONTROLS.sub(b" ", bytes(self._shown)).decode(errors="replace")

    async def shows(self, words: str) -> None:
        """Wait until these words were shown."""
        while words not in self.screen:  # noqa: ASYNC110  another process makes it hold
            await anyio.sleep(_RETRY_S)

    async def press_until(self, keys: bytes, condition: Callable[[], bool]) -> None:
        """Press keys until a condition holds: a dialog may pass over those that are faster than it."""
        while not condition():
            os.write(self._descriptor, keys)
            with anyio.move_on_after(_AGAIN_S):
                while not condition():  # noqa: ASYNC110  another process makes it hold
                    await anyio.sleep(_RETRY_S)

    def join(self) -> None:
        """Wait until all that was shown has been read, once nobody can write to the terminal any more."""
        self._reader.join()

    def _read(self) -> None:
        # Where nobody has the terminal open any more, reading it is an error.
        with suppress(OSError), self._out.open("ab") as out:
            while data := os.read(self._descriptor, _READ_BYTES):
                out.write(data)
                out.flush()
                self._shown += data
                del self._shown[:-_KEPT_BYTES]
                for asked, answer in _ANSWERS.items():
                    os.write(self._descriptor, answer * data.count(asked))


@asynccontextmanager
async def in_terminal(box: Sandbox, command: Sequence[str], variables: Mapping[str, str]) -> AsyncGenerator[Terminal]:
    """A program in a terminal and in the project directory; it and its children are gone at the end of the block."""
    out, err, mark = box.tmp / "out", box.tmp / "err", uuid.uuid4().hex
    for path in (out, err):
        path.write_bytes(b"")
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        # The leader of a session that opens a terminal has it as its own.
        opening = ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>"$0"', os.ttyname(theirs)]
        process = subprocess.Popen(  # noqa: ASYNC220, S603  starting takes no time; the user's own harness
            [*opening, *command],
            cwd=box.project,
            env=box.environment(variables) | {"TERM": "xterm-256color", MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        terminal = Terminal(ours, Started(process, out, err, mark), out)
        try:
            yield terminal
        finally:
            terminal.started.end()
            os.close(theirs)
            theirs = -1
            terminal.join()
    finally:
        if theirs >= 0:
            os.close(theirs)
        os.close(ours)
