"""What the proxy shares with its observer: a memory that bytes are read into, and a pipe of small records of them.

The proxy reads each chunk straight into the memory and writes it on from there, so that observing costs no copy.  The
observer gives room back by writing how far it has read.  Whatever finds no room passes all the same, unobserved, and
its bytes are counted; the count goes with the next record, and what is left in the end stands in the memory's head.
"""

import errno
import fcntl
import mmap
import os
import struct
from time import time

IN, OUT = 0, 1
"""The directions: client to server, server to client."""

CHUNK_BYTES = 65_536
"""Bytes of one read."""

RING_BYTES = 8 * 1_048_576
"""Bytes that each direction may be ahead of the observer."""

HEAD_BYTES = mmap.ALLOCATIONGRANULARITY
MEMORY_BYTES = HEAD_BYTES + 2 * RING_BYTES
"""The head, then the ring of each direction."""

TAIL, LOST, ENDED, CODE = 0, 2, 4, 5
"""Places in the head, as signed 64-bit numbers.

`TAIL` + direction: how far the observer has read.  `LOST` + direction: bytes lost since the last record.  `ENDED`: 1
once the program has ended, and `CODE` its exit code, negative for a signal.
"""

RECORD = struct.Struct("=BxxxIQQQ")
"""A chunk: direction, length, where it is (counted from the first byte of all), epoch ms, bytes lost before it."""

_RECORDS_BYTES = 1_048_576
"""Bytes of records that wait for the observer: some 30,000."""

_WARM_BYTES = 262_144
"""How much of a ring is used while the observer keeps up: it stays in the processor's cache."""

_RESUME_BYTES = RING_BYTES // 2
"""How far the observer may be behind when recording begins again: few long losses are better than many short ones."""


class SharedMemory:
    """The shared memory and the pipe of records, as the proxy has them.

    `file` and `records` are for the observer, `writer` is our end of the pipe.
    """

    def __init__(self) -> None:
        self.file = _anonymous_file(MEMORY_BYTES)  # before the pipe: the observer needs its number to be lower
        self.records, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        _widen(self.writer)
        view = memoryview(mmap.mmap(self.file, MEMORY_BYTES))
        self._head = view[:HEAD_BYTES].cast("q")
        self.rings = (RingBuffer(view, IN, self.writer), RingBuffer(view, OUT, self.writer))

    def close_reading_end(self) -> None:
        """Close the observer's end of the pipe, once the observer has it."""
        os.close(self.records)

    def reopen_records(self) -> None:
        """Make another pipe: the reader of the first one is gone."""
        os.close(self.writer)
        self.records, self.writer = os.pipe()

    def close(self, code: int) -> None:
        """Record that the program has ended, and how, and end the records."""
        self._head[CODE] = code  # before ENDED: a reader that sees ENDED may read it
        self._head[ENDED] = 1
        os.close(self.writer)


class RingBuffer:
    """One direction's ring: room for the next chunk, and the record of it."""

    def __init__(self, view: memoryview, direction: int, writer: int) -> None:
        start = HEAD_BYTES + direction * RING_BYTES
        self._ring = view[start : start + RING_BYTES]
        self._head = view[:HEAD_BYTES].cast("q")
        self._direction = direction
        self._writer = writer
        self._spare = memoryview(bytearray(CHUNK_BYTES))
        self._at = 0
        self._free = 0
        self._lost = 0
        self._in_ring = False
        self._observed = True

    def reserve(self) -> memoryview:
        """Return room for one chunk: in the ring, or a spare buffer where the observer is behind or gone."""
        read = max(self._head[TAIL + self._direction], self._free)
        place = self._at % RING_BYTES
        rest = RING_BYTES - place
        # At the end of the ring, or to stay in the processor's cache, go on at the beginning.
        if rest < CHUNK_BYTES or (place >= _WARM_BYTES and read == self._at):
            if read == self._at:
                read = self._free = self._at + rest
            self._at += rest
            place = 0
        most = _RESUME_BYTES if self._lost else RING_BYTES - CHUNK_BYTES
        self._in_ring = self._observed and self._at - read <= most
        return self._ring[place : place + CHUNK_BYTES] if self._in_ring else self._spare

    def commit(self, length: int) -> None:
        """Record that so many bytes were read into the room; count them where that cannot be."""
        before = self._lost
        if self._in_ring and self._write(length):
            self._at += length
            self._lost = 0
        else:
            self._lost += length
        if self._lost != before:
            self._head[LOST + self._direction] = self._lost

    def _write(self, length: int) -> bool:
        try:
            os.write(self._writer, RECORD.pack(self._direction, length, self._at, int(time() * 1000), self._lost))
        except BlockingIOError:
            return False
        except OSError as fault:
            if fault.errno != errno.EPIPE:
                raise
            # The observer is gone; the streams go on, and the bytes are counted for the next one.
            self._observed = False
            self._lost += self._at - max(self._head[TAIL + self._direction], self._free)  # nobody reads it any more
            return False
        return True


def _widen(pipe: int) -> None:
    """Let a pipe hold more records, where the system lets us: a burst may come before the observer has started."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _RECORDS_BYTES)
    except (AttributeError, OSError):
        return


def _anonymous_file(size: int) -> int:
    """Return a descriptor of a file that has no name (any more)."""
    try:
        file = os.memfd_create("lifebus-proxy")
    except (AttributeError, OSError):  # another system, or one that forbids it
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "lifebus-" + os.urandom(16).hex())  # noqa: PTH118, S108
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)  # noqa: PTH108  pathlib costs start-up time
    os.ftruncate(file, size)
    return file
