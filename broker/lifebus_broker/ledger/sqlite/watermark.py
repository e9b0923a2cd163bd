"""The high-water mark of what was committed, in a small file beside the ledger.

A write-ahead log whose middle is damaged ends early: SQLite takes what comes before for the whole.  A log or a last row
that was deleted leaves no trace either.  So after each durable commit, and before that is acknowledged, the writer
records how far the ledger is.  That is a store into mapped memory: no system call, no sync.  It survives the process,
and what a power cut leaves of it is an older mark: it never claims what was not durable.
"""

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from lifebus_broker.ledger.sqlite.checksums import checksum

_SUFFIX: Final = "-witness"
_SIZE: Final = 4096
_MARK: Final = struct.Struct(">32s4QI")
_SLOT_BYTES: Final = 128
_SLOTS: Final = 2
"""The mark before stays whole while the next one is written."""


class Watermark(Struct, frozen=True, order=True):
    """How far a ledger is; everything but the epoch only ever grows.

    `head` and `floor` are positions, `written` and `dropped` count the notes of all streams together.
    """

    epoch: str
    head: int
    floor: int
    written: int
    dropped: int


class HighWaterMark:
    """The file while its ledger is open.  Made by `beside`; used by the writer's thread alone."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._turn = 0

    @classmethod
    def beside(cls, path: Path) -> Self | None:
        """Open or make the file beside a ledger file; None where that fails, as on a full disk."""
        try:
            descriptor = os.open(watermark_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # a file of another size is left by a kill while it was made
                if os.fstat(descriptor).st_size != _SIZE:
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, bytes(_SIZE), 0)
                return cls(mmap.mmap(descriptor, _SIZE))
            finally:
                os.close(descriptor)
        except (OSError, ValueError):  # ValueError: the file is shorter than what was asked for
            return None

    def record(self, mark: Watermark) -> None:
        """Record how far the ledger is; it must be durable by now."""
        values = (mark.head, mark.floor, mark.written, mark.dropped)
        self._turn = (self._turn + 1) % _SLOTS
        packed = (mark.epoch.encode(), *values, checksum(mark.epoch, *values))
        # into the other slot: a process killed in the middle leaves the mark before as it is
        _MARK.pack_into(self._memory, self._turn * _SLOT_BYTES, *packed)

    def close(self) -> None:
        """Close the file."""
        self._memory.close()


def watermark_path(path: Path) -> Path:
    """Return where the high-water mark of a ledger file is."""
    return path.with_name(path.name + _SUFFIX)


def watermarks_beside(path: Path) -> Sequence[Watermark]:
    """Return the marks beside a ledger file; none where there is no such file, or it is damaged."""
    try:
        content = watermark_path(path).read_bytes()
    except OSError:
        return ()
    slots = [content[start : start + _MARK.size] for start in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES)]
    return [mark for mark in map(_decode, slots) if mark is not None]


def losses(marks: Sequence[Watermark], found: Watermark) -> list[str]:
    """Return what was committed and is not there; marks of another epoch are about another history."""
    own = [mark for mark in marks if mark.epoch == found.epoch]
    head, written = (max((getattr(mark, name) for mark in own), default=0) for name in ("head", "written"))
    lost: list[str] = []
    if head > found.head:
        lost.append(f"row {found.head + 1}: was acknowledged and is missing, as is everything up to row {head}")
    if written > found.written:
        lost.append(f"notes: the newest {written - found.written} that were acknowledged are missing")
    if not lost and any(mark.floor > found.floor or mark.dropped > found.dropped for mark in own):
        lost.append(f"row {found.floor + 1}: was dropped and is there again: the file is older than it was")
    return lost


def _decode(slot: bytes) -> Watermark | None:
    """Return what a slot holds, None where it is empty or torn."""
    if len(slot) < _MARK.size:
        return None
    epoch, *values, check = _MARK.unpack(slot)
    try:
        mark = Watermark(epoch.decode("ascii"), *values)
    except UnicodeDecodeError:
        return None
    return mark if checksum(mark.epoch, *values) == check else None
