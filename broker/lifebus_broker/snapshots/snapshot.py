"""SaveSnapshot: what the ledger's state was at a boundary, as digests and pointers (docs/ledger.md, "Snapshots").

A snapshot holds no wall clock and no copy of a store, so the same boundary always gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from lifebus_broker.canonical_json import canonical, sha256_hex, short_hash
from lifebus_broker.snapshots.frozen import FrozenMap, freeze_map, thaw

MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a stored snapshot; one campaign of a million sessions takes 20 million."""

# What follows from the other fields is no part of what is hashed.
_DERIVED: Final = ("snapshot_id", "canonical_bytes", "bytes_hash")


class SaveType(StrEnum):
    """The save boundaries, each a superset of the one before (docs/ledger.md, "Snapshots")."""

    SCENE = "SCENE"
    SESSION = "SESSION"
    CAMPAIGN = "CAMPAIGN"


class SaveSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot's fields, frozen all the way down (docs/ledger.md, "Snapshots").

    `timestamp_event_id` is the position that the state is of; `event_log_range` is (first, last), both within, and
    (N + 1, N) where nothing is.  Digests and hashes are 64 hex digits.  `canonical_bytes` is the canonical JSON of
    all fields but itself, `bytes_hash`, its SHA-256, and `snapshot_id`, the first 16 digits of that.
    """

    snapshot_id: str
    save_type: SaveType
    timestamp_event_id: int
    facts_ledger_digest: str
    unlock_state_digest: str
    story_state_digest: str
    working_set_digest: str
    event_log_range: tuple[int, int]
    event_log_hash: str
    pending_state: FrozenMap | None
    pins_snapshot: FrozenMap
    compaction_ids: tuple[str, ...]
    canonical_bytes: bytes
    bytes_hash: str


_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
_Short = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$(?!\n)")]
_Position = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class _Stored(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields as a file holds them."""

    snapshot_id: _Short
    save_type: SaveType
    timestamp_event_id: _Position
    facts_ledger_digest: _Hash
    unlock_state_digest: _Hash
    story_state_digest: _Hash
    working_set_digest: _Hash
    event_log_range: tuple[_Position, _Position]
    event_log_hash: _Hash
    pending_state: dict[str, Any] | None
    pins_snapshot: dict[str, Any]
    compaction_ids: tuple[_Short, ...]
    bytes_hash: _Hash

    def __post_init__(self) -> None:
        first, last = self.event_log_range
        if not 1 <= first <= last + 1:
            raise ValueError("event_log_range: the first position must be at least 1 and at most one above the last")
        # Both are kept because the format has both; they may not contradict each other.
        if self.timestamp_event_id != last:
            raise ValueError("timestamp_event_id: must be the last position of event_log_range")
        if len(set(self.compaction_ids)) != len(self.compaction_ids):
            raise ValueError("compaction_ids: an id stands there twice")


_DECODER: Final = msgspec.json.Decoder(_Stored)


def take_snapshot(
    save_type: SaveType,
    *,
    event_log_range: tuple[int, int],
    event_log_hash: str,
    digests: Mapping[str, str],
    pending_state: Mapping[str, Any] | None,
    pins: Mapping[str, Any],
    compaction_ids: Sequence[str],
) -> SaveSnapshot:
    """Return the snapshot of the state after the last position of the range.

    `digests` holds the digests of the four stores by the names of the snapshot's fields.

    Raises:
        ValueError: a value has no canonical form, or the fields contradict each other.
    """
    pending = None if pending_state is None else freeze_map(pending_state)
    fields: dict[str, Any] = {
        "save_type": save_type,
        "timestamp_event_id": event_log_range[1],
        **digests,
        "event_log_range": event_log_range,
        "event_log_hash": event_log_hash,
        "pending_state": pending,
        "pins_snapshot": freeze_map(pins),
        "compaction_ids": tuple(compaction_ids),
    }
    encoded = _hashed(fields)
    snapshot = SaveSnapshot(
        snapshot_id=short_hash(encoded), canonical_bytes=encoded, bytes_hash=sha256_hex(encoded), **fields
    )
    # Read back at once: what cannot be booted later must not be written now.
    return decode_snapshot(encode_snapshot(snapshot))


def encode_snapshot(snapshot: SaveSnapshot) -> bytes:
    """Return the canonical JSON that a file holds: every field but `canonical_bytes`, which follows from them."""
    fields = structs.asdict(snapshot)
    del fields["canonical_bytes"]
    return canonical(_plain(fields))


def decode_snapshot(data: bytes) -> SaveSnapshot:
    """Return the snapshot that the bytes hold.

    Raises:
        ValueError: the bytes are not exactly what `encode_snapshot` writes, or an id or hash does not follow from the
            rest; the text says which.
    """
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise ValueError(f"{len(data)} bytes; a snapshot has at most {MAX_SNAPSHOT_BYTES}")
    try:
        return _checked(_DECODER.decode(data), data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise ValueError(str(fault)[:200]) from None


def _checked(stored: _Stored, data: bytes) -> SaveSnapshot:
    """Return the snapshot of the stored fields; see `decode_snapshot`."""
    pending = None if stored.pending_state is None else freeze_map(stored.pending_state)
    fields: dict[str, Any] = structs.asdict(stored)
    fields |= {"pending_state": pending, "pins_snapshot": freeze_map(stored.pins_snapshot)}
    encoded = _hashed(fields)
    if stored.bytes_hash != sha256_hex(encoded):
        raise ValueError("bytes_hash does not follow from the other fields")
    if stored.snapshot_id != short_hash(encoded):
        raise ValueError("snapshot_id does not follow from the other fields")
    snapshot = SaveSnapshot(canonical_bytes=encoded, **fields)
    # White space or another order of keys would keep the hash and change the file.
    if encode_snapshot(snapshot) != data:
        raise ValueError("its form is not the canonical one")
    return snapshot


def _hashed(fields: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of the fields that a snapshot's id stands for."""
    return canonical(_plain({name: value for name, value in fields.items() if name not in _DERIVED}))


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: thaw(value) for name, value in fields.items()}
