"""The shipped JSON Schemas: up to date, valid themselves, and of one mind with the structs."""

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lifebus_contract import KINDS, InvalidRequest, encode_json, schema_for, validate
from support.golden import EXAMPLES, golden, without

WRITER = runpy.run_path(str(Path(__file__).parent / "write_schemas.py"))
SCHEMAS: Path = WRITER["SCHEMAS"]

REFERENCE = {"payload_id": "pay_1", "payload_kind": "note"}
FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("request", golden("request") | {"colour": "blue"}),
    ("request", golden("request") | {"event": "session.paused"}),
    ("request", golden("request") | {"event_id": ""}),
    ("request", golden("request") | {"schema_version": "lifeloop.v0.1"}),
    ("request", golden("request") | {"sequence": -1}),
    ("payload", golden("payload") | {"acceptable_placements": []}),
    ("payload", golden("payload") | {"content_digest": "md5:00"}),
    ("receipt", without(golden("receipt"), "sequence")),
    ("receipt", golden("receipt") | {"telemetry_summary": {"Upper": 1}}),
    ("manifest", golden("manifest") | {"integration_modes": []}),
    ("manifest", without(golden("manifest"), "placement")),
    ("manifest", golden("manifest") | {"lifecycle_events": {"session.paused": {"support": "unavailable"}}}),
    ("manifest", golden("manifest") | {"placement": {"pre_prompt_frame": {"support": "unavailable"}}}),
    ("request", golden("request") | {"payload_refs": [REFERENCE | {"content_digest": "00ff"}]}),
    ("request", golden("request") | {"payload_refs": [REFERENCE | {"content_digest": "md5:xyz"}]}),
    ("pressure", golden("pressure") | {"context_used_pct": 101}),
    ("capability", golden("capability") | {"level": "urgent"}),
]


def checker(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_for(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_shipped_schema_is_the_generated_one(kind: str) -> None:
    shipped = (SCHEMAS / f"{kind}.json").read_text(encoding="utf-8")
    assert shipped == WRITER["schema_text"](kind), "run: python tests/contract/write_schemas.py"


def test_no_schema_is_shipped_for_a_kind_that_is_gone() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_json_schema(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_for(kind))


@pytest.mark.parametrize(("kind", "form"), EXAMPLES)
def test_a_schema_accepts_its_golden_documents(kind: str, form: str) -> None:
    checker(kind).validate(golden(kind, form))


@pytest.mark.parametrize(("kind", "form"), EXAMPLES)
def test_a_schema_accepts_what_lifebus_writes(kind: str, form: str) -> None:
    written = json.loads(encode_json(validate(golden(kind, form), KINDS[kind])))
    checker(kind).validate(written)


@pytest.mark.parametrize(("kind", "document"), FAULTS)
def test_schema_and_struct_refuse_the_same_documents(kind: str, document: dict[str, Any]) -> None:
    assert not checker(kind).is_valid(document)
    with pytest.raises(InvalidRequest):
        validate(document, KINDS[kind])


@pytest.mark.parametrize("digest", ["sha256:00ff", "md5:" + "0f" * 16, "blake2b-512:" + "AB" * 64, "crc32c:00000000"])
def test_a_payload_reference_carries_whatever_digest_its_owner_uses(digest: str) -> None:
    document = golden("request") | {"payload_refs": [REFERENCE | {"content_digest": digest}]}
    checker("request").validate(document)
    assert json.loads(encode_json(validate(document, KINDS["request"])))["payload_refs"][0]["content_digest"] == digest


def test_there_is_no_schema_of_an_unknown_kind() -> None:
    with pytest.raises(InvalidRequest, match="no such kind: `invoice`; known are request"):
        schema_for("invoice")
