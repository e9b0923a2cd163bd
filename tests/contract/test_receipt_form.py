"""A receipt's JSON is canonical as it is encoded, because every struct in it lists its fields in order."""

import json

import msgspec
import pytest
import rfc8785

from lifebus_contract import Degradation, InvalidRequest, PayloadReceipt, Receipt, Warning, encode_json, validate  # noqa: A004
from support.golden import FORMS, golden, without

SPECIFIED_KEYS = {
    "schema_version", "receipt_id", "idempotency_key", "client_id", "adapter_id", "invocation_id", "event", "event_id",
    "sequence", "parent_receipt_id", "integration_mode", "status", "at_epoch_s", "harness_session_id",
    "harness_run_id", "harness_task_id", "payload_receipts", "telemetry_summary", "capability_degradations",
    "failure_class", "retry_class", "warnings",
}  # fmt: skip


@pytest.mark.parametrize("kind", [Receipt, PayloadReceipt, Degradation, Warning])
def test_the_fields_stand_in_alphabetical_order(kind: type[msgspec.Struct]) -> None:
    assert list(kind.__struct_fields__) == sorted(kind.__struct_fields__)


@pytest.mark.parametrize("form", FORMS)
def test_encoding_is_canonicalising(form: str) -> None:
    assert encode_json(validate(golden("receipt", form), Receipt)) == rfc8785.dumps(golden("receipt", form))


@pytest.mark.parametrize("form", FORMS)
def test_a_receipt_always_carries_every_key_of_the_contract(form: str) -> None:
    written = json.loads(encode_json(validate(golden("receipt", form), Receipt)))
    assert written.keys() == SPECIFIED_KEYS


@pytest.mark.parametrize("key", sorted(SPECIFIED_KEYS))
def test_a_receipt_without_one_of_its_keys_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match=f"missing required field `{key}`"):
        validate(without(golden("receipt"), key), Receipt)


def test_the_digest_of_a_payload_receipt_is_left_out_and_never_null() -> None:
    receipt = golden("receipt")
    receipt["payload_receipts"][0]["content_digest"] = None
    with pytest.raises(InvalidRequest, match=r"payload_receipts\[0\].content_digest"):
        validate(receipt, Receipt)
    written = json.loads(encode_json(validate(golden("receipt"), Receipt)))
    assert ["content_digest" in entry for entry in written["payload_receipts"]] == [True, False]
