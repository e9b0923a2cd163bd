"""Canonical bytes and digests: one form for everything that is hashed.  Pure.

The profile is RFC 8785 with less in it: integers within ±2^53-1 and no floats, and keys of ASCII alone, so that the
order of bytes is the order that the RFC asks for.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, TypeGuard

import msgspec

from lifebus_contract.fields import MAX_INTEGER

CANONICAL_PROFILE: Final = "rfc8785-integers-ascii-keys"
"""The name of the form, as pins record it."""

HASH_ALGORITHM: Final = "sha256"
"""The name of the hash, as pins record it."""

_SHORT: Final = 16
_JSON: Final = msgspec.json.Encoder(order="deterministic")


def canonical(value: Any) -> bytes:
    """Return the one JSON text of a plain value: maps, lists, tuples, strings, integers, truth values, null.

    Raises:
        ValueError: a float, an integer beyond ±2^53-1, a key that is not ASCII text, a lone surrogate, anything else
            that is not plain; the text says which.
    """
    _check(value)
    try:
        return _JSON.encode(value)
    # Python holds lone surrogates; UTF-8 cannot.
    except UnicodeEncodeError as fault:
        raise ValueError(f"no canonical form: a lone surrogate in {fault.object[:32]!r}") from None


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 hex digits."""
    return sha256(data).hexdigest()


def consists_of(data: bytes, pieces: Iterable[bytes]) -> bool:
    """Whether bytes are these pieces, one behind the other; none is copied."""
    end = 0
    for piece in pieces:
        if not data.startswith(piece, end):
            return False
        end += len(piece)
    return end == len(data)


def short_hash(data: bytes) -> str:
    """Return the first 16 hex digits of the SHA-256, which name a snapshot or a compaction."""
    return sha256_hex(data)[:_SHORT]


def _check(value: Any) -> None:
    # Before int: a bool is an int as well.
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        # Other readers of JSON have doubles, which hold no larger integer exactly.
        if abs(value) > MAX_INTEGER:
            raise ValueError(f"no canonical form: the integer {value} lies beyond 2^53-1")
    elif _is_map(value):
        for key, item in value.items():
            # RFC 8785 sorts by UTF-16 units and this encoder by bytes; for ASCII both orders agree.
            if not isinstance(key, str) or not key.isascii():
                raise ValueError(f"no canonical form: the key {key!r} is not ASCII text")
            _check(item)
    elif _is_list(value):
        for item in value:
            _check(item)
    else:
        raise ValueError(f"no canonical form: a value of type {type(value).__name__}")


def _is_map(value: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, list | tuple)
