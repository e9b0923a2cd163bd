"""The supplement of a snapshot: what a save keeps beside it, to name what differs (docs/ledger.md, "The supplement").

A snapshot has exactly the fields of its specification.  Its hash of the log says that a line is another one, and no
hash over all of them, nor over the heads of streams, can say which: for that each line has a digest here.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from lifebus_broker.canonical_json import canonical
from lifebus_broker.ledger.log import LogSource
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.revisions import REVISIONS
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_broker.state.stream_digests import NO_LINK
from lifebus_contract import InternalError

DIGEST_BYTES: Final = 4
"""How much of a line's SHA-256 is kept: one changed line in four billion keeps its own by chance."""

MAX_LINES: Final = 2**21
"""Of so many lines, the newest, digests are kept: 8 MiB; more than a ledger of the default size has."""

MAX_SUPPLEMENT_BYTES: Final = MAX_LINES * DIGEST_BYTES + 4096
"""Most bytes of a stored supplement."""

_FORMAT: Final = "lifebus-supplement/1"
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
_Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class StreamHead(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a stream of the journal was: the number of its newest record, 0 where it had none, and the link of that."""

    link: _Hash
    number: _Count


class Supplement(Struct, frozen=True, kw_only=True):
    """What is kept beside the snapshot with this `bytes_hash`.

    `digests` has `DIGEST_BYTES` for each line from position `first` to the last one of the snapshot; `revisions` is
    where the stream of revisions was.
    """

    bytes_hash: str
    first: int
    digests: bytes
    revisions: StreamHead


class _Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a file; `sha256` is that of all its other fields and of the digests, which follow."""

    bytes_hash: _Hash
    first: _Count
    format: str
    lines: _Count
    revisions: StreamHead
    sha256: _Hash


_DECODER: Final = msgspec.json.Decoder(_Header)


def line_digest(encoded: bytes) -> bytes:
    """Return the digest of a line, as `encode_line` writes it."""
    return sha256(encoded).digest()[:DIGEST_BYTES]


def take_supplement(snapshot: SaveSnapshot, digests: bytes, source: LogSource) -> Supplement:
    """Return the supplement of a snapshot, whose newest lines have these digests.

    Raises:
        LifebusError: the journal cannot be read, or a revision does not continue its hash chain.
    """
    kept = digests[-MAX_LINES * DIGEST_BYTES :]
    first = snapshot.timestamp_event_id + 1 - len(kept) // DIGEST_BYTES
    return Supplement(
        bytes_hash=snapshot.bytes_hash, first=first, digests=bytes(kept), revisions=_revisions_head(source)
    )


def encode_supplement(supplement: Supplement) -> bytes:
    """Return what a file holds: a line of canonical JSON, and behind it the digests as they are."""
    header = _header_of(supplement)
    return canonical(header | {"sha256": _hash_of(header, supplement.digests)}) + b"\n" + supplement.digests


def decode_supplement(data: bytes) -> Supplement:
    """Return the supplement that the bytes hold.

    Raises:
        ValueError: the bytes are not exactly what `encode_supplement` writes; the text says why.
    """
    head, _, digests = data.partition(b"\n")
    try:
        stored = _DECODER.decode(head)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ValueError(f"torn or changed: {str(fault)[:200]}") from None
    supplement = Supplement(
        bytes_hash=stored.bytes_hash, first=stored.first, digests=digests, revisions=stored.revisions
    )
    # One comparison for everything: the format, the number of lines, the hash, and the one form of the header.
    if encode_supplement(supplement) != data:
        raise ValueError("torn or changed: its hash does not follow from the rest")
    return supplement


def pinned_revisions(source: LogSource, pinned: Iterator[StreamHead]) -> Iterator[Record]:
    """Yield the revisions in the journal, each of which continues the hash chain, up to what saves have pinned.

    `pinned` is where the stream was at saves of this log, in any order; nothing is read before the first is asked for.

    Raises:
        InternalError: a record is another one than at a save (``ledger_damaged``).
        LifebusError: the journal cannot be read, or a record does not continue the hash chain.
    """
    heads = {head.number: head.link for head in pinned if head.number}
    newest = 0
    for linked in source.chain(REVISIONS):
        newest = linked.record.number
        if heads.pop(newest, linked.link.hex()) != linked.link.hex():
            raise _unlike(f"the revisions up to {newest} are not those that a save has pinned")
        yield linked.record
    # Numbers below the first that is kept are left as well: nobody drops revisions.
    if heads:
        raise _unlike(f"revision {min(heads)} was there at a save, and is missing")


def _revisions_head(source: LogSource) -> StreamHead:
    head = StreamHead(NO_LINK.hex(), 0)
    for linked in source.chain(REVISIONS):
        head = StreamHead(linked.link.hex(), linked.record.number)
    return head


def _header_of(supplement: Supplement) -> dict[str, Any]:
    return {
        "bytes_hash": supplement.bytes_hash,
        "first": supplement.first,
        "format": _FORMAT,
        "lines": len(supplement.digests) // DIGEST_BYTES,
        "revisions": {"link": supplement.revisions.link, "number": supplement.revisions.number},
    }


def _hash_of(header: dict[str, Any], digests: bytes) -> str:
    hashed = sha256(canonical(header))
    hashed.update(digests)
    return hashed.hexdigest()


def _unlike(why: str) -> InternalError:
    return InternalError(f"notes `{REVISIONS}`: {why}", code="ledger_damaged")
