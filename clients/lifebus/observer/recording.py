"""What the proxy records, read: chunks of bytes in the order in which they came."""

import mmap
import os
from typing import Final

from msgspec import Struct

from lifebus.proxy.shared_memory import (
    CODE,
    ENDED,
    ENDED_AT,
    HEAD_BYTES,
    IN,
    MEMORY_BYTES,
    OUT,
    PASSED,
    RECORD,
    REPORTED,
    RING_BYTES,
    TAIL,
)
from lifebus_adapters.app_server.reader import Direction

_RECORDS: Final = 32
"""Records of one read, so that sending has its turn between reads.

An observer that is killed between a read and the copies leaves their room taken: it is less than the proxy waits for.
"""

_NAMES: Final[dict[int, Direction]] = {IN: "in", OUT: "out"}

DIRECTIONS: Final[tuple[Direction, ...]] = ("in", "out")
"""The directions in the order of their numbers."""

Positions = tuple[int, int]
"""How far something is in each direction, counted in bytes from the first one."""


class Chunk(Struct, frozen=True):
    """Some bytes of one direction, when they came (milliseconds since 1970), and how many before them are missing.

    `position` counts the bytes that passed before, `begins_line` says that the last one of them was a newline, `ours`
    that lifebus sent it and not the client.
    """

    direction: Direction
    data: bytes
    at_ms: int
    lost: int
    position: int
    begins_line: bool
    ours: bool = False


class Ending(Struct, frozen=True):
    """How it ended: the exit code (negative for a signal, None where the proxy was killed), and bytes lost last.

    `at_ms` is when, on the monotonic clock; None where nobody has said so.
    """

    code: int | None
    lost: dict[Direction, int]
    at_ms: int | None = None


class Recording:
    """The memory and the pipe of records, as the observer has them; the rings can only be read here.

    An observer that is not the first one begins where the one before had reported everything, as far as it is still
    there; all that is not, is missing.
    """

    def __init__(self, memory: int, records: int, *, is_first: bool = True) -> None:
        self.records = records
        self.is_first = is_first
        # Read-only, so that no defect here can change bytes that the proxy still has to write.
        self._rings = memoryview(mmap.mmap(memory, MEMORY_BYTES, prot=mmap.PROT_READ))[HEAD_BYTES:]
        self._head = memoryview(mmap.mmap(memory, HEAD_BYTES)).cast("q")
        self._seen = [self._head[REPORTED + direction] for direction in (IN, OUT)]
        os.set_blocking(records, False)

    @property
    def reported(self) -> Positions:
        """How far everything is with the broker."""
        return self._head[REPORTED + IN], self._head[REPORTED + OUT]

    def read(self) -> list[Chunk] | None:
        """Return the next chunks, none where nothing is there yet; None once the proxy has ended."""
        try:
            data = os.read(self.records, RECORD.size * _RECORDS)
        except BlockingIOError:
            return []
        return [self._take(record) for record in RECORD.iter_unpack(data)] if data else None

    def report(self, positions: Positions) -> None:
        """Note how far everything is with the broker; what follows is lost if this process dies."""
        self._head[REPORTED + IN], self._head[REPORTED + OUT] = positions

    def ending(self) -> Ending:
        """Return how the proxy ended; right only once `read` has returned None."""
        has_ended = bool(self._head[ENDED])
        # A proxy that was killed has left no total; then what the records say is all that is known.
        lost: dict[Direction, int] = {
            name: max(0, self._head[PASSED + number] - self._seen[number]) for number, name in _NAMES.items()
        }
        return Ending(self._head[CODE] if has_ended else None, lost, at_ms=self._head[ENDED_AT] if has_ended else None)

    def _take(self, record: tuple[int, ...]) -> Chunk:
        """Copy a chunk and free its room in the ring."""
        direction, begins_line, ours, length, at, at_ms, position = record
        start = direction * RING_BYTES + at % RING_BYTES
        data = bytes(self._rings[start : start + length])
        self._head[TAIL + direction] = at + length  # after the copy: from here on the proxy may overwrite it
        lost = position - self._seen[direction]
        self._seen[direction] = position + length
        return Chunk(_NAMES[direction], data, at_ms, lost, position, bool(begins_line), bool(ours))
