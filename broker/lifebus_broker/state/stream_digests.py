"""The facts ledger: for each stream how far it is, and one hash that depends on every byte of its receipts.

The writer numbers and links receipts by the same two functions, and the check of a ledger file uses them as well.
No clock, no randomness, no iteration order: the same log always gives the same state (docs/ledger.md, "State").
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from heapq import merge
from itertools import islice
from typing import Final, Self

import msgspec
from msgspec import Struct

from lifebus_broker.state.receipt_view import BrokenLog, ReceiptLike
from lifebus_broker.state.sealed import NewItems, SealedInMemory, SealedItem

StreamKey = tuple[str, str | None]
"""(adapter_id, harness_session_id): one chain of receipts; receipts without a session share one chain per adapter."""

_LINK_BYTES: Final = 32

# For more bytes than this hashlib gives up the interpreter's lock, which costs more than the hash itself.
_MAX_LOCKED_BYTES: Final = 2047

NO_LINK: Final = bytes(_LINK_BYTES)
"""What the first receipt of a stream is linked to."""

_ENCODE: Final = msgspec.json.Encoder().encode

# Streams of a dump that are kept at once
_PIECE: Final = 1_024


def sequence_after(previous: int, session: str | None) -> int | None:
    """Return the sequence of a stream's next receipt; None without a session (docs/contract.md 6.3)."""
    return None if session is None else previous + 1


def link_after(previous: bytes, receipt: bytes) -> bytes:
    """Return the link of a row: sha256(previous ‖ row) (docs/ledger.md D4)."""
    if len(receipt) < _MAX_LOCKED_BYTES - _LINK_BYTES:
        return sha256(previous + receipt).digest()
    link = sha256(previous)
    for start in range(0, len(receipt), _MAX_LOCKED_BYTES):
        link.update(receipt[start : start + _MAX_LOCKED_BYTES])
    return link.digest()


class Stream(Struct, frozen=True, gc=False):
    """The newest receipt of a stream: its position, sequence (0 without a session) and link."""

    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK


NO_RECEIPT: Final = Stream()
"""A stream before its first receipt."""


class _DumpedStream(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A stream in a dump."""

    adapter_id: str
    session: str | None
    link: str
    position: int
    sequence: int


_DECODER: Final = msgspec.json.Decoder(_DumpedStream)
_SEAL: Final = msgspec.msgpack.Encoder().encode
_UNSEAL: Final = msgspec.msgpack.Decoder(Stream).decode


class FactsLedger:
    """Every stream there ever was.

    Those of sessions that ended are sealed: kept as bytes, where `new_items` keeps them.  `streams` are the others.
    """

    def __init__(self, new_items: NewItems = SealedInMemory) -> None:
        self.streams: dict[StreamKey, Stream] = {}
        self.sealed = new_items()

    def __len__(self) -> int:
        """Return how many streams there are."""
        return len(self.streams) + len(self.sealed)

    def get(self, key: StreamKey) -> Stream:
        """Return where a stream is, `NO_RECEIPT` where there is none."""
        stream = self.streams.get(key)
        if stream is not None or key[1] is None:
            return stream or NO_RECEIPT
        sealed = self.sealed.get((key[0], key[1]))
        return NO_RECEIPT if sealed is None else _UNSEAL(sealed)

    def items(self) -> Iterator[tuple[StreamKey, Stream]]:
        """Yield every stream; those that got receipts last are among the first."""
        yield from self.streams.items()
        for key, sealed in self.sealed.in_order():
            yield key, _UNSEAL(sealed)

    def equals(self, heads: Mapping[StreamKey, Stream]) -> bool:
        """Whether these are the streams, and where they are."""
        return len(self) == len(heads) and all(heads.get(key) == stream for key, stream in self.items())

    def seal(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Seal the streams of some sessions, which have receipts."""
        self.sealed.put([(key, _SEAL(self.streams.pop(key))) for key in sessions])

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)()
        other.streams, other.sealed = dict(self.streams), self.sealed.copy()
        return other

    def apply(self, position: int, encoded: bytes, receipt: ReceiptLike, link: str) -> None:
        """Apply the next receipt, whose bytes are `encoded`; `link` is the one that the log has for it.

        Raises:
            BrokenLog: sequence or link are not those that follow; nothing was changed.
        """
        # Compared before anything is stored, so that a broken log changes nothing.
        key = (receipt.adapter_id, receipt.harness_session_id)
        before = self.get(key)
        sequence = sequence_after(before.sequence, receipt.harness_session_id)
        # Only from the first receipt on: a stream that has numbers never loses them.
        if receipt.sequence is None and not before.sequence:
            sequence = None  # a ledger without a disk numbers nothing (docs/contract.md 6.3)
        if receipt.sequence != sequence:
            raise BrokenLog(position, f"has the sequence {receipt.sequence}, and {sequence} follows")
        after = link_after(before.link, encoded)
        if after.hex() != link:
            raise BrokenLog(position, "its link (hash chain) does not follow from the receipt and the link before")
        if key not in self.streams:
            if before.position:
                self.sealed.drop((receipt.adapter_id, receipt.harness_session_id or ""))
            # one text for all streams of an adapter
            key = (sys.intern(receipt.adapter_id), receipt.harness_session_id)
        self.streams[key] = Stream(position, sequence or 0, after)

    def dump(self) -> Iterator[bytes]:
        """Yield each stream as canonical JSON, by adapter and session."""
        here = ((_order(key), key, self.streams[key]) for key in sorted(self.streams, key=_order))
        sealed = ((key, key, _UNSEAL(item)) for key, item in self.sealed.in_order())
        for _, (adapter_id, session), stream in merge(here, sealed, key=_first):
            yield _ENCODE(_DumpedStream(adapter_id, session, stream.link.hex(), stream.position, stream.sequence))

    def load(self, items: Iterable[msgspec.Raw]) -> None:
        """Add the streams of a dump; they are sealed until they get another receipt.

        Raises:
            msgspec.DecodeError, ValueError: an item is not one that `dump` yields.
        """
        sealed = self._load_other(items)
        while some := list(islice(sealed, _PIECE)):
            self.sealed.put(some)

    def _load_other(self, items: Iterable[msgspec.Raw]) -> Iterator[SealedItem]:
        """Add the streams of a dump that are of no session, and yield the others."""
        for item in items:
            one = _DECODER.decode(item)
            stream = Stream(one.position, one.sequence, bytes.fromhex(one.link))
            if one.session is None:
                self.streams[sys.intern(one.adapter_id), None] = stream
            else:
                yield (one.adapter_id, one.session), _SEAL(stream)


def _first(item: tuple[tuple[str, str], StreamKey, Stream]) -> tuple[str, str]:
    return item[0]


def _order(key: StreamKey) -> tuple[str, str]:
    return key[0], key[1] or ""
