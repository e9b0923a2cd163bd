"""The record of one renewal: the client's opaque token, for which thread, and how far it has come.  Pure."""

from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from lifebus_contract import CallbackRequest
from lifebus_contract.fields import Count, Detail, Identifier
from lifebus_supervisor.renewal.profile import MAX_TOKEN_BYTES

MAX_RECORD_BYTES: Final = 8 * MAX_TOKEN_BYTES
"""Largest file of a record: JSON writes some characters as six."""


class ContinuationState(StrEnum):
    """How far a renewal has come; the last three hold no token any more."""

    PREPARING = "preparing"
    """The client is asked for a token, under the record's `payload_id`."""
    PENDING = "pending"
    """The token waits for the next session start."""
    CLAIMED = "claimed"
    """A session has the token; whether the client has used it is not known yet."""
    CONSUMED = "consumed"
    REJECTED = "rejected"
    EXPIRED = "expired"


LIVE: Final = frozenset({ContinuationState.PENDING, ContinuationState.CLAIMED})
"""The states that hold a token."""


class Continuation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One renewal.  Times are wall-clock seconds; `size` is that of the token in UTF-8 bytes.

    `session` and `cwd` are those in which it was prepared, `claimed_by` is the session that got the token, under
    `claim_id`, `handed_over` times so far.  `prepared_at` and `claimed_at` are the hooks' requests, for the receipts.
    The record holds a token and never shows it: its `repr` leaves it out.
    """

    payload_id: Identifier
    profile: Identifier
    client_id: Identifier
    adapter_id: Identifier
    state: ContinuationState
    created_at: Count
    expires_at: Count
    version: Literal[1] = 1
    thread: Identifier | None = None
    session: Identifier | None = None
    cwd: str | None = None
    token: str | None = None
    size: Count = 0
    claim_id: Identifier | None = None
    claimed_by: Identifier | None = None
    handed_over: Count = 0
    ended_at: Count | None = None
    note: Detail | None = None
    prepared_at: CallbackRequest | None = None
    claimed_at: CallbackRequest | None = None

    def __repr__(self) -> str:
        return f"<Continuation {self.payload_id} {self.state.value} {self.size} bytes>"

    @property
    def slot(self) -> str:
        """The name that only one record has: that of its thread, before it has one that of its session."""
        # a thread is known only from the client's answer: until then there is one record a session
        about = ("thread", self.thread) if self.thread is not None else ("session", self.adapter_id, self.session)
        return sha256("\0".join([self.profile, *(part or "" for part in about)]).encode()).hexdigest()[:32]

    def is_expired(self, now: int) -> bool:
        """Whether it has expired: at the second that it names."""
        return now >= self.expires_at

    def ended(self, state: ContinuationState, at: int, note: str | None = None) -> "Continuation":
        """Return what is left of it: everything but the token."""
        # an ended record holds nothing worth stealing
        return structs.replace(self, state=state, token=None, ended_at=at, note=None if note is None else note[:1024])


def encode_record(record: Continuation) -> bytes:
    """Return a record as a file holds it."""
    return msgspec.json.encode(record) + b"\n"


def decode_record(data: bytes) -> Continuation | None:
    """Return the record in a file, None where there is none that can be read."""
    try:
        return msgspec.json.decode(data, type=Continuation)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
