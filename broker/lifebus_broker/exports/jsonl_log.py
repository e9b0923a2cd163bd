"""An export as a source of the log: everything is read from the text, nothing is kept in memory.

Before anything else it is read once, to know that it is whole; the lines themselves are checked where they are read.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import Struct

from lifebus_broker.exports.lines import (
    ORDER,
    Counts,
    End,
    Header,
    HeadLine,
    RecordLine,
    StreamLine,
    TombstoneLine,
    body_of,
    decode,
    decode_base,
    kind_of,
)
from lifebus_broker.ledger.log import LinkedRecord, LogLine, decode_line
from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ports import Record
from lifebus_contract import InvalidRequest, LifebusError

# One offset for so many lines: a million lines cost some thousand numbers.
_MARK_EVERY: Final = 1024
# Bounds the memory for a file that is no export and has no line ends.
_MAX_LINE_BYTES: Final = 16 * 1_048_576
_MAX_BASE_BYTES: Final = 2**31

K = TypeVar("K", HeadLine, TombstoneLine)


class FileSlice(Struct, frozen=True):
    """A file, or `size` bytes of it from `start` on."""

    path: Path
    start: int = 0
    size: int | None = None

    def lines(self, offset: int = 0, *, most: int = _MAX_LINE_BYTES) -> Generator[tuple[int, bytes]]:
        """Yield each line with the offset that it begins at; one of more than `most` bytes is cut into pieces.

        Raises:
            LifebusError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.start + offset)
                while offset < (self.size if self.size is not None else offset + 1):
                    data = file.readline(most)
                    # A base is one line of any length; others are bounded.
                    if kind_of(data) == "base":
                        data += file.readline(_MAX_BASE_BYTES) if not data.endswith(b"\n") else b""
                    if not data:
                        return
                    if self.size is not None:
                        data = data[: self.size - offset]
                    yield offset, data
                    offset += len(data)
        except OSError as fault:
            raise LifebusError(f"{self.path}: {fault.strerror}", code="unreadable") from fault


class _Plan(Struct):
    """What is where: the offset of the first line of each kind, and of every 1,024th line of the log."""

    header: Header
    end: End
    first: dict[int, int]
    marks: list[int]


class JsonlLog:
    """Implements `exports.writer.ExportSource` on an export, and with it `log.LogSource`.  Made by `open`.

    Every method may raise `InvalidRequest` with the code ``export_damaged``; the text names the line, and the
    position where it is one of the log.
    """

    def __init__(self, part: FileSlice, *, sealed: bool = True) -> None:
        """Read nothing yet.  Without `sealed` the hash in the last line is not compared: who asked proves the log."""
        self._part, self._sealed = part, sealed

    @classmethod
    def open(cls, part: FileSlice | Path) -> Self:
        """Return the log of an export; it is read once, and whole.

        Raises:
            InvalidRequest: it is no export, is cut off, or is not what its last line says.
            LifebusError: it cannot be read.
        """
        log = cls(FileSlice(part) if isinstance(part, Path) else part)
        log._plan  # noqa: B018  now, and not where it is read first
        return log

    @cached_property
    def _plan(self) -> _Plan:
        return _survey(self._part, sealed=self._sealed)

    @property
    def header(self) -> Header:
        """The first line."""
        return self._plan.header

    @property
    def end(self) -> End:
        """The last line."""
        return self._plan.end

    @property
    def epoch(self) -> str:
        """The history that was exported."""
        return self.header.epoch

    @property
    def floor(self) -> int:
        """The position after which the lines begin."""
        return self.header.floor

    @property
    def head(self) -> int:
        """The position of the last line."""
        return self.header.head

    def base(self) -> bytes | None:
        """Return the canonical dump of the stores after `floor`, None where nothing was pruned."""
        for _, data in self._section("base"):
            with _reading(self._part, "the base"):
                return decode_base(data)
        return None

    def heads(self) -> Iterator[HeadLine]:
        """Return the streams of receipts as they were at the floor."""
        return self._decoded("head", HeadLine)

    def tombstones(self) -> Iterator[TombstoneLine]:
        """Return the keys whose receipts were pruned."""
        return self._decoded("tombstone", TombstoneLine)

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        """Return the lines with positions above `after` up to `through`, in order."""
        after, through = max(after, self.floor), min(through, self.head)
        if after >= through:
            return
        # Starts at the nearest mark before, and skips the lines up to `after`.
        mark = (after - self.floor) // _MARK_EVERY
        expected = self.floor + 1 + mark * _MARK_EVERY
        for _, data in self._part.lines(self._plan.marks[mark]):
            with _reading(self._part, f"position {expected}"):
                line = decode_line(data)
            if line.position != expected:
                raise _damaged(self._part, f"position {expected}: position {line.position} stands in its place")
            if line.position > after:
                yield line
            if line.position >= through:
                return
            expected += 1

    def journal(self) -> Iterator[StreamLine | RecordLine]:
        """Return the streams of the journal, each before its notes."""
        for offset, data in self._section("stream"):
            with _reading(self._part, f"byte {offset}"):
                line = decode(data, StreamLine) if kind_of(data) == "stream" else decode(data, RecordLine)
            yield line

    def records(self, prefix: str) -> Iterator[Record]:
        """Return the kept notes of the streams whose name begins with `prefix`, by stream and number."""
        return (linked.record for linked in self._linked(lambda name: name.startswith(prefix)))

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        """Return the kept notes of one stream with their links (log.LogSource.chain)."""
        return self._linked(lambda name: name == stream)

    def _linked(self, wanted: Callable[[str], bool]) -> Iterator[LinkedRecord]:
        """Yield the notes of some streams, each once it is known that its link follows."""
        stream, number, link = "", 0, b""
        missing = 0
        for line in self.journal():
            if not wanted(line.stream):
                continue
            if isinstance(line, StreamLine):
                self._check_end(stream, number, missing)
                stream, number, link = line.stream, line.floor, bytes.fromhex(line.link)
                missing = line.head - line.floor
                continue
            if line.stream != stream:
                raise _damaged(self._part, f"note {line.number} of `{line.stream[:64]}`: it stands in another stream")
            linked = self._follow(line, number, link)
            number, link, missing = line.number, linked.link, missing - 1
            yield linked
        self._check_end(stream, number, missing)

    def _follow(self, line: RecordLine, number: int, link: bytes) -> LinkedRecord:
        """Return the next note of a stream, whose note before it has this number and link."""
        where = f"note {line.number} of `{line.stream[:64]}`"
        with _reading(self._part, where):
            body = body_of(line.body)
        if line.number != number + 1 or record_link(link, line.at_epoch_s, body).hex() != line.link:
            raise _damaged(self._part, f"{where}: it does not continue the hash chain of its stream")
        return LinkedRecord(Record(line.stream, line.number, line.at_epoch_s, body), bytes.fromhex(line.link))

    def _check_end(self, stream: str, number: int, missing: int) -> None:
        if missing:
            raise _damaged(self._part, f"note {number + 1} of `{stream[:64]}`: the stream does not end as it says")

    def _decoded(self, name: str, kind: type[K]) -> Iterator[K]:
        for offset, data in self._section(name):
            with _reading(self._part, f"byte {offset}"):
                line = decode(data, kind)
            yield line

    def _section(self, name: str) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a kind, or of those that share its place."""
        rank = ORDER[name]
        start = self._plan.first.get(rank)
        if start is None:
            return
        for offset, data in self._part.lines(start):
            if ORDER.get(kind_of(data) or "", -1) != rank:
                return
            yield offset, data


def _survey(part: FileSlice, *, sealed: bool) -> _Plan:
    """Read the export once; find out what is where, and whether its last line agrees.

    Raises:
        InvalidRequest: it is no export, or not a whole one.
    """
    survey = _Survey(part)
    for offset, data in part.lines():
        survey.see(offset, data)
    return survey.finish(sealed=sealed)


class _Survey:
    """One pass over an export.  `hash` is that of every line but the newest."""

    def __init__(self, part: FileSlice) -> None:
        self._part = part
        self._hash, self._last = sha256(), b""
        self._header: Header | None = None
        self._rank = -1
        self._counts = dict.fromkeys(Counts.__struct_fields__, 0)
        self._first: dict[int, int] = {}
        self._marks: list[int] = []

    def see(self, offset: int, data: bytes) -> None:
        """Take the next line."""
        kind = kind_of(data)
        if self._header is None:
            self._header = self._read_header(data)
        # Kinds come in one order, and nothing follows the last line.
        elif kind is None or ORDER[kind] < self._rank or not data.endswith(b"\n") or self._rank == ORDER["end"]:
            raise _damaged(self._part, f"{self._place()}, byte {offset}: what follows is no line of an export")
        elif kind in self._counts:
            self._count(kind, offset)
        self._rank = ORDER[kind or "header"]
        self._first.setdefault(self._rank, offset)
        # One line behind: the last line holds the hash of all before it.
        self._hash.update(self._last)
        self._last = data

    def finish(self, *, sealed: bool) -> _Plan:
        """Compare with the last line; without `sealed` not its hash."""
        if self._header is None:
            raise _damaged(self._part, "it is empty")
        if self._rank != ORDER["end"]:
            raise _damaged(self._part, f"it is cut off after {self._place()}")
        with _reading(self._part, "the last line"):
            end = decode(self._last, End)
        # Counts are compared even without the hash: a missing line is always noticed.
        if end.counts != Counts(**self._counts) or end.counts.log != self._header.head - self._header.floor:
            raise _damaged(self._part, "lines are missing: their numbers are not what the first and last line say")
        if sealed and end.sha256 != self._hash.hexdigest():
            raise _damaged(
                self._part, "its bytes are not those that were written: another SHA-256", code="export_altered"
            )
        return _Plan(self._header, end, self._first, self._marks)

    def _read_header(self, data: bytes) -> Header:
        try:
            return decode(data, Header)
        except ValueError:
            raise _damaged(self._part, "it is no export of a ledger that this program knows") from None

    def _count(self, kind: str, offset: int) -> None:
        if kind == "log" and self._counts["log"] % _MARK_EVERY == 0:
            self._marks.append(offset)
        self._counts[kind] += 1

    def _place(self) -> str:
        floor = self._header.floor if self._header else 0
        return f"position {floor + self._counts['log']}" if self._counts["log"] else "the lines before the log"


@contextmanager
def _reading(part: FileSlice, where: str) -> Generator[None]:
    """Say where it was that the bytes were not what they should be."""
    try:
        yield
    except ValueError as fault:
        raise _damaged(part, f"{where}: {fault}") from None


def _damaged(part: FileSlice, why: str, *, code: str = "export_damaged") -> InvalidRequest:
    return InvalidRequest(f"{part.path}: {why}", code=code)
