"""One growing file of records, read from where the last reading ended."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from lifebus_adapters.shared.telemetry import Fact, RecordReader
from lifebus_supervisor.tailing.decode import Decoder, ReadResult
from lifebus_supervisor.tailing.events import TailLimits
from lifebus_supervisor.tailing.framing import Framer
from lifebus_supervisor.tailing.safe_open import FilePlace, UnusableFile, join_path, open_checked

_CHUNK: Final = 256 * 1024
_MOST_NAMES: Final = 16_384
_ANCHOR: Final = 64
"""How many bytes before the offset are compared with what stood there: a file can be written anew in its place."""


class FileTail:
    """A file by its device, inode and offset.  A new inode, a shorter file or other bytes mean: from the beginning."""

    def __init__(
        self,
        decoder: Decoder,
        make_reader: Callable[[], RecordReader],
        make_framer: Callable[[], Framer],
        limits: TailLimits,
        *,
        uid: int,
        history: int | None,
    ) -> None:
        """Follow a file of which the first `history` bytes are old; None means all that it has when first seen."""
        self.decoder = decoder
        self.size = 0
        self.changed_at = 0.0
        self._make_reader, self._make_framer = make_reader, make_framer
        self._limits, self._uid = limits, uid
        self._history = history
        self._absent = False
        self._identity: tuple[int, int] | None = None
        self._version: tuple[int, ...] | None = None
        self._offset = 0
        self._anchor = b""

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read than one poll takes."""
        return self._offset < self.size

    def is_news(self, place: FilePlace, status: os.stat_result, now: float) -> bool:  # noqa: ARG002  a database's is alike
        """Whether the file is to be opened: it is not as it was at the last reading, or was not read to its end."""
        return self.is_behind or self._version != _version_of(status)

    def mark_absent(self) -> None:
        """Note that there is no such file now: whatever appears is new."""
        self._absent = True

    def read(self, place: FilePlace, now: float, expired: Callable[[], bool]) -> list[ReadResult]:  # noqa: ARG002  as above
        """Read on, up to the limit of one poll and until the time has `expired`; history and what is new stand apart.

        Raises:
            UnusableFile: the file cannot be opened or read.
        """
        results: list[ReadResult] = []
        with open_checked(place, self._uid) as (file, status):
            if self._is_another(file, status):
                results += self._read_moved(place, status, expired)
                # The rotated file comes first, over several polls if need be: its records are older.
                if self.is_behind:
                    return results
                self._restart(status)
            results += self._read_on(file, expired)
        # The status is from before the reading: what was appended meanwhile was read beyond its size.
        self.size = max(status.st_size, self._offset)
        self._version, self.changed_at = _version_of(status), status.st_mtime
        return [one for one in results if one.is_news]

    def _is_another(self, file: int, status: os.stat_result) -> bool:
        # Inode numbers are used again, and files are rewritten in place: only the bytes show that this one goes on.
        if self._identity != (status.st_dev, status.st_ino) or status.st_size < self._offset:
            return True
        return os.pread(file, len(self._anchor), self._offset - len(self._anchor)) != self._anchor

    def _read_moved(self, place: FilePlace, status: os.stat_result, expired: Callable[[], bool]) -> list[ReadResult]:
        """Read the rest of a file that another one has replaced, if it only got another name, as rotated logs do."""
        results: list[ReadResult] = []
        moved = None if self._identity in (None, (status.st_dev, status.st_ino)) else self._moved(place)
        # Without the moved file nothing is behind, and the new one is read at once.
        self.size = self._offset
        with suppress(UnusableFile):
            if moved is not None:
                with open_checked(moved, self._uid) as (file, old):
                    if not self._is_another(file, old):
                        results += self._read_on(file, expired)
                        self.size = max(old.st_size, self._offset)
        return [one for one in results if one.is_news]

    def _moved(self, place: FilePlace) -> FilePlace | None:
        """Return where the file is now that was read last, if it is still in its folder."""
        folder, _, _ = place.below.rpartition("/")
        _, inode = self._identity or (0, 0)
        with suppress(OSError), os.scandir(join_path(place.root, folder) if folder else place.root) as entries:
            for entry in islice(entries, _MOST_NAMES):
                if entry.inode() == inode:
                    return FilePlace(place.root, join_path(folder, entry.name), place.shown)
        return None

    def _restart(self, status: os.stat_result) -> None:
        """Read from the beginning; a file that took another's place may be a copy, as far as that one went."""
        self._reader, self._framer = self._make_reader(), self._make_framer()
        if self._absent:
            self._history = 0
        elif self._identity is not None:
            self._history = min(self.size, status.st_size)
        elif self._history is None:
            self._history = status.st_size
        self._identity, self._absent = (status.st_dev, status.st_ino), False
        self.size = self._offset = 0
        self._anchor = b""
        self.decoder.reset()

    def _read_on(self, file: int, expired: Callable[[], bool]) -> Iterator[ReadResult]:
        """Read history, if there is some left, and what is new; after an error, what was read before still counts."""
        begin, history = self._offset, self._history or 0
        end = begin + self._limits.poll_bytes
        try:
            if begin < history:
                yield self._read_to(file, min(history, end), expired)
            if self._offset >= history:
                yield self._read_to(file, end, expired)
        except OSError:
            if self._offset == begin:
                raise

    def _read_to(self, file: int, end: int, expired: Callable[[], bool]) -> ReadResult:
        """Read up to an offset and return what that brought."""
        facts: list[Fact] = []
        start, skipped = self._offset, self.decoder.skipped
        while self._offset < end and not expired():
            data = self._read_chunk(file, min(_CHUNK, end - self._offset), start)
            if not data:
                break
            self._decode(data, facts)
        return ReadResult(
            facts=tuple(facts),
            grown=max(0, self._offset - max(start, self.size, self._history or 0)),
            skipped=self.decoder.skipped - skipped,
            history=start < (self._history or 0),
        )

    def _read_chunk(self, file: int, size: int, start: int) -> bytes:
        try:
            return os.pread(file, size, self._offset)
        except OSError:
            if self._offset == start:
                raise
            return b""  # what was read counts; the next poll meets the error

    def _decode(self, data: bytes, facts: list[Fact]) -> None:
        self._offset += len(data)
        self._anchor = (self._anchor + data[-_ANCHOR:])[-_ANCHOR:]
        # The framer counts over its whole life, and a restart makes a new one: only the difference is of this chunk.
        oversized = self._framer.skipped
        for record in self._framer.feed(data):
            facts += self.decoder.decode(partial(self._reader.read, record))
        self.decoder.skipped += self._framer.skipped - oversized


def _version_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
