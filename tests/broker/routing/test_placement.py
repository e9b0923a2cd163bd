"""Placement as a table: where a payload asks to land, what the adapter has, where it lands (docs/contract.md 5.4)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.routing.placement import NO_SLOTS_USED, PlacementResult, place
from lifebus_broker.routing.slots import Rejection, RejectionReason, Slot, SlotUse
from lifebus_contract import (
    AdapterManifest,
    CallbackRequest,
    ConformanceLevel,
    FailureClass,
    PayloadEnvelope,
    PlacementClass,
    RegisteredAdapter,
    RetryClass,
    encode_json,
    validate,
)
from lifebus_contract.payload_text import text_size
from support.golden import golden

DEVELOPER, PROMPT, SIDE, RECEIPT = (
    "developer_equivalent_frame",
    "pre_prompt_frame",
    "side_channel_context",
    "receipt_only",
)
SLOTS = ("pre_session", "pre_frame_leading", "pre_frame_trailing", "tool_result", "manual_operator")
ALL_NATIVE: dict[str, Any] = dict.fromkeys(SLOTS, "native")
SESSION, FRAME = ("session.starting", "session.started"), ("frame.opening", "frame.opened")
OTHER = ("frame.ending", "frame.ended", "session.ending", "session.ended", "context.compacted", "supervisor.tick")


def adapter(refused: tuple[str, ...] = (), /, **slots: Any) -> RegisteredAdapter:
    claims = {slot: claim if isinstance(claim, dict) else {"support": claim} for slot, claim in slots.items()}
    return RegisteredAdapter(
        manifest=validate(golden("manifest", placement=claims), AdapterManifest),
        conformance=ConformanceLevel.V1,
        refused_placements=frozenset(PlacementClass(name) for name in refused),
    )


def payload(*acceptable: str, payload_id: str = "pay_01", body: str = "text") -> PayloadEnvelope:
    """Return a payload whose acceptable placements are written ``placement`` (required) or ``placement/level``."""
    pairs = [one.split("/") if "/" in one else (one, "required") for one in acceptable]
    plain = golden("payload", payload_id=payload_id, body=body, byte_size=len(body))
    plain["acceptable_placements"] = [{"placement": name, "requirement": level} for name, level in pairs]
    return validate(plain, PayloadEnvelope)


def request(event: str = "frame.opening", mode: str = "native_hook") -> CallbackRequest:
    return validate(golden("request", event=event, integration_mode=mode), CallbackRequest)


def placed(
    *payloads: PayloadEnvelope,
    event: str = "frame.opening",
    on: RegisteredAdapter | None = None,
    used: SlotUse = NO_SLOTS_USED,
) -> PlacementResult:
    return place(payloads, request(event), on or adapter(**ALL_NATIVE), used)


def landed(found: PlacementResult) -> list[tuple[str | None, str]]:
    return [(receipt.placement and receipt.placement.value, receipt.status.value) for receipt in found.receipts]


def slots(found: PlacementResult) -> list[tuple[str, str]]:
    return [(payload.payload_id, slot.value) for payload, slot in found.deliveries]


@pytest.mark.parametrize(
    ("placement", "event", "slot"),
    [
        *((DEVELOPER, event, "pre_session") for event in SESSION),
        *((DEVELOPER, event, "pre_frame_leading") for event in FRAME),
        *((PROMPT, event, "pre_session") for event in SESSION),
        *((PROMPT, event, "pre_frame_leading") for event in FRAME),
        *((SIDE, event, "tool_result") for event in SESSION + FRAME + OTHER),
    ],
)
def test_a_placement_takes_its_first_slot(placement: str, event: str, slot: str) -> None:
    found = placed(payload(placement), event=event)
    assert slots(found) == [("pay_01", slot)]
    assert landed(found) == [(placement, "delivered")]
    assert (found.warnings, found.rejections, found.refusal) == ((), (), None)


@pytest.mark.parametrize(
    ("placement", "event", "slot", "status"),
    [
        *((DEVELOPER, event, "pre_frame_trailing", "delivered") for event in FRAME),
        *((PROMPT, event, "pre_frame_trailing", "degraded") for event in FRAME),
        (SIDE, "frame.opening", "manual_operator", "delivered"),
    ],
)
def test_without_the_first_slot_the_next_one_is_taken(placement: str, event: str, slot: str, status: str) -> None:
    without_first = ALL_NATIVE | {"pre_frame_leading": "unavailable", "tool_result": "unavailable"}
    found = placed(payload(placement), event=event, on=adapter(**without_first))
    assert slots(found) == [("pay_01", slot)]
    assert landed(found) == [(placement, status)]
    assert [rejection.reason for _, rejection in found.rejections] == [RejectionReason.UNAVAILABLE]


@pytest.mark.parametrize("event", OTHER)
@pytest.mark.parametrize("placement", [DEVELOPER, PROMPT])
def test_prompt_time_placements_have_no_slot_on_other_events(placement: str, event: str) -> None:
    found = placed(payload(placement), event=event)
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PLACEMENT_UNAVAILABLE
    assert [rejection.reason for _, rejection in found.rejections] == [RejectionReason.NO_SLOT]


def test_text_that_lands_after_the_prompt_is_degraded_with_a_warning() -> None:
    found = placed(payload(PROMPT), on=adapter(pre_frame_trailing="native"))
    (warning,) = found.warnings
    assert (warning.code, warning.capability) == ("placed_after_prompt", "placement:pre_frame_trailing")
    assert "pay_01" in warning.message


@pytest.mark.parametrize("slot", ["pre_frame_leading", "pre_frame_trailing"])
def test_a_partial_slot_delivers_degraded_with_a_warning(slot: str) -> None:
    found = placed(payload(DEVELOPER), on=adapter(**{slot: "partial"}))
    assert landed(found) == [(DEVELOPER, "degraded")]
    assert [(warning.code, warning.capability) for warning in found.warnings] == [
        ("placement_partial", f"placement:{slot}")
    ]


def test_a_manual_slot_is_not_filled_by_itself() -> None:
    found = placed(payload(SIDE), on=adapter(manual_operator="manual"))
    assert found.refusal is not None
    assert "side_channel_context in manual_operator: needs_operator" in found.refusal.detail


@pytest.mark.parametrize("event", SESSION + FRAME + OTHER)
def test_receipt_only_can_always_be_had_and_delivers_nothing(event: str) -> None:
    found = placed(payload(RECEIPT), event=event, on=adapter())
    assert landed(found) == [(RECEIPT, "observed")]
    assert found.deliveries == ()


def test_a_payload_receipt_holds_metadata_and_never_the_body() -> None:
    found = placed(payload(RECEIPT, body="a secret"))
    assert b"a secret" not in encode_json(found.receipts[0])
    assert found.receipts[0].byte_size == 8
    assert found.receipts[0].content_digest == golden("payload")["content_digest"]


def test_the_first_satisfiable_placement_in_client_order_wins() -> None:
    some = adapter(pre_frame_leading="native", tool_result="native")
    assert landed(placed(payload(SIDE, DEVELOPER), on=some)) == [(SIDE, "delivered")]
    assert landed(placed(payload(DEVELOPER, SIDE), on=some)) == [(DEVELOPER, "delivered")]
    assert landed(placed(payload(DEVELOPER, RECEIPT), on=adapter())) == [(RECEIPT, "observed")]


def test_a_payload_is_delivered_once_even_if_several_placements_could_be_had() -> None:
    assert len(placed(payload(DEVELOPER, PROMPT, SIDE)).deliveries) == 1


@pytest.mark.parametrize("level", ["preferred", "optional"])
def test_without_any_place_and_nothing_required_a_payload_is_skipped(level: str) -> None:
    found = placed(payload(f"{DEVELOPER}/{level}", f"{SIDE}/{level}"), on=adapter())
    assert landed(found) == [(None, "skipped")]
    assert (found.refusal, found.deliveries) == (None, ())
    assert [warning.code for warning in found.warnings] == (["placement_rejected"] if level == "preferred" else [])


def test_without_any_place_and_one_of_them_required_the_operation_fails() -> None:
    found = placed(payload(f"{DEVELOPER}/preferred", SIDE), on=adapter())
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PLACEMENT_UNAVAILABLE
    assert found.refusal.retry_class is RetryClass.RETRY_AFTER_RECONFIGURE
    assert landed(found) == [(None, "failed")]


def test_a_required_placement_that_is_missed_is_made_good_by_another_one() -> None:
    found = placed(payload(DEVELOPER, f"{SIDE}/preferred"), on=adapter(tool_result="native"))
    assert landed(found) == [(SIDE, "delivered")]
    assert "developer_equivalent_frame in pre_frame_leading: unavailable" in found.warnings[0].message


def test_one_failing_payload_keeps_the_others_from_being_delivered() -> None:
    found = placed(
        payload(DEVELOPER, payload_id="a"), payload(SIDE, payload_id="b"), on=adapter(pre_frame_leading="native")
    )
    assert landed(found) == [(None, "skipped"), (None, "failed")]
    assert (found.deliveries, found.used) == ((), {})


def test_when_only_the_size_was_in_the_way_the_payload_is_too_large() -> None:
    long = payload(PROMPT, body="x" * 100)
    found = placed(long, on=adapter(pre_frame_trailing={"support": "native", "max_bytes": 100}))
    assert found.refusal is not None
    assert found.refusal.failure_class is FailureClass.PAYLOAD_TOO_LARGE
    assert found.refusal.retry_class is RetryClass.DO_NOT_RETRY
    assert f"too_large, {text_size([long])} bytes with a limit of 100" in found.refusal.detail
    assert found.rejections[-1] == (
        "pay_01",
        Rejection(
            placement=PlacementClass.PRE_PROMPT_FRAME,
            reason=RejectionReason.TOO_LARGE,
            slot=Slot.PRE_FRAME_TRAILING,
            size=text_size([long]),
            limit=100,
        ),
    )


def test_a_slot_too_small_gives_way_to_the_next_one() -> None:
    small = adapter(pre_frame_leading={"support": "native", "max_bytes": 10}, pre_frame_trailing="native")
    assert slots(placed(payload(DEVELOPER), on=small)) == [("pay_01", "pre_frame_trailing")]


def test_a_limit_counts_the_rendered_text_to_the_byte() -> None:
    one = payload(DEVELOPER, body="grüße")
    exact = {"support": "native", "max_bytes": text_size([one])}
    assert placed(one, on=adapter(pre_frame_leading=exact)).refusal is None
    less = {"support": "native", "max_bytes": text_size([one]) - 1}
    assert placed(one, on=adapter(pre_frame_leading=less)).refusal is not None


def test_the_payloads_of_a_slot_share_its_limit() -> None:
    first, second, third = (payload(f"{DEVELOPER}/preferred", payload_id=f"pay_{n}") for n in range(3))
    two_fit = {"support": "native", "max_bytes": text_size([first, second])}
    found = placed(first, second, third, on=adapter(pre_frame_leading=two_fit))
    assert landed(found) == [(DEVELOPER, "delivered"), (DEVELOPER, "delivered"), (None, "skipped")]
    assert found.used == {Slot.PRE_FRAME_LEADING: (first, second)}


def test_the_events_of_a_hook_call_share_the_limits_too() -> None:
    first, second = payload(DEVELOPER, payload_id="a"), payload(f"{DEVELOPER}/preferred", payload_id="b")
    one_fits = adapter(pre_session={"support": "native", "max_bytes": text_size([first]) + 10})
    starting = placed(first, event="session.starting", on=one_fits)
    started = placed(second, event="session.started", on=one_fits, used=starting.used)
    assert landed(started) == [(None, "skipped")]
    assert started.used == starting.used == {Slot.PRE_SESSION: (first,)}
    assert landed(placed(second, event="session.started", on=one_fits)) == [(DEVELOPER, "delivered")]


def test_slots_have_limits_of_their_own() -> None:
    first, second = payload(DEVELOPER, payload_id="a"), payload(SIDE, payload_id="b")
    each = {"support": "native", "max_bytes": text_size([first])}
    assert placed(first, second, on=adapter(pre_frame_leading=each, tool_result=each)).refusal is None


def test_an_adapter_may_narrow_the_table() -> None:
    narrow = adapter((DEVELOPER,), **ALL_NATIVE)
    found = placed(payload(DEVELOPER, PROMPT), on=narrow)
    assert landed(found) == [(PROMPT, "delivered")]
    assert found.rejections[0][1].reason is RejectionReason.REFUSED_BY_ADAPTER
    assert landed(placed(payload(RECEIPT), on=adapter((RECEIPT,)))) == [(RECEIPT, "observed")]


def test_what_comes_by_telemetry_cannot_carry_a_payload() -> None:
    watched = request(mode="telemetry_only")
    found = place([payload(f"{DEVELOPER}/preferred"), payload(RECEIPT, payload_id="b")], watched, adapter(**ALL_NATIVE))
    assert landed(found) == [(None, "skipped"), (RECEIPT, "observed")]
    assert found.rejections[0][1].reason is RejectionReason.TELEMETRY_ONLY


def test_payloads_by_reference_are_placed_like_the_others() -> None:
    plain = golden("payload", body=None, body_ref="store:1", content_digest=None)
    found = placed(validate(plain, PayloadEnvelope))
    assert landed(found) == [(DEVELOPER, "delivered")]
    assert "content_digest" not in encode_json(found.receipts[0]).decode()


def test_no_payloads_leave_the_slots_as_they_were() -> None:
    used = {Slot.PRE_SESSION: (payload(DEVELOPER),)}
    assert placed(used=used) == PlacementResult(used=used)


def test_receipts_come_in_the_order_of_the_payloads() -> None:
    names = ["c", "a", "b"]
    found = placed(*(payload(f"{DEVELOPER}/preferred", payload_id=name) for name in names))
    assert [receipt.payload_id for receipt in found.receipts] == names
    assert [name for name, _ in slots(found)] == names


ACCEPTABLE = st.lists(
    st.tuples(st.sampled_from(list(PlacementClass)), st.sampled_from(["required", "preferred", "optional"])),
    min_size=1,
    max_size=3,
)
LIMITS = st.dictionaries(
    st.sampled_from(SLOTS),
    st.fixed_dictionaries(
        {"support": st.sampled_from(["native", "synthesized", "partial", "manual", "unavailable"])},
        optional={"max_bytes": st.integers(0, 400)},
    ),
)


@given(
    st.lists(st.tuples(ACCEPTABLE, st.text("aé🚀", max_size=60)), max_size=5),
    LIMITS,
    st.sampled_from(SESSION + FRAME + OTHER),
)
@settings(deadline=None)
def test_whatever_is_placed_fits_and_is_accounted_for(
    asked: list[tuple[list[tuple[str, str]], str]], limits: dict[str, Any], event: str
) -> None:
    payloads = [
        payload(*(f"{placement}/{level}" for placement, level in acceptable), payload_id=f"pay_{number}", body=body)
        for number, (acceptable, body) in enumerate(asked)
    ]
    on = adapter(**limits)
    found = placed(*payloads, event=event, on=on)
    delivered = [name for name, _ in slots(found)]
    assert [receipt.payload_id for receipt in found.receipts] == [each.payload_id for each in payloads]
    assert delivered == [
        receipt.payload_id for receipt in found.receipts if receipt.status in {"delivered", "degraded"}
    ]
    assert (found.refusal is not None) == any(receipt.status == "failed" for receipt in found.receipts)
    for slot, carried in found.used.items():
        limit = on.manifest.placement[slot].max_bytes
        assert on.manifest.placement[slot].support in {"native", "synthesized", "partial"}
        assert limit is None or text_size(carried) <= limit
