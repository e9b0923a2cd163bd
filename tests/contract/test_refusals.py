"""What is against the contract is refused, with a message that names the field and the rule."""

import json
from typing import Any

import msgpack
import pytest

from lifebus_contract import KINDS, FailureClass, InvalidRequest, RetryClass, decode_json, decode_msgpack, validate
from support.golden import golden, without

PROBES: list[tuple[str, dict[str, Any], str, str]] = [
    ("request", {"colour": "blue"}, "$.colour", "unknown key `$.colour`"),
    ("request", {"event": "session.paused"}, "$.event", "Invalid enum value 'session.paused'"),
    ("request", {"event_id": ""}, "$.event_id", "length >= 1"),
    ("request", {"adapter_id": "a" * 257}, "$.adapter_id", "length <= 256"),
    ("request", {"adapter_version": 1}, "$.adapter_version", "Expected `str`, got `int`"),
    ("request", {"schema_version": "lifeloop.v0.1"}, "$.schema_version", "expected `lifeloop.v0.2`"),
    ("request", {"schema_version": 1}, "$.schema_version", "expected `lifeloop.v0.2`"),
    ("request", {"sequence": -1}, "$.sequence", ">= 0"),
    ("request", {"sequence": 2**53}, "$.sequence", ""),
    ("request", {"sequence": 1.5}, "$.sequence", "Expected `int | null`"),
    ("request", {"harness_session_id": ""}, "$.harness_session_id", "length >= 1"),
    ("request", {"payload_refs": [{"payload_id": "p"}]}, "$.payload_refs[0]", "missing required field `payload_kind`"),
    ("request", {"frame_context": {"frame_id": "f"}}, "$.frame_context", "missing required field `frame_class`"),
    ("request", {"adapter_id": "a\nb"}, "$.adapter_id", "must not hold control"),
    ("request", {"idempotency_key": "k\x1b[31m"}, "$.idempotency_key", "must not hold control"),
    ("response", {"status": "done"}, "$.status", "Invalid enum value 'done'"),
    ("response", {"failure_class": "bad_luck"}, "$.failure_class", "Invalid enum value 'bad_luck'"),
    ("response", {"receipt_refs": [""]}, "$.receipt_refs[0]", "length >= 1"),
    ("payload", {"client_id": ""}, "$.client_id", "length >= 1"),
    ("payload", {"schema_version": 2}, "$.schema_version", "expected `lifeloop.v0.2`"),
    ("payload", {"byte_size": -1}, "$.byte_size", ">= 0"),
    ("payload", {"content_digest": "sha256:ABC"}, "$.content_digest", "regex"),
    ("payload", {"acceptable_placements": []}, "$.acceptable_placements", "length >= 1"),
    ("payload", {"priority": 1}, "$.priority", "unknown key"),
    (
        "payload",
        {"acceptable_placements": [{"placement": "top", "requirement": "required"}]},
        "$.acceptable_placements[0].placement",
        "Invalid enum value 'top'",
    ),
    ("receipt", {"position": 7}, "$.position", "unknown key"),
    ("receipt", {"status": "ok"}, "$.status", "Invalid enum value 'ok'"),
    ("receipt", {"receipt_id": ""}, "$.receipt_id", "length >= 1"),
    ("receipt", {"telemetry_summary": {"pct": 0.5}}, "$.telemetry_summary[...]", "Expected"),
    ("receipt", {"schema_version": True}, "$.schema_version", "expected `lifeloop.v0.2`"),
    ("receipt", {"client_id": "a\x00"}, "$.client_id", "must not hold control"),
    ("manifest", {"vendor": "x"}, "$.vendor", "unknown key"),
    ("manifest", {"role": "boss"}, "$.role", "Invalid enum value 'boss'"),
    ("manifest", {"integration_modes": []}, "$.integration_modes", "length >= 1"),
    ("manifest", {"contract_version": "lifeloop.v1"}, "$.contract_version", "expected `lifeloop.v0.2`"),
    ("capability", {"capability": "teleport"}, "$.capability", "`teleport` is not a capability"),
    ("capability", {"support": "unavailable"}, "$.support", "`unavailable` cannot be asked for"),
    ("capability", {"support": "simulated"}, "$.support", "Invalid enum value 'simulated'"),
    ("degradation", {"event": "session.ended"}, "$.event", "Invalid enum value"),
    ("pressure", {"context_used_pct": 101}, "$.context_used_pct", "<= 100"),
    ("dispatch", {"request": None}, "$.request", "Expected `object`"),
    ("emission", {"telemetry": {"Bad-Key": 1}}, "$.telemetry", "regex"),
]


def test_a_fault_is_named_by_field_and_rule(subtests: pytest.Subtests) -> None:
    for kind, changes, field, rule in PROBES:
        with subtests.test(kind=kind, changes=changes, field=field, rule=rule):
            document = golden(kind, **changes)
            faults = [refusal_of(document, kind), refusal_of_json(document, kind), refusal_of_msgpack(document, kind)]
            for fault in faults:
                assert fault.field is not None
                assert fault.field.startswith(field)
                assert rule in fault.detail
                assert fault.code
                assert (fault.failure_class, fault.retry_class) == (
                    FailureClass.INVALID_REQUEST,
                    RetryClass.DO_NOT_RETRY,
                )


def test_an_unknown_key_is_refused_by_every_kind(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            fault = refusal_of(golden(kind, x_extra=1), kind)
            assert (fault.code, fault.field) == ("unknown_key", "$.x_extra")


@pytest.mark.parametrize("document", [None, 1, "text", [], True])
def test_only_an_object_is_a_document(document: Any, subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            assert "Expected `object`" in refusal_of(document, kind).detail


@pytest.mark.parametrize(
    "kind", ["request", "response", "dispatch", "payload", "receipt", "manifest", "degradation", "negotiation"]
)
def test_every_required_key_is_missed_by_name(kind: str) -> None:
    smallest = golden(kind, "minimal")
    optional = {"body", "body_ref", "content_digest", "idempotency_key", "expires_at_epoch_s", "redaction", "metadata"}
    for key in smallest.keys() - (optional if kind == "payload" else set()):
        fault = refusal_of(without(smallest, key), kind)
        assert f"missing required field `{key}`" in fault.detail


@pytest.mark.parametrize("kind", ["payload", "receipt"])
def test_version_one_of_the_examples_is_read_as_the_version_string(kind: str) -> None:
    document = validate(golden(kind, schema_version=1), KINDS[kind])
    assert document == validate(golden(kind), KINDS[kind])


def test_a_long_or_hostile_value_does_not_flood_the_message() -> None:
    fault = refusal_of(golden("request", event="\x1b]0;" + "x" * 10_000), "request")
    assert len(fault.detail) < 500
    assert fault.detail.isprintable()


def refusal_of(document: Any, kind: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        validate(document, KINDS[kind])
    return caught.value


def refusal_of_json(document: Any, kind: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_json(json.dumps(document), KINDS[kind])
    return caught.value


def refusal_of_msgpack(document: Any, kind: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_msgpack(msgpack.packb(document), KINDS[kind])
    return caught.value
