"""Printing receipts one by one, in the form that the reader wants."""

import os
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, TypeVar

import msgspec

from lifebus._internal.view import Gap, Position
from lifebus.cli.read.receipt_text import COLUMNS, gap_text, short_line, whole_line
from lifebus.cli.terminal import clean, paint, put, put_bytes, status_color
from lifebus_contract import Receipt, encode_json

T = TypeVar("T")

Form = Literal["columns", "lines", "json"]
"""For people at a terminal, for pipes, for programs."""

_WIDTHS: Final = tuple(width for _, width in COLUMNS)


class ReceiptPrinter:
    """Prints receipts and gaps to stdout; `count` says how many receipts there were."""

    def __init__(self, *, json: bool) -> None:
        self.count = 0
        self.form: Form = "json" if json else "columns" if sys.stdout.isatty() else "lines"

    def show(self, item: Receipt | Gap, cursor: Position | None = None) -> None:
        """Print one item.  In JSON it is `{"cursor":…,"receipt":…}`, or `{"cursor":…,"gap":…}`, on one line."""
        if isinstance(item, Receipt):
            self.count += 1
        if self.form == "json":
            self._json(item, cursor)
        elif isinstance(item, Gap):
            put(paint(gap_text(item), "yellow"))
        elif self.form == "lines":
            put(clean(whole_line(item)))
        else:
            self._columns(item)

    def _json(self, item: Receipt | Gap, cursor: Position | None) -> None:
        """Write the receipt's canonical bytes as they are, so that their digest can be checked."""
        kind, body = ("gap", msgspec.json.encode(item)) if isinstance(item, Gap) else ("receipt", encode_json(item))
        head = b'{"cursor":"%s",' % str(cursor).encode() if cursor is not None else b"{"
        put_bytes(head + b'"%s":%s}' % (kind.encode(), body))
        sys.stdout.flush()

    def _columns(self, receipt: Receipt) -> None:
        if self.count == 1:
            titles = (title.ljust(width) for title, width in COLUMNS)
            put(paint(" ".join(titles).rstrip(), "bold"))
        session, sequence, event, status, note = (clean(cell) for cell in short_line(receipt))
        color = status_color(receipt.status.value)
        room = max(8, shutil.get_terminal_size().columns - sum(_WIDTHS[:4]) - 4)
        note = note if len(note) <= room else note[: room - 1] + "…"
        cells = [
            session.ljust(_WIDTHS[0]),
            sequence.rjust(_WIDTHS[1]),
            event.ljust(_WIDTHS[2]),
            paint(status.ljust(_WIDTHS[3]), color),
            paint(note, color or "dim"),
        ]
        put(" ".join(cells).rstrip())


async def print_each(items: AsyncIterator[T], show: Callable[[T], None]) -> None:
    """Show every item until there is none any more.

    Raises:
        BrokenPipeError: the reader of our pipe went away, which is noticed even while nothing is written.
    """
    import asyncio  # noqa: PLC0415

    import anyio  # noqa: PLC0415

    with anyio.CancelScope() as scope:
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            asyncio.get_running_loop().add_reader(1, scope.cancel)
        async for item in items:
            show(item)
    if scope.cancel_called:
        raise BrokenPipeError
