"""The base struct and the constrained field types that every wire type is made of."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract.vocabulary import CONTRACT_VERSION

MAX_MESSAGE_BYTES: Final = 262_144
"""Largest document or message, in bytes (docs/contract.md 1.3)."""

MAX_DEPTH: Final = 32
"""Deepest nesting of maps and lists in a document (docs/contract.md 1.3)."""

MAX_INTEGER: Final = 2**53 - 1
"""Largest magnitude of an integer, so that every JSON reader agrees (docs/contract.md 1.3)."""

Identifier = Annotated[str, Meta(min_length=1, max_length=256)]
"""A non-empty identifier of up to 256 characters (docs/contract.md 1.2); `refuse_unprintable` checks the characters."""

Label = Annotated[str, Meta(min_length=1, max_length=256)]
"""Short text for people."""

Detail = Annotated[str, Meta(max_length=1024)]
"""Free text of up to 1,024 characters: evidence, messages (docs/contract.md 1.3)."""

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
"""`sha256:` and 64 lower-case hex digits."""

OwnerDigest = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*:[0-9A-Fa-f]+$(?!\n)", max_length=1024)]
"""`algorithm:hex` of any algorithm and length: a digest that lifebus carries and never computes."""

Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
"""A non-negative integer that every JSON reader can hold."""

FactKey = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]*$(?!\n)", max_length=64)]
"""A key of `telemetry_summary`: lower-case ASCII, so that byte order is RFC 8785 order."""

FactValue = Annotated[str, Meta(max_length=1024)] | Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)] | bool | None
"""A value of `telemetry_summary`: bounded text, an integer, a truth value or null; never a float.

See docs/contract.md 1.4.
"""

Metadata = dict[str, Any]
"""Correlation data of a client: echoed, never interpreted (docs/contract.md 1.2)."""

SchemaVersion = Literal["lifeloop.v0.2"]
"""The contract version as it is written (docs/contract.md 1.1)."""

VersionOrOne = Literal["lifeloop.v0.2", 1]
"""The contract version as payloads and receipts may carry it: the integer 1 is read as the same.

See docs/contract.md 1.1.
"""


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every wire type: immutable, keyword-only, unknown keys refused by name."""


def normalise_version(document: Document) -> None:
    """Replace the integer 1 of older examples by the version string (docs/contract.md 1.1).

    Called from `__post_init__` of payload envelopes and receipts, before anybody else holds the document.
    """
    # Frozen for everybody else; only here is the document still being built.
    msgspec.structs.force_setattr(document, "schema_version", CONTRACT_VERSION)


def refuse_unprintable(document: Document) -> None:
    """Refuse the text of a document that holds control characters; identifiers go into topics, logs and terminals.

    Called after one test of the joined identifiers has found some: that test costs a twentieth of a pattern a field.

    Raises:
        ValueError: always; msgspec adds the path.
    """
    texts = {name: getattr(document, name) for name in document.__struct_fields__ if name != "body"}
    guilty = next(
        (name for name, text in texts.items() if isinstance(text, str) and not text.isprintable()), "document"
    )
    raise ValueError(f"{guilty}: must not hold control or unprintable characters")
