"""A stream of bytes cut into lines of bounded length; any split of the stream gives the same lines.  Pure.

Lines stay bytes until they are whole, so that a character that is cut between two reads is put together again.
"""

from msgspec import Struct


class Overlong(Struct, frozen=True):
    """Stands for a line that was longer than the limit; `size` is its length in bytes, and nothing of it was kept."""

    size: int


class LineFramer:
    """Takes chunks cut anywhere and returns the lines they complete, without their newlines.

    No more than `limit` bytes are kept of a line that has not ended yet.  `overlong` counts the lines that were longer,
    each as soon as it is; `lost` counts how often bytes were missing.
    """

    def __init__(self, limit: int) -> None:
        self.overlong = 0
        self.lost = 0
        self._limit = limit
        self._kept = bytearray()
        self._size = 0
        self._skipping = False

    @property
    def unfinished(self) -> int:
        """How many bytes are kept of the line that has not ended yet."""
        return len(self._kept)

    @property
    def is_overlong(self) -> bool:
        """Whether the line that has not ended yet is longer than the limit already."""
        return self._size > self._limit

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """Take the next chunk and return the lines that end in it, oldest first."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | Overlong] = []
        for part in ends:
            self._keep(part)
            lines += self._end()
        self._keep(rest)
        return lines

    def lose(self, *, line_begins: bool = False) -> None:
        """Note that bytes are missing here: the line that has begun is dropped, up to the next newline.

        With `line_begins` the last missing byte was a newline, so that the next line is whole.
        """
        self.lost += 1
        self._kept.clear()
        self._size, self._skipping = 0, not line_begins

    def finish(self) -> list[bytes | Overlong]:
        """Return the last line, if the stream ended without a newline."""
        return self._end() if self._size else []

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            return
        was_overlong = self.is_overlong
        self._size += len(part)
        if not self.is_overlong:
            self._kept += part
        elif not was_overlong:
            # Counted here and not at the newline, which may never come.
            self.overlong += 1
            self._kept.clear()

    def _end(self) -> list[bytes | Overlong]:
        lines: list[bytes | Overlong] = [Overlong(self._size) if self.is_overlong else bytes(self._kept)]
        # What ends here is the rest of a line whose beginning was lost.
        if self._skipping:
            lines = []
        self._kept.clear()
        self._size, self._skipping = 0, False
        return lines
