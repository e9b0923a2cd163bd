"""Receipts say what happened, as far as the facts bear it out."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.placement import PlacementResult, place
from lifebus_broker.routing.receipts import (
    MAX_WARNINGS,
    ReceiptHeader,
    failed,
    from_response,
    gap_in,
    missing_range,
    observed,
    observed_alone,
    request_digest,
)
from lifebus_contract import (
    AdapterManifest,
    CallbackResponse,
    CapabilityRequest,
    ConformanceLevel,
    Emission,
    FailureClass,
    Negotiation,
    PayloadEnvelope,
    Receipt,
    RegisteredAdapter,
    RequirementLevel,
    RetryClass,
    encode_msgpack,
    validate,
)
from support.documents import documents
from support.golden import golden, without

STAMP: ReceiptHeader = {"receipt_id": "lfr_9", "at_epoch_s": 1234, "client_id": "notes", "parent_receipt_id": "lfr_8"}
ADAPTER = RegisteredAdapter(manifest=validate(golden("manifest"), AdapterManifest), conformance=ConformanceLevel.V1)
DELIVERABLE, AFTER_PROMPT, NOWHERE, RECORDED = (
    "developer_equivalent_frame",
    "pre_prompt_frame",
    "side_channel_context",
    "receipt_only",
)
WEAKER = negotiate(ADAPTER, [CapabilityRequest(capability="harness_task_id", level=RequirementLevel.PREFERRED)])
MET = negotiate(ADAPTER, [CapabilityRequest(capability="harness_session_id", level=RequirementLevel.REQUIRED)])


def emission(**changes: Any) -> Emission:
    return validate({"request": golden("request", **changes), "telemetry": {"turns": 3}}, Emission)


def placement(*names: str) -> PlacementResult:
    slots = {"pre_frame_trailing": {"support": "native"}, "tool_result": {"support": "unavailable"}}
    manifest = validate(golden("manifest", placement=slots), AdapterManifest)
    adapter = RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.V1)
    payloads = [
        validate(
            golden("payload", payload_id=name, acceptable_placements=[{"placement": name, "requirement": "optional"}]),
            PayloadEnvelope,
        )
        for name in names
    ]
    return place(payloads, emission().request, adapter)


def answered(
    status: str, placed: PlacementResult | None = None, negotiation: Negotiation | None = None, **changes: Any
) -> Receipt:
    response = validate({"schema_version": "lifeloop.v0.2", "status": status} | changes, CallbackResponse)
    return from_response(
        emission=emission(),
        response=response,
        placement=placed or PlacementResult(),
        negotiation=negotiation,
        **STAMP,
    )


def codes(receipt: Receipt) -> list[str]:
    return [warning.code for warning in receipt.warnings]


def test_an_observed_fact_carries_everything_the_request_said() -> None:
    receipt, request = observed(emission=emission(), **STAMP), emission().request
    assert (receipt.receipt_id, receipt.at_epoch_s, receipt.client_id) == ("lfr_9", 1234, "notes")
    assert receipt.parent_receipt_id == "lfr_8"
    for name in ("adapter_id", "event", "event_id", "invocation_id", "integration_mode", "idempotency_key"):
        assert getattr(receipt, name) == getattr(request, name)
    for name in ("harness_session_id", "harness_run_id", "harness_task_id"):
        assert getattr(receipt, name) == getattr(request, name) is not None
    assert (receipt.status, receipt.failure_class, receipt.retry_class) == ("observed", None, None)


def test_a_draft_has_no_sequence_whatever_the_harness_counts() -> None:
    receipt = observed(emission=emission(sequence=42), **STAMP)
    assert receipt.sequence is None
    assert receipt.telemetry_summary["harness_sequence"] == 42


def test_telemetry_names_the_frame_and_what_the_adapter_knows() -> None:
    summary = observed(emission=emission(), **STAMP).telemetry_summary
    assert summary == {"turns": 3, "frame_id": "frame-2", "parent_frame_id": "frame-1", "harness_sequence": 42}
    bare = emission(event="session.started", frame_context=None, sequence=None)
    assert observed(emission=bare, **STAMP).telemetry_summary == {"turns": 3}


@given(documents("emission"))
@settings(deadline=None)
def test_the_short_way_to_a_plain_receipt_leads_to_the_same_one(fact: Emission) -> None:
    assert observed_alone(fact, "lfr_9", 1234, "notes", "lfr_8") == observed(emission=fact, **STAMP)


def test_making_a_receipt_leaves_the_emission_alone() -> None:
    fact = emission()
    observed(emission=fact, **STAMP)
    assert fact == emission()


def test_the_emitters_payloads_are_accounted_for_without_any_client() -> None:
    receipt = observed(emission=emission(), placement=placement(DELIVERABLE), **STAMP)
    assert (receipt.status, len(receipt.payload_receipts)) == ("delivered", 1)
    receipt = observed(emission=emission(), placement=placement(NOWHERE), **STAMP)
    assert (receipt.status, receipt.payload_receipts[0].status) == ("observed", "skipped")


@pytest.mark.parametrize(
    ("said", "placed", "status"),
    [
        ("observed", (), "observed"),
        ("skipped", (), "skipped"),
        ("degraded", (), "degraded"),
        ("delivered", (), "observed"),
        ("delivered", (RECORDED,), "observed"),
        ("delivered", (NOWHERE,), "skipped"),
        ("delivered", (DELIVERABLE,), "delivered"),
        ("delivered", (DELIVERABLE, NOWHERE), "delivered"),
        ("delivered", (AFTER_PROMPT,), "degraded"),
        ("delivered", (DELIVERABLE, AFTER_PROMPT), "degraded"),
        ("observed", (DELIVERABLE,), "delivered"),
        ("skipped", (DELIVERABLE,), "delivered"),
        ("skipped", (NOWHERE,), "skipped"),
        ("observed", (RECORDED,), "observed"),
        ("degraded", (DELIVERABLE,), "degraded"),
    ],
)
def test_a_clients_word_stands_as_far_as_the_facts_bear_it_out(said: str, placed: tuple[str, ...], status: str) -> None:
    receipt = answered(said, placement(*placed))
    assert receipt.status == status
    assert [found.payload_id for found in receipt.payload_receipts] == list(placed)


@pytest.mark.parametrize(("placed", "warned"), [((), True), ((NOWHERE,), True), ((DELIVERABLE,), False)])
def test_a_delivery_that_was_none_is_warned_about(placed: tuple[str, ...], warned: bool) -> None:
    assert ("delivery_not_observed" in codes(answered("delivered", placement(*placed)))) is warned


@pytest.mark.parametrize("said", ["observed", "delivered", "skipped"])
def test_a_degraded_negotiation_degrades_the_receipt_and_is_explained(said: str) -> None:
    receipt = answered(said, placement(DELIVERABLE), WEAKER)
    assert receipt.status == "degraded"
    (degradation,) = receipt.capability_degradations
    assert (degradation.capability, degradation.observed_at_epoch_s) == ("harness_task_id", 1234)
    assert codes(receipt) == ["capability_degraded"]
    assert observed(emission=emission(), negotiation=WEAKER, **STAMP).status == "degraded"


def test_a_satisfied_negotiation_leaves_no_trace() -> None:
    assert answered("observed", negotiation=MET) == answered("observed")
    assert observed(emission=emission(), negotiation=MET, **STAMP) == observed(emission=emission(), **STAMP)


@pytest.mark.parametrize(
    ("failure", "asked", "retry"),
    [
        ("timeout", None, RetryClass.SAFE_RETRY),
        ("timeout", "do_not_retry", RetryClass.DO_NOT_RETRY),
        ("invalid_request", "safe_retry", RetryClass.DO_NOT_RETRY),
        ("operator_required", "retry_after_reread", RetryClass.RETRY_AFTER_OPERATOR),
    ],
)
def test_a_failed_answer_may_tighten_its_retry_class_but_not_loosen_it(
    failure: str, asked: str | None, retry: RetryClass
) -> None:
    receipt = answered("failed", failure_class=failure, retry_class=asked)
    assert (receipt.status, receipt.failure_class, receipt.retry_class) == ("failed", failure, retry)


def test_a_failed_answer_stays_failed_under_a_degraded_negotiation() -> None:
    receipt = answered("failed", negotiation=WEAKER, failure_class="timeout")
    assert receipt.status == "failed"
    assert len(receipt.capability_degradations) == 1


def test_warnings_of_adapter_client_and_placement_are_all_kept_in_this_order() -> None:
    remark = {"code": "from_client", "message": "m"}
    fact = structs.replace(emission(), warnings=validate({"warnings": [remark], **golden_request()}, Emission).warnings)
    response = validate(
        {"schema_version": "lifeloop.v0.2", "status": "observed", "warnings": [{"code": "second", "message": ""}]},
        CallbackResponse,
    )
    receipt = from_response(emission=fact, response=response, placement=placement(AFTER_PROMPT), **STAMP)
    assert codes(receipt) == ["from_client", "second", "placed_after_prompt"]


def golden_request() -> dict[str, Any]:
    return {"request": golden("request")}


def test_more_warnings_than_a_receipt_holds_are_counted() -> None:
    remarks = [{"code": f"w{number}", "message": ""} for number in range(64)]
    receipt = answered("observed", placement(AFTER_PROMPT, DELIVERABLE), warnings=remarks)
    assert len(receipt.warnings) == MAX_WARNINGS
    assert (receipt.warnings[-1].code, receipt.warnings[-1].message) == (
        "warnings_left_out",
        "2 more warnings were left out",
    )


def test_a_refusal_becomes_a_failed_receipt_that_says_why() -> None:
    refusal = Refusal(failure_class=FailureClass.TIMEOUT, detail="x" * 5000, asked_retry=RetryClass.DO_NOT_RETRY)
    receipt = failed(emission=emission(), refusal=refusal, **STAMP)
    assert (receipt.status, receipt.failure_class) == ("failed", FailureClass.TIMEOUT)
    assert receipt.retry_class is RetryClass.DO_NOT_RETRY
    assert receipt.warnings[0].code == "timeout"
    assert receipt.warnings[0].message == "x" * 1024


def test_a_refused_placement_is_recorded_with_its_payloads() -> None:
    required = golden("payload", acceptable_placements=[{"placement": NOWHERE, "requirement": "required"}])
    bare = structs.replace(ADAPTER, manifest=validate(golden("manifest", placement={}), AdapterManifest))
    placed = place([validate(required, PayloadEnvelope)], emission().request, bare)
    assert placed.refusal is not None
    receipt = failed(emission=emission(), refusal=placed.refusal, placement=placed, **STAMP)
    assert receipt.failure_class is FailureClass.PLACEMENT_UNAVAILABLE
    assert [(found.status, found.placement) for found in receipt.payload_receipts] == [("failed", None)]
    assert "side_channel_context in tool_result: unavailable" in receipt.warnings[0].message


def test_a_gap_is_a_fact_of_its_own_that_names_the_missing_range() -> None:
    receipt = observed(emission=gap_in(emission(sequence=9), "evt_gap", (5, 8)), **STAMP)
    assert (receipt.event, receipt.event_id, receipt.status) == ("receipt.gap_detected", "evt_gap", "observed")
    assert receipt.telemetry_summary == {"harness_sequence": 9, "missing_first": 5, "missing_last": 8}
    assert receipt.invocation_id == emission().request.invocation_id
    assert receipt.harness_session_id == "session-123"
    assert (receipt.sequence, receipt.idempotency_key) == (None, None)


@pytest.mark.parametrize(
    ("last", "seen", "missing"),
    [
        (None, 7, None),
        (4, None, None),
        (4, 5, None),
        (4, 4, None),
        (4, 2, None),
        (4, 6, (5, 5)),
        (4, 9, (5, 8)),
        (0, 2, (1, 1)),
    ],
)
def test_only_a_jump_forward_leaves_a_range_missing(
    last: int | None, seen: int | None, missing: tuple[int, int] | None
) -> None:
    assert missing_range(last, seen) == missing


@pytest.mark.parametrize("part", ["payloads", "requirements", "telemetry"])
def test_the_digest_stands_for_everything_the_caller_said(part: str) -> None:
    full, reordered = golden("emission"), dict(reversed(golden("emission").items()))
    assert digest_of(full) == digest_of(reordered)
    assert len(digest_of(full)) == 32
    assert digest_of(without(full, part)) != digest_of(full)
    assert digest_of({"request": full["request"], part: full[part]}) != digest_of({"request": full["request"]})


def test_the_digest_leaves_out_the_remarks_of_lifebus_itself() -> None:
    assert digest_of(without(golden("emission"), "warnings")) == digest_of(golden("emission"))


def digest_of(plain: dict[str, Any]) -> bytes:
    return request_digest(validate(plain, Emission))


@pytest.mark.parametrize("key", sorted(golden("request").keys() - {"schema_version", "event", "integration_mode"}))
def test_the_digest_tells_requests_apart_by_any_of_their_keys(key: str) -> None:
    other: Any = {"frame_context": {"frame_id": "z", "frame_class": "top_level"}, "payload_refs": [], "metadata": {}}
    value = other.get(key, 7 if key == "sequence" else "zz")
    assert request_digest(emission(**{key: value})) != request_digest(emission())


def test_the_digest_does_not_see_how_a_version_was_written() -> None:
    payloads = [golden("payload", schema_version=1)], [golden("payload")]
    one, two = (validate({"request": golden("request"), "payloads": each}, Emission) for each in payloads)
    assert request_digest(one) == request_digest(two)


@pytest.mark.parametrize("document", ["request", "payload"])
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1000, 1000.0, True),
        (0, -0.0, True),
        ({"deep": [2**53 - 1]}, {"deep": [float(2**53 - 1)]}, True),
        (1000, 1000.5, False),
        (1, True, False),
        (1000, "1000", False),
        (1e300, 1e299, False),
    ],
)
def test_a_number_is_the_same_however_it_is_written(document: str, one: object, other: object, same: bool) -> None:
    def digest(value: object) -> bytes:
        bearer = golden(document, metadata={"n": value})
        if document == "request":
            return digest_of({"request": bearer})
        return digest_of({"request": golden("request"), "payloads": [bearer]})

    assert (digest(one) == digest(other)) is same


def test_all_receipts_of_a_dispatch_are_valid_documents() -> None:
    refusal = Refusal(failure_class=FailureClass.INTERNAL_ERROR, detail="")
    receipts = [
        observed(emission=emission(), **STAMP),
        answered("delivered", placement(DELIVERABLE, AFTER_PROMPT, NOWHERE, RECORDED), WEAKER),
        failed(emission=emission(), refusal=refusal, negotiation=WEAKER, placement=placement(NOWHERE), **STAMP),
        observed(emission=gap_in(emission(), "evt_gap", (1, 2)), **STAMP),
    ]
    assert [validate(receipt, Receipt) for receipt in receipts] == receipts
    assert {receipt.invocation_id for receipt in receipts} == {"inv_01"}


@given(documents("emission"))
@settings(deadline=None)
def test_degradations_change_what_an_emission_stands_for_and_their_absence_does_not(fact: Emission) -> None:
    plain = structs.replace(fact, degradations=())
    said = (fact.request, fact.payloads, fact.requirements, fact.telemetry)
    before = said if any(said[1:]) else fact.request
    assert request_digest(plain) == hashlib.sha256(encode_msgpack(before)).digest()
    assert (request_digest(fact) == request_digest(plain)) is (not fact.degradations)
