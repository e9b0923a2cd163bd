"""Receipts as text, one by one: short and aligned for people, whole for pipes, canonical for programs."""

import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, TypeVar

import msgspec

from lifebus._internal.view import Gap, Position
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import paint, put, put_bytes
from lifebus.cli.wording.receipt_text import ReceiptText, short_cells
from lifebus_contract import Receipt, encode_json
from lifebus_contract.ids import RECEIPT

T = TypeVar("T")

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_TIME: Final = 10


def gap_text(gap: Gap) -> str:
    """Return what is lost, and why."""
    what = "positions" if gap.thread is None else f"signals of thread {gap.thread or '-'}"
    if gap.until is None:
        return f"gap: the ledger has another history now ({what} after {gap.after}: {gap.reason})"
    return f"gap: {what} {gap.after + 1} to {gap.until} are gone ({gap.reason})"


def milliseconds_of(receipt: Receipt) -> int:
    """Return when a receipt was made, in milliseconds since 1970: its id says them, and its time only the second."""
    digits = receipt.receipt_id.removeprefix(RECEIPT)[:_ULID_TIME]
    if len(digits) == _ULID_TIME and all(digit in _CROCKFORD for digit in digits):
        at_ms = 0
        for digit in digits:
            at_ms = at_ms * 32 + _CROCKFORD.index(digit)
        # Ids of one source ascend also where the clock steps back: then they say another second.
        if at_ms // 1_000 == receipt.at_epoch_s:
            return at_ms
    return receipt.at_epoch_s * 1_000


Form = Literal["columns", "lines", "json"]
"""For people at a terminal, for pipes, for programs."""


def short_line(receipt: Receipt, names: SessionNames | None = None) -> tuple[str, ...]:
    """Return the cells of `COLUMNS`; the time is that of the user's clock."""
    return short_cells(msgspec.to_builtins(receipt), None if names is None else _name_of(receipt, names))


def _name_of(receipt: Receipt, names: SessionNames) -> str | None:
    session = receipt.harness_session_id
    return None if session is None else names.get((receipt.adapter_id, session))


class ReceiptPrinter:
    """Prints receipts and gaps to stdout; `count` says how many receipts there were.

    `names` has what sessions are called, as far as that is known.
    """

    def __init__(self, *, json: bool, names: SessionNames | None = None) -> None:
        self.count = 0
        self._names = names or SessionNames()
        self._text = ReceiptText()
        self.form: Form = "json" if json else "columns" if sys.stdout.isatty() else "lines"

    def show(self, item: Receipt | Gap, cursor: Position | None = None) -> None:
        """Print one item.

        In JSON it is `{"cursor":…,"at_ms":…,"session":…,"receipt":…}`, or `{"cursor":…,"gap":…}`, on one line.
        """
        if isinstance(item, Receipt):
            self.count += 1
        if self.form == "json":
            self._json(item, cursor)
        elif isinstance(item, Gap):
            put(paint(gap_text(item), "yellow"))
        else:
            self._text.show(msgspec.to_builtins(item), _name_of(item, self._names))

    def _json(self, item: Receipt | Gap, cursor: Position | None) -> None:
        """Write the receipt's canonical bytes as they are, so that their digest can be checked."""
        kind, body = ("gap", msgspec.json.encode(item)) if isinstance(item, Gap) else ("receipt", encode_json(item))
        # Joined from bytes: decoding and encoding again would not give the canonical bytes.
        head = b'{"cursor":"%s",' % str(cursor).encode() if cursor is not None else b"{"
        if isinstance(item, Receipt):
            name = msgspec.json.encode(_name_of(item, self._names))
            head += b'"at_ms":%d,"session":%s,' % (milliseconds_of(item), name)
        put_bytes(head + b'"%s":%s}' % (kind.encode(), body))
        sys.stdout.flush()


async def print_each(items: AsyncIterator[T], show: Callable[[T], None]) -> None:
    """Show every item until there is none any more.

    Raises:
        BrokenPipeError: the reader of our pipe went away, which is noticed even while nothing is written.
    """
    import asyncio  # noqa: PLC0415

    import anyio  # noqa: PLC0415

    with anyio.CancelScope() as scope:
        # The writing end counts as readable once its reader has closed: noticed without writing anything.
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            asyncio.get_running_loop().add_reader(1, scope.cancel)
        async for item in items:
            show(item)
    if scope.cancel_called:
        raise BrokenPipeError
