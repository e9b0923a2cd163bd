"""What is recorded of a transcript: one stream of the journal for each session, reduced by `state`.  Pure.

Each record is one MessagePack map with its kind under ``kind``.  An entry is written as it is after the merge, so that
a record may be read twice, and one that is written again later stands for the earlier one.
"""

from typing import Final

import msgspec
from msgspec import Struct

from lifebus_contract.jobs import Suggestion
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.transcripts.rules.merging import entry_size

STREAM: Final = "transcript/"
"""What the names of the streams begin with; the session's id follows."""


class StoredEntry(Struct, frozen=True, array_like=True):
    """An entry in its place.

    `filled` says that it is an item of an app-server; `torn` that signals about it were lost, so that text which comes
    now cannot be put behind what is there.  `cut_off` says that the end of its session ended it: text that was said
    before and comes late is still put behind what is there.
    """

    sequence: int
    entry: TranscriptEntry
    filled: bool = False
    torn: bool = False
    cut_off: bool = False


class FilledThrough(Struct, frozen=True, array_like=True):
    """Up to which signal of its thread a transcript is filled; the numbers are of one `epoch`."""

    epoch: str
    number: int


Filled = dict[str, FilledThrough]
"""By adapter."""


class EntriesPut(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="put"):
    """Entries are there, or changed.  `filled` is all that is known of it from here on."""

    at_ms: int
    entries: tuple[StoredEntry, ...] = ()
    filled: Filled = {}


class EntriesDropped(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="dropped"):
    """The entries up to a sequence are not kept any more; `count` is how many that were in all."""

    at_ms: int
    through: int
    count: int
    filled: Filled = {}


class SuggestionPut(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="suggestion"):
    """A suggested request is there, or changed."""

    at_ms: int
    suggestion: Suggestion
    filled: Filled = {}


TranscriptRecord = EntriesPut | EntriesDropped | SuggestionPut
"""A record of a transcript."""

_RECORD_BYTES: Final = 262_144
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[TranscriptRecord]] = msgspec.msgpack.Decoder(TranscriptRecord)


def encode_record(record: TranscriptRecord) -> bytes:
    """Return the body of a record."""
    return _ENCODER.encode(record)


def decode_record(body: bytes) -> TranscriptRecord:
    """Return the record that a body holds.

    Raises:
        msgspec.DecodeError: it is no record that this program knows.
    """
    return _DECODER.decode(body)


def transcript_stream(session_id: str) -> str:
    """Return the stream of the journal that holds a session's transcript."""
    return STREAM + session_id


def parts_of(entries: tuple[StoredEntry, ...]) -> list[tuple[StoredEntry, ...]]:
    """Return entries in parts, each small enough for one record."""
    parts: list[list[StoredEntry]] = []
    size = _RECORD_BYTES
    for one in entries:
        size += entry_size(one.entry)
        if size > _RECORD_BYTES:
            parts.append([])
            size = entry_size(one.entry)
        parts[-1].append(one)
    return [tuple(part) for part in parts]
