"""Short checksums over what no hash chain covers: a flipped bit is seen, whoever reads (docs/ledger.md D3)."""

from typing import Final
from zlib import crc32

import msgspec

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_BYTES: Final = 4


def checksum(*values: object) -> int:
    """Return the CRC-32 of integers, texts, bytes and nulls; their order, types and borders count."""
    return crc32(_ENCODE(values))


def guarded(key: str, digest: bytes, position: int) -> bytes:
    """Return what is stored as the digest of a key: the digest, and four bytes over key, digest and position."""
    return digest + crc32(_ENCODE((key, digest, position))).to_bytes(_BYTES)


def unguarded(key: str, stored: object, position: object) -> bytes | None:
    """Return the digest that was stored for a key, None when key, digest or position are not what was written."""
    # of another storage class: whoever changed it did not write it
    if not isinstance(stored, bytes) or not isinstance(position, int):
        return None
    # position and key count as well: a swapped pair of rows must not pass
    digest = stored[:-_BYTES]
    return digest if guarded(key, digest, position) == stored else None
