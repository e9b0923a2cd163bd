"""What the proxy shares with its observer: a memory that bytes are read into, and a pipe of small records of them.

The proxy reads each chunk straight into the memory and writes it on from there, so that observing costs no copy.  The
observer gives room back by writing how far it has read.  Whatever finds no room passes all the same, unobserved.  Each
record says how many bytes passed before it, so that whatever is missing shows; the total stands in the memory's head.

The proxy keeps both ends of the pipe: where an observer dies, the next one goes on with what was left unread.
"""

import errno
import fcntl
import mmap
import os
import struct
from time import monotonic, time_ns

IN, OUT = 0, 1
"""The directions: client to server, server to client."""

CHUNK_BYTES = 65_536
"""Bytes of one read."""

RING_BYTES = 8 * 1_048_576
"""Bytes that each direction may be ahead of the observer."""

HEAD_BYTES = mmap.ALLOCATIONGRANULARITY
MEMORY_BYTES = HEAD_BYTES + 2 * RING_BYTES
"""The head, then the ring of each direction."""

TAIL, PASSED, REPORTED, ENDED, CODE, ENDED_AT = 0, 2, 4, 6, 7, 8
"""Places in the head, as signed 64-bit numbers.

`TAIL` + direction: how far the observer has read in the ring.  `PASSED` + direction: bytes that had passed when bytes
were last left out, and in the end.  `REPORTED` + direction: bytes up to which everything is with the broker, as the
observer knows.  `ENDED`: 1 once the program has ended, `CODE` its exit code, negative for a signal, `ENDED_AT` when, in
milliseconds of the monotonic clock.
"""

RECORD = struct.Struct("=BBBxIQQQ")
"""A chunk: direction, 1 where it begins a line, 1 where it is ours and not the client's, length, place in the ring,
epoch ms, bytes that passed before it.
"""

_pack = RECORD.pack  # looked up once: this is done for every message
_NEWLINE = 10

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
        self.records, self.writer = _pipe()
        view = memoryview(mmap.mmap(self.file, MEMORY_BYTES))
        self._head = view[:HEAD_BYTES].cast("q")
        self.rings = (RingBuffer(view, IN, self.writer), RingBuffer(view, OUT, self.writer))

    def close_reading_end(self) -> None:
        """Give observing up: from the next record on the rings know that nobody reads them."""
        os.close(self.records)

    def reopen_records(self) -> None:
        """Make another pipe, where observing was given up before: the last observer only reports what was lost."""
        self.records, writer = _pipe()
        os.dup2(writer, self.writer, inheritable=False)  # in one step: the other direction may be writing a record
        os.close(writer)

    def close(self, code: int) -> None:
        """Record that the program has ended, and how, and end the records."""
        for ring in self.rings:
            ring.close()
        self._head[CODE] = code
        self._head[ENDED_AT] = int(monotonic() * 1000)
        self._head[ENDED] = 1  # last: a reader that sees it may read all others
        os.close(self.writer)


class RingBuffer:
    """One direction's ring: room for the next chunk, and the record of it.

    `passed` counts the bytes so far; `begins_line` says that the last of them was a newline, or that there was none.
    """

    def __init__(self, view: memoryview, direction: int, writer: int) -> None:
        start = HEAD_BYTES + direction * RING_BYTES
        self._ring = view[start : start + RING_BYTES]
        self._head = view[:HEAD_BYTES].cast("q")
        self._direction = direction
        self._tail = TAIL + direction
        self._writer = writer
        self._spare = memoryview(bytearray(CHUNK_BYTES))
        self._room = self._spare
        self._at = 0
        self._free = 0
        self.passed = 0
        self._in_ring = False
        self.begins_line = True
        self._behind = False
        self._observed = True

    def reserve(self) -> memoryview:
        """Return room for one chunk: in the ring, or a spare buffer where the observer is behind or gone."""
        read = max(self._head[self._tail], self._free)
        place = self._at % RING_BYTES
        rest = RING_BYTES - place
        # At the end of the ring, or to stay in the processor's cache, go on at the beginning.
        if rest < CHUNK_BYTES or (place >= _WARM_BYTES and read == self._at):
            if read == self._at:
                read = self._free = self._at + rest
            self._at += rest
            place = 0
        most = _RESUME_BYTES if self._behind else RING_BYTES - CHUNK_BYTES
        self._in_ring = self._observed and self._at - read <= most
        self._room = self._ring[place : place + CHUNK_BYTES] if self._in_ring else self._spare
        return self._room

    def commit(self, length: int, *, ours: bool = False) -> bool:
        """Record that so many bytes were read into the room; where that cannot be, they only count as passed.

        `ours` are bytes that the client has not sent.  Return whether they begin a line.
        """
        began = self.begins_line
        # The read may have waited long: only now it is known whether the observer has caught up.
        recorded = (self._in_ring or self._move(length)) and self._write(length, ours=ours)
        self.passed += length
        self._behind = not recorded
        if recorded:
            self._at += length
        else:
            self._head[PASSED + self._direction] = self.passed
        self.begins_line = self._room[length - 1] == _NEWLINE
        return began

    def put(self, data: bytes) -> bool:
        """Record bytes of ours that are about to be passed on; return False where the observer could not see them."""
        self.reserve()
        if not self._in_ring:
            return False
        for start in range(0, len(data), CHUNK_BYTES):
            piece = data[start : start + CHUNK_BYTES]
            self.reserve()[: len(piece)] = piece
            self.commit(len(piece), ours=True)
        return True

    def close(self) -> None:
        """Leave in the head how many bytes have passed."""
        self._head[PASSED + self._direction] = self.passed

    def _move(self, length: int) -> bool:
        """Copy what was read into the spare buffer to the ring, if there is room by now."""
        room = self.reserve()
        if self._in_ring:
            room[:length] = self._spare[:length]
        return self._in_ring

    def _write(self, length: int, *, ours: bool) -> bool:
        now_ms = time_ns() // 1_000_000
        record = _pack(self._direction, self.begins_line, ours, length, self._at, now_ms, self.passed)
        try:
            os.write(self._writer, record)
        except BlockingIOError:
            return False
        except OSError as fault:
            if fault.errno != errno.EPIPE:
                raise
            self._observed = False  # nobody reads records any more; the streams go on
            return False
        return True


def _pipe() -> tuple[int, int]:
    """Return a pipe that holds many records and whose writer never waits."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _widen(writing)
    return reading, writing


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
