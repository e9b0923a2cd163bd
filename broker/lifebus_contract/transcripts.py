"""Transcripts of sessions: entries by message id, and the event of each change; wire types (docs/transcripts.md).

Keys are in camel case wherever an entry goes, because it is part of an event that programs in other languages read.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from lifebus_contract.errors import InvalidRequest, StateConflict
from lifebus_contract.fields import Count, Document, Identifier, refuse_unprintable

MAX_ENTRY_BYTES: Final = 65_536
"""Largest entry, in bytes of JSON; of what an app-server says, content beyond it is left out."""

TRANSCRIPT_UPDATED: Final = "transcript_updated"
"""The event of each change of a transcript."""

TRANSCRIPT_THREAD: Final = "transcript/"
"""What the thread of a transcript's events begins with, among the signals of the adapter ``lifebus``."""

HTTP_STATUSES: Final = {"session_deleted": 410, "no_session": 404, "no_suggested_request": 404}
"""The answers of HTTP to the refusals that have one of their own; every other invalid request is 400."""


class EntryRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class EntryStatus(StrEnum):
    """The status of an entry."""

    STREAMING = "streaming"
    COMPLETE = "complete"
    CANCELED = "canceled"
    ERROR = "error"

    @property
    def is_terminal(self) -> bool:
        """Whether the entry is over: it does not stream again."""
        return self is not EntryStatus.STREAMING


class TranscriptEntry(Document, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of a transcript, and the body of an upsert.  Times are milliseconds since the epoch.

    `type` is a word that the writer chooses (`agentMessage`, `note`).  `details` is free text, often JSON.
    `content_bytes` is the size in bytes of UTF-8 of a content that was too large; `content` is then its beginning.
    """

    message_id: Identifier
    turn_id: Identifier
    role: EntryRole
    type: Identifier
    content: str
    status: EntryStatus
    details: str | None = None
    started_at: Count | None = None
    completed_at: Count | None = None
    content_bytes: Count | None = None

    def __post_init__(self) -> None:
        names = self.message_id, self.turn_id, self.type
        if not "".join(names).isprintable():
            refuse_unprintable(self)
        if names != (stripped := tuple(name.strip() for name in names)):
            if not all(stripped):
                raise ValueError("message_id, turn_id and type must not be blank")
            for field, name in zip(("message_id", "turn_id", "type"), stripped, strict=True):
                # Frozen for everybody else; only here is the entry still being built.
                msgspec.structs.force_setattr(self, field, name)


class SequencedEntry(Struct, frozen=True, rename="camel"):
    """An entry in its place: `sequence` is given when it first comes, and orders the transcript for good."""

    sequence: int
    entry: TranscriptEntry


class TranscriptDelta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the event of a change says; `entry` is the entry as it is now, after the merge."""

    thread_id: str
    turn_id: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    entry: TranscriptEntry | UnsetType = UNSET


class TranscriptUpdated(Struct, frozen=True, kw_only=True, rename="camel"):
    """The event `transcript_updated`."""

    type: Literal["transcript_updated"] = TRANSCRIPT_UPDATED
    thread_id: str
    payload: TranscriptDelta


class TranscriptInfo(Document, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a transcript stands.

    `entries` and `size` (bytes) are those of what is kept; `dropped` counts entries that were dropped for want of room.
    `deleted_at` is when the session was deleted: after that nothing is kept or accepted.  `system_owned` marks a
    session that belongs to a worker of the broker.  Times are in milliseconds since the epoch.
    """

    session_id: Identifier
    entries: Count = 0
    size: Count = 0
    dropped: Count = 0
    updated_at: Count | None = None
    deleted_at: Count | None = None
    system_owned: bool = False


class TranscriptPage(Document, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Entries of a transcript in their order.

    `next` is the sequence after which the next page begins, or None if there are no more.  `through` is the number of
    the last `transcript_updated` that this page includes: a follower that begins after it misses nothing.
    """

    info: TranscriptInfo
    entries: tuple[SequencedEntry, ...] = ()
    next: Annotated[int, Meta(ge=0)] | None = None
    through: Count = 0


def session_deleted(session_id: str) -> StateConflict:
    """Return the refusal of whatever concerns a deleted session."""
    return StateConflict(f"the session {session_id} was deleted", code="session_deleted")


def no_suggested_request(request_key: str) -> InvalidRequest:
    """Return the refusal of a suggested request that nobody has written."""
    return InvalidRequest(f"no suggested request {request_key} is known", code="no_suggested_request")


def no_session(session_id: str) -> InvalidRequest:
    """Return the refusal of whatever concerns a session that nobody has heard of."""
    return InvalidRequest(f"no session {session_id} is known", code="no_session")
