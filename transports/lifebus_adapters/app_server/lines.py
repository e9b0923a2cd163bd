"""Bytes into lines: any split, lines too long, and bytes that are missing.  Pure.

Lines stay bytes until they are whole, so a character that is cut between two reads is put together again.
"""

from collections.abc import Iterator
from typing import Final

MAX_LINE_BYTES: Final = 8_388_608
"""Longest line that is kept, in bytes; of a longer one nothing is read."""


class LineSplitter:
    """Cuts one direction of a stream into lines.

    `overlong` counts the lines that were too long, `lost` how often bytes were missing.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self.overlong = 0
        self.lost = 0
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that these bytes complete, without their newlines."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = self._complete(end)
            if line is not None:
                yield line
        self._hold(rest)

    def lose(self) -> None:
        """Forget the line that has begun: bytes are missing here, so reading goes on after the next newline."""
        self.lost += 1
        self._skip()

    @property
    def unfinished(self) -> int:
        """How many bytes of a line are waiting for its end."""
        return self._size

    def _complete(self, end: bytes) -> bytes | None:
        self._hold(end)
        line = None if self._skipping else b"".join(self._held)
        self._held, self._size, self._skipping = [], 0, False
        return line

    def _hold(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        if self._size > self._limit:
            self.overlong += 1
            self._skip()
        else:
            self._held.append(part)

    def _skip(self) -> None:
        self._held, self._size, self._skipping = [], 0, True
