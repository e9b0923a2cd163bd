"""What is recorded of an idempotency key: a stream of the journal, whose last record says how it stands.  Pure.

The stream is named by the digest of the key.  Beside it the stream `actions` has the digests in the order in which the
keys first came: what is forgotten goes by it.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_contract.extensions import ActionOutcome

STREAM: Final = "action/"
"""What the names of the keys' streams begin with."""

ORDER: Final = "actions"
"""The stream of the keys' digests, as bytes."""


class ActionBegun(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="begun"):
    """An action is being done from here on; nothing says yet that it was.

    `asked` is who was about to do it, where that is not the broker itself.
    """

    at_ms: int
    signature: str
    action_type: str
    requested_by: str
    asked: str | None = None


class ActionSettled(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="settled"):
    """What the key stands for: whoever comes with it again is told `outcome`."""

    at_ms: int
    signature: str
    action_type: str
    requested_by: str
    outcome: ActionOutcome


class ActionFreed(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="freed"):
    """The action was not done, and the key may be used again."""

    at_ms: int


ActionRecord = ActionBegun | ActionSettled | ActionFreed
"""A record of a key."""


class KeyState(Struct, frozen=True):
    """How a key stands that is not free: for which request, and what became of it; None where nothing says so.

    `asked` is who had it last, where that is known.
    """

    signature: str
    outcome: ActionOutcome | None
    asked: str | None = None


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[ActionRecord]] = msgspec.msgpack.Decoder(ActionRecord)


def encode_record(record: ActionRecord) -> bytes:
    """Return the body of a record."""
    return _ENCODER.encode(record)


def decode_record(body: bytes) -> ActionRecord:
    """Return the record that a body holds.

    Raises:
        msgspec.DecodeError: it is no record that this program knows.
    """
    return _DECODER.decode(body)


def reduce_key(records: Iterable[ActionRecord]) -> KeyState | None:
    """Return how a key stands after these records; None where it is free."""
    state: KeyState | None = None
    for record in records:
        match record:
            case ActionBegun(signature=signature, asked=asked):
                state = KeyState(signature, None, asked)
            case ActionSettled(signature=signature, outcome=outcome):
                state = KeyState(signature, outcome)
            case ActionFreed():
                state = None
    return state


def digest_of_key(key: str) -> str:
    """Return the digest by which a key is known, as hex digits."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def stream_of(digest: str) -> str:
    """Return the stream of a key."""
    return STREAM + digest
