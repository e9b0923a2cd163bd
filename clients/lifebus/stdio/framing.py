"""A stream of bytes cut into lines of bounded length.  Sans-IO."""

from msgspec import Struct


class Overlong(Struct, frozen=True):
    """Stands for a line that was longer than the limit: nothing of it was kept but its size in bytes."""

    size: int


class LineCutter:
    """Takes chunks cut anywhere and returns the lines they complete, without their newlines.

    No more than `limit` bytes are kept of a line that has not ended yet.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """Take the next chunk."""
        *ends, rest = data.split(b"\n")
        lines = [self._end(part) for part in ends]
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes | Overlong]:
        """Return the last line, if the stream ended without a newline."""
        return [self._end(b"")] if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._kept += part
        else:
            self._kept.clear()

    def _end(self, part: bytes) -> bytes | Overlong:
        self._keep(part)
        line = bytes(self._kept) if self._size <= self._limit else Overlong(self._size)
        self._kept.clear()
        self._size = 0
        return line
