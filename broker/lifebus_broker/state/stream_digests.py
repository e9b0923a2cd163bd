"""The facts ledger: for each stream how far it is, and one hash that commits to every byte of its receipts.

The writer numbers and links receipts by the same two functions, and the check of a ledger file uses them as well.
No clock, no randomness, no iteration order: the same log always gives the same state (docs/ledger.md, "State").
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, Self

import msgspec
from msgspec import Struct

from lifebus_broker.state.receipt_view import BrokenLog, ReceiptLike

StreamKey = tuple[str, str | None]
"""(adapter_id, harness_session_id): one chain of receipts; those without a session share one an adapter."""

_LINK_BYTES: Final = 32

_UNLOCKED: Final = 2047
"""Most bytes that hashlib takes without giving up the interpreter's lock, which costs more than the hash."""

NO_LINK: Final = bytes(_LINK_BYTES)
"""What the first receipt of a stream is linked to."""

_ENCODE: Final = msgspec.json.Encoder().encode


def sequence_after(previous: int, session: str | None) -> int | None:
    """Return the sequence of a stream's next receipt; None without a session (docs/contract.md 6.3)."""
    return None if session is None else previous + 1


def link_after(previous: bytes, receipt: bytes) -> bytes:
    """Return the link of a row: sha256(previous ‖ row) (docs/ledger.md D4)."""
    if len(receipt) < _UNLOCKED - _LINK_BYTES:
        return sha256(previous + receipt).digest()
    link = sha256(previous)
    for start in range(0, len(receipt), _UNLOCKED):
        link.update(receipt[start : start + _UNLOCKED])
    return link.digest()


class Stream(Struct, frozen=True, gc=False):
    """How far a stream is: its newest position, sequence (0 without a session) and link."""

    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK


NO_RECEIPT: Final = Stream()
"""A stream before its first receipt."""


class _Saved(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A stream in a dump."""

    adapter_id: str
    session: str | None
    link: str
    position: int
    sequence: int


class FactsLedger:
    """Every stream there ever was.  Grows with the number of sessions, never with that of their receipts."""

    def __init__(self) -> None:
        self.streams: dict[StreamKey, Stream] = {}

    def copy(self) -> Self:
        """Return a ledger of its own that says the same."""
        other = type(self)()
        other.streams = dict(self.streams)
        return other

    def extend(self, position: int, receipt: bytes, told: ReceiptLike, link: str) -> None:
        """Take one more receipt; `link` is the one that the log has for it.

        Raises:
            BrokenLog: sequence or link are not those that follow; nothing was changed.
        """
        key = (told.adapter_id, told.harness_session_id)
        before = self.streams.get(key, NO_RECEIPT)
        sequence = sequence_after(before.sequence, told.harness_session_id)
        if told.sequence is None and not before.sequence:
            sequence = None  # a ledger without a disk numbers nothing (docs/contract.md 6.3)
        if told.sequence != sequence:
            raise BrokenLog(position, f"has the sequence {told.sequence}, and {sequence} follows")
        after = link_after(before.link, receipt)
        if after.hex() != link:
            raise BrokenLog(position, "its link (hash chain) does not follow from the receipt and the link before")
        self.streams[key] = Stream(position, sequence or 0, after)

    def saved(self) -> Iterator[bytes]:
        """Yield each stream as canonical JSON, by adapter and session."""
        for adapter_id, session in sorted(self.streams, key=_order):
            stream = self.streams[adapter_id, session]
            yield _ENCODE(_Saved(adapter_id, session, stream.link.hex(), stream.position, stream.sequence))

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Take over the streams of a dump.

        Raises:
            msgspec.DecodeError, ValueError: an item is none of `saved`.
        """
        for item in items:
            one = _SAVED.decode(item)
            self.streams[one.adapter_id, one.session] = Stream(one.position, one.sequence, bytes.fromhex(one.link))


_SAVED: Final = msgspec.json.Decoder(_Saved)


def _order(key: StreamKey) -> tuple[str, str]:
    return key[0], key[1] or ""
