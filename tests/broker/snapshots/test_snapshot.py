"""SaveSnapshot: exactly the fields of docs/ledger.md, frozen, and its id follows from its bytes."""

from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.canonical_json import canonical, sha256_hex, short_hash
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType, decode_snapshot, encode_snapshot, take_snapshot

DIGESTS = {
    "facts_ledger_digest": "1" * 64,
    "unlock_state_digest": "2" * 64,
    "story_state_digest": "3" * 64,
    "working_set_digest": "4" * 64,
}
PENDING = {"PENDING_ROLL": [{"adapter_id": "codex", "frames": ["f1"]}], "PENDING_CONSENT": []}
PINS = {"reducer_version": 1, "manifests": {"codex": "ab" * 32}, "compaction_policies": ["state_cache@1"]}


def taken(**changes: Any) -> SaveSnapshot:
    defaults: dict[str, Any] = {
        "event_log_range": (3, 9),
        "event_log_hash": "5" * 64,
        "digests": DIGESTS,
        "pending_state": PENDING,
        "pins": PINS,
        "compaction_ids": ("ab" * 8, "cd" * 8),
    }
    return take_snapshot(changes.pop("save_type", SaveType.SESSION), **{**defaults, **changes})


def test_a_snapshot_has_exactly_the_documented_fields() -> None:
    assert SaveSnapshot.__struct_fields__ == (
        "snapshot_id",
        "save_type",
        "timestamp_event_id",
        "facts_ledger_digest",
        "unlock_state_digest",
        "story_state_digest",
        "working_set_digest",
        "event_log_range",
        "event_log_hash",
        "pending_state",
        "pins_snapshot",
        "compaction_ids",
        "canonical_bytes",
        "bytes_hash",
    )


def test_the_id_and_the_hash_follow_from_all_other_fields() -> None:
    snapshot = taken()

    hashed = msgspec.json.decode(snapshot.canonical_bytes)
    assert sorted(hashed) == sorted(
        set(SaveSnapshot.__struct_fields__) - {"snapshot_id", "canonical_bytes", "bytes_hash"}
    )
    assert canonical(hashed) == snapshot.canonical_bytes
    assert snapshot.bytes_hash == sha256_hex(snapshot.canonical_bytes)
    assert snapshot.snapshot_id == short_hash(snapshot.canonical_bytes) == snapshot.bytes_hash[:16]
    assert snapshot.timestamp_event_id == 9


def test_the_same_state_gives_the_same_bytes_and_another_gives_another_id() -> None:
    assert encode_snapshot(taken()) == encode_snapshot(taken())
    ids = {
        taken().snapshot_id,
        taken(save_type=SaveType.CAMPAIGN).snapshot_id,
        taken(event_log_range=(4, 9)).snapshot_id,
        taken(event_log_hash="6" * 64).snapshot_id,
        taken(pending_state=None).snapshot_id,
        taken(pending_state={}).snapshot_id,
        taken(pins={}).snapshot_id,
        taken(compaction_ids=()).snapshot_id,
    }
    assert len(ids) == 8


def test_nothing_in_a_snapshot_can_be_changed() -> None:
    snapshot = taken()

    with pytest.raises(AttributeError):
        snapshot.snapshot_id = "0" * 16  # type: ignore[misc]
    pending, manifests = snapshot.pending_state, snapshot.pins_snapshot["manifests"]
    assert isinstance(pending, MappingProxyType)
    assert isinstance(manifests, MappingProxyType)
    assert isinstance(pending["PENDING_ROLL"], tuple)
    assert isinstance(pending["PENDING_ROLL"][0], MappingProxyType)
    assert snapshot.pins_snapshot["compaction_policies"] == ("state_cache@1",)


def test_a_snapshot_shares_nothing_with_what_it_was_taken_from() -> None:
    pending: dict[str, Any] = {"PENDING_ROLL": ["one"]}
    snapshot = taken(pending_state=pending)

    pending["PENDING_ROLL"].append("two")

    assert snapshot.pending_state == {"PENDING_ROLL": ("one",)}


@pytest.mark.parametrize("pending", [None, {}, PENDING])
def test_what_is_encoded_comes_back_as_it_was(pending: Any) -> None:
    snapshot = taken(pending_state=pending)

    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_file_in_which_one_bit_flipped_is_refused(place: int, bit: int) -> None:
    stored = bytearray(encode_snapshot(taken()))
    stored[place % len(stored)] ^= 1 << bit

    with pytest.raises(ValueError, match=r"."):
        decode_snapshot(bytes(stored))


@given(length=st.integers(0, 10_000))
def test_a_torn_file_is_refused(length: int) -> None:
    stored = encode_snapshot(taken())

    with pytest.raises(ValueError, match=r"."):
        decode_snapshot(stored[: length % len(stored)])


def test_a_file_that_was_only_formatted_anew_is_refused() -> None:
    stored = encode_snapshot(taken())

    for other in (msgspec.json.format(stored), stored + b"\n", stored.replace(b'"1111', b'"\\u00311\\u00311', 1)):
        with pytest.raises(ValueError, match=r"."):
            decode_snapshot(other)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"event_log_range": (0, 9)}, "event_log_range"),
        ({"event_log_range": (11, 9)}, "event_log_range"),
        ({"event_log_hash": "5" * 63}, "event_log_hash"),
        ({"compaction_ids": ("ab" * 8, "ab" * 8)}, "compaction_ids"),
        ({"pending_state": {"at": 1.5}}, "float"),
        ({"pins": {"a": 2**53}}, "2\\^53"),
        ({"digests": {**DIGESTS, "story_state_digest": "no"}}, "story_state_digest"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        taken(**changes)


def test_an_empty_log_has_an_empty_range() -> None:
    assert taken(event_log_range=(1, 0)).timestamp_event_id == 0


@pytest.mark.parametrize("deep", [200, 5_000])
def test_a_file_nested_without_end_is_refused(deep: int) -> None:
    nested = b'{"pending_state":' + b'{"a":' * deep + b"null" + b"}" * deep + b"}"

    with pytest.raises(ValueError, match=r"."):
        decode_snapshot(nested)
