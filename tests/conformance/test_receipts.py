"""Conformance: receipts and identifiers (docs/contract.md 14)."""

import json
from typing import Any

import pytest

from lifebus_broker.routing.receipts import ReceiptHeader, gap_in, missing_range, observed
from lifebus_contract import Emission, InvalidRequest, Receipt, encode_json, validate
from support.golden import golden, without

NULLABLE = (
    "sequence",
    "parent_receipt_id",
    "idempotency_key",
    "failure_class",
    "retry_class",
    "harness_session_id",
    "harness_run_id",
    "harness_task_id",
)
STAMP: ReceiptHeader = {"receipt_id": "lfr_1", "at_epoch_s": 1, "client_id": "notes", "parent_receipt_id": None}


def emission(**changes: Any) -> Emission:
    return validate({"request": golden("request", "minimal", **changes)}, Emission)


@pytest.mark.parametrize("key", NULLABLE)
def test_required_nullable_fields_are_present_even_when_null(key: str) -> None:
    written = json.loads(encode_json(observed(emission=emission(), **STAMP)))
    assert key in written
    assert written[key] is None


@pytest.mark.parametrize("key", NULLABLE)
def test_a_receipt_that_leaves_out_a_nullable_field_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match=f"missing required field `{key}`"):
        validate(without(golden("receipt"), key), Receipt)


def test_receipt_id_event_id_sequence_and_idempotency_key_do_not_collapse_into_one_field() -> None:
    fact = emission(event_id="evt_7", idempotency_key="key_7", sequence=7)
    first = observed(emission=fact, **STAMP)
    again = observed(emission=fact, **STAMP | {"receipt_id": "lfr_2"})
    assert (first.event_id, first.idempotency_key, first.sequence) == ("evt_7", "key_7", None)
    assert len({first.receipt_id, first.event_id, first.idempotency_key, first.invocation_id}) == 4
    assert first.receipt_id != again.receipt_id
    assert (first.event_id, first.idempotency_key) == (again.event_id, again.idempotency_key)


@pytest.mark.parametrize(("key", "value"), [("event_id", "evt_8"), ("idempotency_key", "key_8"), ("sequence", 8)])
def test_each_identifier_changes_alone(key: str, value: Any) -> None:
    before = {"event_id": "evt_7", "idempotency_key": "key_7", "sequence": 7}
    old, new = (observed(emission=emission(**which), **STAMP) for which in (before, before | {key: value}))
    changed = {name for name in Receipt.__struct_fields__ if getattr(old, name) != getattr(new, name)}
    assert changed == ({"telemetry_summary"} if key == "sequence" else {key})


def test_no_idempotency_key_is_made_up_where_the_caller_gave_none() -> None:
    assert observed(emission=emission(), **STAMP).idempotency_key is None


@pytest.mark.parametrize("kind", ["request", "receipt"])
def test_receipt_emitted_never_produces_a_receipt(kind: str) -> None:
    kinds: dict[str, type[Any]] = {"request": type(emission().request), "receipt": Receipt}
    with pytest.raises(InvalidRequest, match=r"receipt\.emitted"):
        validate(golden(kind, event="receipt.emitted"), kinds[kind])


def test_stateless_synthesis_claims_no_sequence_and_no_gap_of_its_own() -> None:
    counted = emission(sequence=41)
    assert observed(emission=counted, **STAMP).sequence is None
    assert missing_range(None, 41) is None
    assert observed(emission=gap_in(counted, "evt_gap", (2, 40)), **STAMP).sequence is None


def test_all_receipts_of_an_invocation_share_its_id_and_name_their_parent() -> None:
    starting = observed(emission=emission(event="session.starting"), **STAMP)
    child: ReceiptHeader = {**STAMP, "receipt_id": "lfr_2", "parent_receipt_id": starting.receipt_id}
    started = observed(emission=emission(event="session.started"), **child)
    assert starting.invocation_id == started.invocation_id
    assert (starting.parent_receipt_id, started.parent_receipt_id) == (None, "lfr_1")
