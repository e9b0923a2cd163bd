"""The deciding half of docs/ledger.md G6: pins match, or revisions lead to today's, or nothing passes."""

from collections.abc import Mapping
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.frozen import freeze_map, thaw
from lifebus_broker.snapshots.pins import ABSENT, PINS, changes_between, pins_of, what_is_missing
from lifebus_broker.snapshots.revisions import (
    REVISIONS,
    PinMismatch,
    Revision,
    check_pins,
    decode_revision,
    encode_revision,
)

TODAY = pins_of(
    [adapter.registered.manifest for adapter in ADAPTERS.values()],
    reducer_version=3,
    compaction_policies=["state_cache@1", "session_recap@1"],
)


def with_pins(changes: Mapping[str, Any]) -> Any:
    return freeze_map({**thaw(TODAY), **changes})


def without(pin: str) -> Any:
    return freeze_map({name: value for name, value in thaw(TODAY).items() if name != pin})


def revisions(*steps: tuple[Any, Any]) -> list[Record]:
    return [
        Record(REVISIONS, number, 0, encode_revision(Revision(before=a, after=b, reason="upgraded", actor="ada")))
        for number, (a, b) in enumerate(steps, 1)
    ]


V1, V2, V3 = with_pins({"reducer_version": 1}), with_pins({"reducer_version": 2}), TODAY


def test_the_pins_are_those_that_the_issue_names() -> None:
    assert tuple(sorted(TODAY)) == PINS
    assert TODAY["contract_version"] == "lifeloop.v0.2"
    assert TODAY["compaction_policies"] == ("session_recap@1", "state_cache@1")
    manifests = TODAY["manifests"]
    assert isinstance(manifests, Mapping)
    assert set(manifests) == set(ADAPTERS)


def test_pins_depend_on_no_order() -> None:
    manifests = [adapter.registered.manifest for adapter in ADAPTERS.values()]
    again = pins_of(
        reversed(manifests), reducer_version=3, compaction_policies=iter(["session_recap@1", "state_cache@1"])
    )

    assert not changes_between(TODAY, again)


def test_equal_pins_pass_without_a_revision() -> None:
    assert check_pins(TODAY, TODAY, []).revisions == ()


@pytest.mark.parametrize("pin", PINS)
def test_a_changed_pin_fails_and_is_named(pin: str) -> None:
    with pytest.raises(PinMismatch, match=f"`{pin}.*` was .* and is"):
        check_pins(with_pins({pin: "another"}), TODAY, [])


def test_one_changed_manifest_is_named_by_its_adapter() -> None:
    manifests = {**thaw(TODAY)["manifests"], "codex": "0" * 64}

    with pytest.raises(PinMismatch, match=r"^`manifests\.codex` was `0000"):
        check_pins(with_pins({"manifests": manifests}), TODAY, [])


def test_absent_null_and_empty_are_three_different_things() -> None:
    absent, null, empty = without("manifests"), with_pins({"manifests": None}), with_pins({"manifests": {}})

    shown = [str(changes_between(one, TODAY)[0]).split(" and is ")[0] for one in (absent, null, empty)]
    assert shown == ["`manifests` was absent", "`manifests` was null", "`manifests` was empty"]
    assert len(changes_between(absent, null)) == len(changes_between(null, empty)) == 1
    assert changes_between(absent, null)[0].before is ABSENT
    assert [str(change) for change in changes_between(empty, with_pins({"manifests": []}))] == [
        "`manifests` was empty and is empty"
    ]


@pytest.mark.parametrize("stored", [None, freeze_map({}), without("hash_algorithm")])
def test_without_pins_nothing_passes(stored: Any) -> None:
    for one, other in ((stored, TODAY), (TODAY, stored), (stored, stored)):
        with pytest.raises(PinMismatch, match="pins"):
            check_pins(one, other, [])
    assert what_is_missing(stored) is not None


def test_truth_values_are_no_numbers() -> None:
    assert changes_between(with_pins({"reducer_version": 1}), with_pins({"reducer_version": True}))


def test_revisions_lead_from_the_stored_pins_to_todays() -> None:
    check = check_pins(V1, V3, revisions((V1, V2), (V2, V3)))

    assert [revision.reason for revision in check.revisions] == ["upgraded", "upgraded"]
    assert [change.pin for change in check.changes] == ["reducer_version"]


@pytest.mark.parametrize(
    "chain",
    [
        [],
        [(V1, V2)],
        [(V2, V3)],
        [(V2, V3), (V1, V2)],
        [(V3, V1)],
        [(V1, V3), (V3, V2)],
        [(V1, with_pins({"contract_version": "another"}))],
    ],
)
def test_a_partial_or_wrong_chain_of_revisions_fails(chain: list[tuple[Any, Any]]) -> None:
    with pytest.raises(PinMismatch, match=r"is `3`|is `lifeloop"):
        check_pins(V1, V3, revisions(*chain))


def test_revisions_of_other_times_do_not_disturb() -> None:
    other = with_pins({"contract_version": "older"})

    assert len(check_pins(V1, V3, revisions((other, V1), (V1, V2), (V2, V1), (V1, V3))).revisions) == 3


@pytest.mark.parametrize("body", [b"", b"{}", b'{"actor":"a","from":{},"pins":[],"reason":"r","to":{}}'])
def test_a_damaged_revision_fails(body: bytes) -> None:
    with pytest.raises(PinMismatch, match="revision 1 in the journal is damaged"):
        check_pins(V1, V3, [Record(REVISIONS, 1, 0, body)])


def test_a_revision_says_what_changes_and_by_whom() -> None:
    revision = Revision(before=V1, after=V3, reason="a new reducer", actor="ada")

    read = decode_revision(encode_revision(revision))

    assert read == revision
    assert [str(change) for change in read.changes] == ["`reducer_version` was `1` and is `3`"]


@pytest.mark.parametrize(
    "revision",
    [
        Revision(before=V1, after=V1, reason="nothing", actor="ada"),
        Revision(before=V1, after=V2, reason="", actor="ada"),
        Revision(before=V1, after=V2, reason="why", actor=""),
        Revision(before=V1, after=without("manifests"), reason="why", actor="ada"),
    ],
)
def test_a_revision_that_says_nothing_cannot_be_written(revision: Revision) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_revision(revision)
