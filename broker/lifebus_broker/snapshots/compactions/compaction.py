"""A compaction: a view derived from the log, which speeds questions up and is never the truth.

See docs/ledger.md, "Compactions".

Its name is a hash of what it is for, which policy made it and of what, so that it is known before it is built.  One
whose name, hash or allow-list does not fit cannot exist.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_broker.canonical_json import canonical, consists_of, sha256_hex, short_hash


class Purpose(StrEnum):
    """What a compaction is for."""

    RECAP = "RECAP"
    SYNOPSIS = "SYNOPSIS"
    SEGMENT_SUMMARY = "SEGMENT_SUMMARY"
    CONTEXT_CACHE = "CONTEXT_CACHE"


class Compaction(Struct, frozen=True, kw_only=True):
    """One derived view.

    `input_handles` name all that it was made of, sorted: pointers into the facts ledger and the log.  `output_bytes` is
    canonical JSON.  `allowmention_handles` are those inputs that clients may learn of; without any, they get nothing.

    Raises:
        ValueError: it is not what its name, its hash or its allow-list says.
    """

    compaction_id: str
    purpose: Purpose
    compaction_policy_id: str
    input_handles: tuple[str, ...]
    output_bytes: bytes
    output_hash: str
    allowmention_handles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.input_handles:
            raise ValueError("a compaction is made of something: it has no input handles")
        # Sorted and unique, because the name is a hash of them.
        if list(self.input_handles) != sorted(set(self.input_handles)):
            raise ValueError("the input handles of a compaction stand in order, each of them once")
        if self.compaction_id != compaction_id_of(self.purpose, self.compaction_policy_id, self.input_handles):
            raise ValueError(f"the compaction `{self.compaction_id[:64]}` has another one's name")
        # Checked in the constructor, so that no unsound compaction can exist in memory either.
        if self.output_hash != sha256_hex(self.output_bytes):
            raise ValueError(f"the output of the compaction {self.compaction_id} is not the one that its hash names")
        if strange := [handle for handle in self.allowmention_handles if handle not in self.input_handles]:
            raise ValueError(f"`{strange[0][:128]}` may not be mentioned: it is no input of the compaction")


def compact(
    purpose: Purpose, policy_id: str, handles: Iterable[str], output: bytes, *, allowmention: Iterable[str] = ()
) -> Compaction:
    """Return the compaction that a policy made of these handles; what may be mentioned has to be said.

    Raises:
        ValueError: there are no handles, or one may be mentioned that is no input.
    """
    inputs = tuple(sorted(set(handles)))
    return Compaction(
        compaction_id=compaction_id_of(purpose, policy_id, inputs),
        purpose=purpose,
        compaction_policy_id=policy_id,
        input_handles=inputs,
        output_bytes=output,
        output_hash=sha256_hex(output),
        allowmention_handles=tuple(sorted(set(allowmention))),
    )


def compaction_id_of(purpose: Purpose, policy_id: str, handles: Iterable[str]) -> str:
    """Return the name of a compaction, which needs no output: two purposes never share one, nor do two policies."""
    inputs = sorted(set(handles))
    # The purpose is part of the name: two views of the same inputs are two compactions.
    named = {"compaction_policy_id": policy_id, "input_handles": inputs, "purpose": purpose.value}
    return short_hash(canonical(named))


def view(compactions: Iterable[Compaction]) -> tuple[Compaction, ...]:
    """Return those that clients may be given: what has no handle that may be mentioned contributes nothing (C4)."""
    return tuple(one for one in compactions if one.allowmention_handles)


class _Stored(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A compaction as a file holds it, its output still as text; the fields in the order of their names."""

    allowmention_handles: tuple[str, ...]
    compaction_id: str
    compaction_policy_id: str
    input_handles: tuple[str, ...]
    output: msgspec.Raw
    output_hash: str
    purpose: Purpose


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder(_Stored)
_PLACE: Final = b'{"output":0}'


def encode_compaction(compaction: Compaction) -> bytes:
    """Return a compaction as one line of canonical JSON, with its output as a part of it."""
    return b"".join(_pieces(compaction, [compaction.output_bytes]))


def encode_large(purpose: Purpose, policy_id: str, handles: Iterable[str], output: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what `encode_compaction` returns of what `compact` makes of the same, in pieces as the output comes."""
    named = compact(purpose, policy_id, handles, b"")
    return _pieces(named, output)


def _pieces(compaction: Compaction, output: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the line of a compaction whose output consists of these pieces."""
    stored = _Stored(
        allowmention_handles=compaction.allowmention_handles,
        compaction_id=compaction.compaction_id,
        compaction_policy_id=compaction.compaction_policy_id,
        input_handles=compaction.input_handles,
        output=msgspec.Raw(_PLACE),
        output_hash="",
        purpose=compaction.purpose,
    )
    # No text can hold its quotes: they are escaped there.
    head, _, tail = _ENCODER.encode(stored).partition(_PLACE + b',"output_hash":"')
    digest = sha256()
    yield head
    # The output is JSON already and goes in as it is; escaped into a string it would double.
    for piece in output:
        digest.update(piece)
        yield piece
    yield b',"output_hash":"' + digest.hexdigest().encode() + tail + b"\n"


def decode_compaction(data: bytes) -> Compaction:
    """Return the compaction that the bytes hold.

    Raises:
        ValueError: the bytes are not exactly what `encode_compaction` writes of a sound one; the text says why.
    """
    try:
        stored = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ValueError(f"not a compaction: {str(fault)[:200]}") from None
    compaction = Compaction(
        compaction_id=stored.compaction_id,
        purpose=stored.purpose,
        compaction_policy_id=stored.compaction_policy_id,
        input_handles=stored.input_handles,
        output_bytes=bytes(stored.output),
        output_hash=stored.output_hash,
        allowmention_handles=stored.allowmention_handles,
    )
    # One form alone, so that equal compactions are equal files.
    if not consists_of(data, _pieces(compaction, [compaction.output_bytes])):
        raise ValueError("not a compaction: its form is not the canonical one")
    return compaction
