"""The schema of Loa's checkpoints as the contract has it, and the YAML that is made of them."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus_contract import InvalidRequest
from support.clients.checkpoints import artifact, document

LONG = "w" * 16
DECISION = document()["decisions"][0]
ERROR = document()["errors"][0]

WRONG: dict[str, list[Any]] = {
    "version": [2, 0, "1", None, True, 1.5],
    "execution_id": ["", 1, None, "a\nb", "x" * 257],
    "phase": ["", None, ["a"], "a\0", "x" * 257],
    "created_at": [
        "yesterday",
        "",
        1_769_860_800,
        None,
        "2026-01-31T12:00:00",
        "2026-01-31",
        "2026-01-31 12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T12:00:00+99:00",
        "2026-01-31T12:00:00 Z",
    ],
    "exit_code": [3, -1, "0", None, 64, 0.5, True],
    "duration_ms": [-1, -0.5, "long", None, True],
    "summary": [None, 1, "", " \n\t", " ".join(["word"] * 501), "é" * 4_096 + "x"],
    "decisions": [
        None,
        {},
        [1],
        [{}],
        [{**DECISION, "timestamp": "2026-01-31T12:00:00"}],
        [{**DECISION, "reasoning": 1}],
    ],
    "artifacts": [
        None,
        [{}],
        [artifact("a", b"", size_bytes=-1)],
        [artifact("a", b"", size_bytes="0")],
        [artifact("a", b"", checksum="md5:d41d8cd98f00b204e9800998ecf8427e")],
        [artifact("a", b"", checksum="sha256:abc")],
        [artifact("a", b"", checksum="")],
        [artifact("a", b"", checksum="x" * 64)],
        [artifact("a", b"", description=None)],
        [artifact("a", b"") | {"path": 1}],
    ],
    "errors": [
        None,
        [{}],
        [{**ERROR, "recoverable": "maybe"}],
        [{**ERROR, "recoverable": 1}],
        [{**ERROR, "phase": None}],
    ],
}
CASES = [
    pytest.param(name, value, id=f"{name}-{json.dumps(value)[:40]}") for name, many in WRONG.items() for value in many
]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_what_breaks_the_schema_is_refused_with_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        LOA_CHECKPOINT.facts_of(document(**{name: value}))
    assert refused.value.code == "against_contract"
    assert (refused.value.field or "").startswith(f"$.{name}")


@pytest.mark.parametrize("version", [0, 2, 17])
def test_a_checkpoint_of_another_version_says_which_one_it_is_and_what_to_do(version: int) -> None:
    # Whatever else stands there: it may be right in its version.
    with pytest.raises(InvalidRequest) as raised:
        LOA_CHECKPOINT.facts_of({"version": version, "stage": "design"})
    assert (raised.value.code, raised.value.field) == ("against_contract", "$.version")
    for words in (f"is of version {version}", "knows version 1", "write it as version 1", f"knows version {version}"):
        assert words in raised.value.detail


def test_every_field_is_needed_everywhere() -> None:
    whole = document(artifacts=[artifact("a", b"")])
    for name in whole:
        with pytest.raises(InvalidRequest, match=name):
            LOA_CHECKPOINT.facts_of({key: value for key, value in whole.items() if key != name})
    for part in ("decisions", "artifacts", "errors"):
        for name in whole[part][0]:
            cut = {key: value for key, value in whole[part][0].items() if key != name}
            with pytest.raises(InvalidRequest, match=name):
                LOA_CHECKPOINT.facts_of(whole | {part: [cut]})


@pytest.mark.parametrize(
    "changes",
    [
        {"decisions": [], "artifacts": [], "errors": []},
        {"exit_code": 2},
        {"duration_ms": 0},
        {"duration_ms": 12.5},
        {"summary": " ".join(["word"] * 500)},
        {"summary": "é" * 4_096},
        {"summary": f"{' '.join([LONG] * 480)}\N{NO-BREAK SPACE}end"},
        {"phase": "a/b", "execution_id": "\N{SNOWMAN} 1"},
        {"later": {"version": 2}, "more": None},
        {"decisions": [{**DECISION, "by": "a person", "weights": [0.5, 1e300]}]},
    ],
    ids=str,
)
def test_what_keeps_the_schema_is_taken_with_whatever_else_it_holds(changes: dict[str, Any]) -> None:
    facts = LOA_CHECKPOINT.facts_of(document(**changes))
    assert (facts.name, facts.run_id) == (document(**changes)["phase"], document(**changes)["execution_id"])


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.123456789+05:30",
        "2026-01-31T12:00:00,5-0800",
        "2026-01-31T12:00Z",
        "20260131T120000Z",
        "2026-W05-6T12:00:00+00:00",
        "0001-01-01T00:00:00-12:00",
    ],
)
def test_times_are_iso_8601_with_a_zone_and_stay_as_they_are(time: str) -> None:
    assert LOA_CHECKPOINT.facts_of(document(created_at=time)).created_at == time


def test_a_checksum_is_sha_2_with_its_name_or_sha_256_without() -> None:
    digits = "AB" * 32
    many = [digits, f"sha256:{digits}", f"sha512:{digits * 2}", f"sha384:{digits}{'ab' * 16}"]
    facts = LOA_CHECKPOINT.facts_of(document(artifacts=[artifact("a", b"", checksum=one) for one in many]))
    assert [one.digest for one in facts.artifacts] == [
        f"sha256:{'ab' * 32}",
        f"sha256:{'ab' * 32}",
        f"sha512:{'ab' * 64}",
        f"sha384:{'ab' * 48}",
    ]


@pytest.mark.parametrize("phase", ["a/b", ".", "..", "/etc/passwd", "é" * 126])
def test_a_phase_that_is_no_name_of_a_file_is_not_exported(phase: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        LOA_CHECKPOINT.export_path(LOA_CHECKPOINT.facts_of(document(phase=phase)))
    assert refused.value.code == "path_invalid"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(
        [
            "2026-01-31T12:00:00Z",
            "2026-01-31",
            "yes",
            "null",
            "~",
            "1e3",
            "0x1F",
            "1:30",
            "=",
            "<<",
            "- a",
            "a: b #c",
            "x\x85y",
            "\ufeff",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), JSON, max_size=4))
def test_the_yaml_says_what_the_checkpoint_says(more: dict[str, Any]) -> None:
    whole = {**more, **document()}
    made = LOA_CHECKPOINT.export_text(whole)
    assert yaml.safe_load(made) == whole
    assert list(yaml.safe_load(made)) == list(whole)


def test_the_yaml_is_what_a_person_reads() -> None:
    lines = LOA_CHECKPOINT.export_text(document(summary="long " * 100 + "end")).splitlines()
    assert lines[:3] == ["version: 1", "execution_id: exec-1", "phase: implementation"]
    assert lines[3] == "created_at: '2026-01-31T12:00:00.000Z'"
    assert lines[6] == f"summary: {'long ' * 100}end"
