"""From the bytes of a file, in whatever pieces they come, to whole records.  Pure.

How a stream is cut into pieces never matters: the same bytes give the same records and the same count of skipped ones.
"""

import re
from typing import Final, Literal, Protocol

from lifebus_transports.framing.lines import LineFramer

_NEWLINE: Final = b"\n"
_EDGES: Final = b" \t\r\n\0"
"""What surrounds a record and is no part of it: line ends, and the NULs that a crash can leave in a file."""
_INSIDE: Final = rb'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*'
_TEXT: Final = re.compile(_INSIDE)
"""What stands inside a JSON string, as far as it goes: a line end is never part of one."""
_PLAIN: Final = re.compile(rb'[^"{}]*(?:"' + _INSIDE + rb'"[^"{}]*)*')
"""What stands between braces: whole strings, and whatever is outside of strings.

No two ways lead through the same text, so that the plain quantifiers are linear; possessive ones around groups match
wrongly before Python 3.11.5.
"""
_AWAITS_VALUE: Final = frozenset(b"[:,")
_SPACES: Final = frozenset(b" \t\r\n")
_QUOTE, _OPEN, _BACKSLASH = b'"{\\'


class Framer(Protocol):
    """Cuts a growing file into records."""

    @property
    def skipped(self) -> int:
        """How many records were too large."""
        ...

    def feed(self, data: bytes) -> list[bytes]:
        """Return the records that end in `data`, oldest first; what is unfinished is kept for the next time."""
        ...


class RecordLines:
    """One record a line.  Empty lines are nothing; a line of more than `limit` bytes is skipped to its end."""

    def __init__(self, limit: int) -> None:
        self._lines = LineFramer(limit)

    @property
    def skipped(self) -> int:
        """How many lines were too large."""
        return self._lines.overlong

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data` (see `Framer.feed`)."""
        found = (line.strip(_EDGES) for line in self._lines.feed(data) if isinstance(line, bytes))
        return [record for record in found if record]


class RecordObjects:
    """JSON objects one after the other, in any layout.  An object of more than `limit` bytes is skipped to its end.

    A program that dies leaves half an object behind.  The next one is found again where the half one turns out not to
    be JSON: a line end within a string, or a brace where no value can stand.  The half one is handed on as a record,
    for the reader to refuse.  What stands between objects is nothing.
    """

    def __init__(self, limit: int) -> None:
        self.skipped = 0
        self._limit = limit
        self._object = bytearray()
        self._depth = 0
        self._in_text = False
        self._skipping = False
        self._before = 0
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the objects that end in `data` (see `Framer.feed`)."""
        chunk, self._held = self._held + data, b""
        records: list[bytes] = []
        start = position = 0
        while position < len(chunk):
            if self._depth == 0:
                start = chunk.find(b"{", position)
                if start < 0:
                    return records
                self._depth, position = 1, start + 1
                continue
            position, ended = (self._text if self._in_text else self._structure)(chunk, position)
            if ended:
                self._keep(chunk[start:position])
                records += self._finish()
                start = position
        if self._depth:
            self._pause(chunk, start)
        return records

    def _structure(self, chunk: bytes, position: int) -> tuple[int, bool]:
        """Go on to the next brace or unfinished string; return where to go on, and whether the object ended there."""
        at = _end_of(_PLAIN, chunk, position)
        if at == len(chunk):
            return at, False
        if chunk[at] == _QUOTE:
            self._in_text = True
        elif chunk[at] != _OPEN:
            self._depth -= 1
            return at + 1, self._depth == 0
        elif self._last_before(chunk, at) in _AWAITS_VALUE:
            self._depth += 1
        else:
            # A brace where no value can stand begins the next object: a crash left this one unfinished.
            return at, True
        return at + 1, False

    def _text(self, chunk: bytes, position: int) -> tuple[int, bool]:
        """Go on to the end of a string; return where to go on, and whether the object broke off there."""
        at = _end_of(_TEXT, chunk, position)
        if at == len(chunk):
            return at, False
        if chunk[at] == _QUOTE:
            self._in_text = False
            return at + 1, False
        # The escaped character is in the next piece: alone, a quote there would end the string.
        if chunk[at] == _BACKSLASH and at + 1 == len(chunk):
            self._held = chunk[at:]
            return len(chunk), False
        return chunk.index(_NEWLINE, at), True

    def _last_before(self, chunk: bytes, at: int) -> int:
        """Return the last byte before a place that is not a space."""
        at -= 1
        while at >= 0 and chunk[at] in _SPACES:
            at -= 1
        return chunk[at] if at >= 0 else self._before

    def _pause(self, chunk: bytes, start: int) -> None:
        """Keep what there is of an object until more comes."""
        self._keep(chunk[start : len(chunk) - len(self._held)])
        # Whether a brace at the start of the next piece can be a value depends on the last byte of this one.
        self._before = self._last_before(chunk, len(chunk))

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._object += piece
        # Its end is still searched for, but none of it is kept: memory is bounded by one record.
        if len(self._object) > self._limit:
            self.skipped += 1
            self._skipping = True
            self._object.clear()

    def _finish(self) -> list[bytes]:
        """Return the object that ended, unless it is too large, and be ready for the next one."""
        records = [] if self._skipping else [bytes(self._object).strip(_EDGES)]
        self._object.clear()
        self._depth, self._in_text, self._skipping = 0, False, False
        return records


def _end_of(pattern: re.Pattern[bytes], chunk: bytes, position: int) -> int:
    found = pattern.match(chunk, position)
    return found.end() if found else position


def framer_for(form: Literal["lines", "objects"], limit: int) -> Framer:
    """Return a fresh framer for files of a form; records of more than `limit` bytes are skipped."""
    return RecordLines(limit) if form == "lines" else RecordObjects(limit)
