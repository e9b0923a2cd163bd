"""Receipts for people and pipes: aligned columns on a terminal, else whole lines; of their plain values."""

import sys
from time import localtime, strftime

from lifebus.cli.terminal import clean, paint, put, status_color, terminal_columns
from lifebus.cli.wording.receipt_line import YEAR_10000, sequence_text
from lifebus.cli.wording.receipt_words import note_of, session_label, whole_line

TYPE_CHECKING = False  # `lifebus emit` prints its receipt before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Mapping
    from time import struct_time
    from typing import Any

    Plain = Mapping[str, Any]

COLUMNS = (("time", 8), ("session", 13), ("seq", 4), ("event", 25), ("status", 9), ("note", 16))
"""The columns of a short line with their widths: 80 with one space between."""

_WIDTHS = tuple(width for _, width in COLUMNS)
_NARROW = sum(_WIDTHS[:5]) + 5 + 8
"""Columns of a terminal from which on a receipt has one line; on a narrower one it has two."""


class ReceiptText:
    """Prints receipts to stdout, in columns if that is a terminal."""

    def __init__(self) -> None:
        self._in_columns = sys.stdout.isatty()
        self._is_first = True
        self._day = localtime()[:3]

    def show(self, receipt: "Plain", name: str | None = None) -> None:
        """Print a receipt; `name` is the short name of its session."""
        if self._in_columns:
            self._columns(receipt, name)
        else:
            put(clean(whole_line(receipt, name)))

    def _columns(self, receipt: "Plain", name: str | None) -> None:
        width = terminal_columns()
        if self._is_first and width >= _NARROW:
            put(paint(" ".join(title.ljust(width) for title, width in COLUMNS).rstrip(), "bold"))
        self._is_first = False
        # The column has the time of day: of another day than today, and of each that follows, the date is said once.
        at = _local(receipt)
        if at is not None and at[:3] != self._day:
            self._day = at[:3]
            put(paint(strftime("%Y-%m-%d", at), "dim"))
        cells = tuple(clean(cell) for cell in short_cells(receipt, name))
        put(_row(cells, width) if width >= _NARROW else _two_lines(cells, width))


def _row(cells: "tuple[str, ...]", width: int) -> str:
    clock, session, sequence, event, status, note = cells
    color = status_color(status)
    shown = [
        paint(clock.ljust(_WIDTHS[0]), "dim"),
        session.ljust(_WIDTHS[1]),
        sequence.rjust(_WIDTHS[2]),
        event.ljust(_WIDTHS[3]),
        paint(status.ljust(_WIDTHS[4]), color),
        paint(_cut(note, width - sum(_WIDTHS[:5]) - 5), color or "dim"),
    ]
    return " ".join(shown).rstrip()


def _two_lines(cells: "tuple[str, ...]", width: int) -> str:
    clock, session, sequence, event, status, note = cells
    room = max(1, width - _WIDTHS[0] - 1)
    first = f"{paint(clock.ljust(_WIDTHS[0]), 'dim')} {_cut(f'{session} {event}', room)}"
    second = paint(_cut(f"{sequence} {status} {note}".rstrip(), room), status_color(status))
    return f"{first}\n{' ' * (_WIDTHS[0] + 1)}{second}"


def short_cells(receipt: "Plain", name: str | None) -> tuple[str, ...]:
    """Return the cells of `COLUMNS`; the time is that of the user's clock."""
    at = _local(receipt)
    clock = "-" if at is None else strftime("%H:%M:%S", at)
    sequence = sequence_text(receipt["sequence"])
    return clock, session_label(receipt, name), sequence, receipt["event"], receipt["status"], note_of(receipt)


def _local(receipt: "Plain") -> "struct_time | None":
    """Return the receipt's time on the user's clock; None beyond the year 9999."""
    seconds: int = receipt["at_epoch_s"]
    return localtime(seconds) if seconds < YEAR_10000 else None


def _cut(text: str, room: int) -> str:
    """Return what of a text has room, with a sign: what ends in the middle of a word would look whole."""
    return text if len(text) <= room else text[: room - 1] + "…"
