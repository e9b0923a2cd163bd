"""What the proxy records, read: chunks of bytes in the order in which they came."""

import mmap
import os
from typing import Final

from msgspec import Struct

from lifebus.proxy.shared_memory import CODE, ENDED, HEAD_BYTES, IN, LOST, MEMORY_BYTES, OUT, RECORD, RING_BYTES, TAIL
from lifebus_adapters.app_server import Direction

_RECORDS: Final = 64
"""Records of one read, so that sending has its turn between reads."""

_NAMES: Final[dict[int, Direction]] = {IN: "in", OUT: "out"}


class Chunk(Struct, frozen=True):
    """Some bytes of one direction, when they came (milliseconds since 1970), and how many before them are missing."""

    direction: Direction
    data: bytes
    at_ms: int
    lost: int


class Ending(Struct, frozen=True):
    """How it ended: the exit code (negative for a signal, None where the proxy was killed), and bytes lost last."""

    code: int | None
    lost: dict[Direction, int]


class Recording:
    """The memory and the pipe of records, as the observer has them; the rings can only be read here."""

    def __init__(self, memory: int, records: int) -> None:
        self.records = records
        # Read-only, so that no defect here can change bytes that the proxy still has to write.
        self._rings = memoryview(mmap.mmap(memory, MEMORY_BYTES, prot=mmap.PROT_READ))[HEAD_BYTES:]
        self._head = memoryview(mmap.mmap(memory, HEAD_BYTES)).cast("q")
        os.set_blocking(records, False)

    def read(self) -> list[Chunk] | None:
        """Return the next chunks, none where nothing is there yet; None once the proxy has ended."""
        try:
            data = os.read(self.records, RECORD.size * _RECORDS)
        except BlockingIOError:
            return []
        return [self._take(*record) for record in RECORD.iter_unpack(data)] if data else None

    def ending(self) -> Ending:
        """Return how the proxy ended; right only once `read` has returned None."""
        code = self._head[CODE] if self._head[ENDED] else None
        return Ending(code, {name: self._head[LOST + number] for number, name in _NAMES.items()})

    def _take(self, direction: int, length: int, at: int, at_ms: int, lost: int) -> Chunk:
        """Copy a chunk and free its room in the ring."""
        start = direction * RING_BYTES + at % RING_BYTES
        data = bytes(self._rings[start : start + length])
        self._head[TAIL + direction] = at + length  # after the copy: from here on the proxy may overwrite it
        return Chunk(_NAMES[direction], data, at_ms, lost)
