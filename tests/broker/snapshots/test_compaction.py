"""A compaction is what its name, its hash and its allow-list say, or it is not there."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lifebus_broker.canonical_json import canonical, sha256_hex, short_hash
from lifebus_broker.snapshots.compactions.compaction import (
    Compaction,
    Purpose,
    compact,
    compaction_id_of,
    decode_compaction,
    encode_compaction,
    encode_large,
    view,
)
from lifebus_broker.snapshots.compactions.files import DIRECTORY, CompactionFiles
from lifebus_broker.snapshots.refused_file import RefusedFile

POLICY = "session_recap@1"
HANDLES = ("a/s@1:" + "0" * 64, "fact@1")
RECAP = compact(Purpose.RECAP, POLICY, HANDLES, b'{"receipts":1}')


def test_it_has_exactly_the_documented_fields() -> None:
    assert set(Compaction.__struct_fields__) == {
        "compaction_id",
        "purpose",
        "compaction_policy_id",
        "input_handles",
        "output_bytes",
        "output_hash",
        "allowmention_handles",
    }
    with pytest.raises(AttributeError):
        setattr(RECAP, "purpose", Purpose.SYNOPSIS)  # noqa: B010  which type checkers refuse as well


def test_its_name_is_the_short_hash_of_purpose_policy_and_sorted_handles() -> None:
    named = {"purpose": "RECAP", "compaction_policy_id": POLICY, "input_handles": sorted(HANDLES)}
    assert RECAP.compaction_id == short_hash(canonical(named))
    assert RECAP.output_hash == sha256_hex(b'{"receipts":1}')
    assert compact(Purpose.RECAP, POLICY, reversed(HANDLES), b'{"receipts":1}') == RECAP


@given(st.sets(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_two_purposes_never_share_a_name_nor_do_two_policies(handles: set[str]) -> None:
    names = {
        compaction_id_of(purpose, policy, handles) for purpose in Purpose for policy in (POLICY, "session_recap@2")
    }
    assert len(names) == 8


@given(st.lists(st.binary(max_size=20), max_size=5), st.sets(st.text(max_size=20), min_size=1))
def test_one_that_is_encoded_in_pieces_is_encoded_as_a_whole_one(pieces: list[bytes], handles: set[str]) -> None:
    output = b'{"output":0},"output_hash":"' + b"".join(pieces)
    whole = encode_compaction(compact(Purpose.CONTEXT_CACHE, POLICY, handles, output))
    assert b"".join(encode_large(Purpose.CONTEXT_CACHE, POLICY, handles, [output[:9], output[9:]])) == whole


def test_nothing_may_be_mentioned_unless_it_is_said_and_only_what_went_in() -> None:
    assert RECAP.allowmention_handles == ()
    allowed = compact(Purpose.RECAP, POLICY, HANDLES, b"{}", allowmention=HANDLES[:1])
    assert allowed.allowmention_handles == HANDLES[:1]
    with pytest.raises(ValueError, match="no input of the compaction"):
        compact(Purpose.RECAP, POLICY, HANDLES, b"{}", allowmention=["a/other@1:" + "0" * 64])


def test_rule_c4_a_compaction_without_allowmention_handles_contributes_nothing_to_what_clients_get() -> None:
    allowed = compact(Purpose.RECAP, POLICY, ("fact@2",), b"{}", allowmention=("fact@2",))
    assert view([RECAP, allowed]) == (allowed,)
    assert view([RECAP]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"compaction_id": "0" * 16},
        {"output_bytes": b'{"receipts":2}'},
        {"purpose": Purpose.SYNOPSIS},
        {"compaction_policy_id": "session_recap@2"},
        {"input_handles": ()},
        {"input_handles": HANDLES[:1]},
        {"input_handles": HANDLES[::-1]},
        {"allowmention_handles": ("fact@9",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_that_does_not_fit_its_name_or_its_hash_cannot_exist(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"compaction|mentioned"):
        structs.replace(RECAP, **change)


def test_as_a_file_it_is_canonical_and_no_byte_of_it_can_change() -> None:
    data = encode_compaction(RECAP)
    assert decode_compaction(data) == RECAP
    for number in range(len(data)):
        for changed in (data[:number], data[:number] + bytes([data[number] ^ 1]) + data[number + 1 :]):
            with pytest.raises(ValueError, match=r"compaction|mentioned"):
                decode_compaction(changed)
    for changed in (data + b" ", b" " + data, data.replace(b":1}", b": 1}"), b"\xff" * 10, b"[" * 100_000):
        with pytest.raises(ValueError, match="compaction"):
            decode_compaction(changed)


def test_what_is_written_is_read_again_and_deleted_once(tmp_path: Path) -> None:
    files = CompactionFiles(tmp_path, POLICY)
    assert files.ids() == []
    assert files.read(RECAP.compaction_id) is None
    assert files.strangers() == []
    files.remove_unfinished()
    files.write(RECAP)
    files.write(RECAP)
    assert files.ids() == [RECAP.compaction_id]
    assert files.read(RECAP.compaction_id) == RECAP
    assert files.remove([RECAP.compaction_id, RECAP.compaction_id]) == 1
    assert files.ids() == []


def test_a_torn_a_changed_and_a_foreign_file_are_named_and_never_believed(tmp_path: Path) -> None:
    files = CompactionFiles(tmp_path, POLICY)
    files.write(RECAP)
    path = tmp_path / DIRECTORY / POLICY / f"{RECAP.compaction_id}.json"
    data = path.read_bytes()
    other = compact(Purpose.RECAP, "other@1", HANDLES, b"{}")
    for contents in (data[:-9], data.replace(b'"receipts":1', b'"receipts":3'), b"", encode_compaction(other)):
        path.write_bytes(contents)
        found = files.read(RECAP.compaction_id)
        assert isinstance(found, RefusedFile)
        assert found.name == path.name
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert isinstance(files.read(RECAP.compaction_id), RefusedFile)
    (path.parent / "notes.txt").write_text("mine")
    (path.parent / f".{path.name}.1.tmp").write_text("half")
    assert [one.name for one in files.strangers()] == ["notes.txt"]
