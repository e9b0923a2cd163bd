"""Receipts of a broker or of a ledger file, page by page, and which of them are meant."""

from collections.abc import AsyncIterator, Callable, Sequence
from json import dumps
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from lifebus.cli.selection import ReceiptChoice

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_transports.messages.reads import Backfill

Keep = Callable[[bytes], bool]
"""Whether a receipt is meant, by its bytes."""

_WINDOW: Final = 1_024


class PlacedReceipt(Protocol):
    """A receipt as canonical JSON, and its place in the ledger."""

    @property
    def position(self) -> int:
        """Its place."""
        ...

    @property
    def receipt(self) -> bytes:
        """Its canonical JSON."""
        ...


class ReceiptPage(Struct, frozen=True):
    """Receipts in order; of those that are meant none up to `next` is missing but what was pruned, up to `floor`."""

    epoch: str
    rows: Sequence[PlacedReceipt]
    next: int
    floor: int


def keeper(choice: ReceiptChoice) -> Keep:
    """Return what tells from its bytes whether a receipt is meant, among those that a ledger's answer has."""
    if choice.is_asked_in_full:
        return lambda _: True
    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415

    # Most receipts are of no payload at all: the bytes are searched first.
    part = b"" if choice.payload is None else dumps(choice.payload, ensure_ascii=False).encode()
    return lambda receipt: part in receipt and choice.includes(decode_recorded(receipt))


async def pages_after(bus: "Bus", query: "Backfill", after: int) -> "AsyncIterator[ReceiptPage]":
    """Yield the pages after a position up to the newest receipt."""
    from msgspec.structs import replace  # noqa: PLC0415

    while True:
        page = await bus.read(replace(query, after=after, limit=1024))
        # Receipts may be pruned while the pages are read: then reading goes on at the new floor.
        after = max(page.next, page.floor)
        yield ReceiptPage(page.epoch, page.rows, after, page.floor)
        if page.complete:
            return


async def receipts_after(bus: "Bus", query: "Backfill", after: int, keep: Keep) -> "AsyncIterator[PlacedReceipt]":
    """Yield the receipts after a position up to the newest."""
    async for page in pages_after(bus, query, after):
        for one in page.rows:
            if keep(one.receipt):
                yield one


async def newest(
    bus: "Bus", query: "Backfill", count: int, keep: Keep
) -> "tuple[tuple[str, int], list[PlacedReceipt]]":
    """Return where the ledger ends, and the last receipts that are meant, reading further back in growing steps."""
    ledger = (await bus.status()).ledger
    window = max(count, _WINDOW)
    while True:
        after = max(ledger.floor, ledger.head - window)
        found = [one async for one in receipts_after(bus, query, after, keep)]
        if len(found) >= count or after == ledger.floor:
            return (ledger.epoch, ledger.head), found[-count:]
        # Growing steps: a filter that matches seldom needs few requests, and a common one reads little.
        window *= 8
