"""What waits for somebody stays pending until it is settled: a try, a question, a payload (docs/contract.md 10)."""

from typing import Any

import pytest
from msgspec import UNSET

from lifebus_broker.canonical_json import canonical
from lifebus_broker.state import working_set as working
from lifebus_broker.state.pending import MAX_WAITING
from lifebus_broker.state.stores import dump_stores, load_stores, pending_of
from lifebus_contract import (
    FailureClass,
    LifecycleEvent,
    PayloadReceipt,
    PlacementClass,
    ReceiptStatus,
    RetryClass,
)
from support.histories import lines_of, replayed
from support.receipts import entry

OPENING, OPENED, CLOSED = LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED
STARTED, ENDED, TICK = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED, LifecycleEvent.SUPERVISOR_TICK
KEY = {"adapter_id": "codex", "harness_session_id": "s1"}

Step = dict[str, Any]


def pending(*steps: Step) -> dict[str, Any]:
    """Return what is pending after receipts, by kind; the same after a dump and a load."""
    stores = replayed(lines_of([entry(number, **step) for number, step in enumerate(steps, 1)]))
    found = pending_of(stores)
    assert pending_of(load_stores(dump_stores(stores))) == found
    canonical(found)
    return found or {}


def asks(**more: Any) -> Step:
    failed = {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.OPERATOR_REQUIRED}
    return {"event": OPENING, **failed, "retry_class": RetryClass.RETRY_AFTER_OPERATOR, **more}


def payload(name: str, placed: PlacementClass | None = None, status: ReceiptStatus | None = None) -> PayloadReceipt:
    default = ReceiptStatus.SKIPPED if placed is None else ReceiptStatus.DELIVERED
    return PayloadReceipt(
        byte_size=1,
        content_digest=UNSET,
        payload_id=name,
        payload_kind="note",
        placement=placed,
        status=status or default,
    )


def harness_asks(outcome: str = "asked", number: int | str = 7, **facts: Any) -> Step:
    said = {"operator": outcome, "operator_kind": "command_approval", "request_id": number, **facts}
    return {"event": TICK, "client_id": "lifebus.app_server", "telemetry_summary": said}


def test_a_frame_without_a_recorded_end_is_a_pending_roll() -> None:
    opened = {"event": OPENED, "telemetry_summary": {"frame_id": "f1"}}
    assert pending(opened) == {
        "PENDING_ROLL": [{**KEY, "frame_id": "f1", "opened_at_epoch_s": 1_790_000_000, "position": 1}]
    }
    assert pending(opened, {"event": CLOSED, "telemetry_summary": {"frame_id": "f1"}}) == {}
    assert pending(opened, {"event": ENDED})["PENDING_ROLL"], "the end of the session is no end of the try"


@pytest.mark.parametrize(
    "question",
    [
        asks(),
        asks(retry_class=None),
        asks(failure_class=FailureClass.TIMEOUT),
        asks(status=ReceiptStatus.DEGRADED, failure_class=FailureClass.CAPABILITY_DEGRADED),
    ],
)
def test_what_only_an_operator_can_settle_is_a_pending_consent(question: Step) -> None:
    asked = [{**KEY, "about": "frame.opening", "client_id": "alice", "position": 1}]
    assert pending(question) == {"PENDING_CONSENT": asked}
    nothing_new = [asks(failure_class=FailureClass.TIMEOUT, retry_class=RetryClass.SAFE_RETRY), {"event": OPENED}]
    assert pending(question, *nothing_new, {"event": OPENING, "client_id": "bob"}) == {"PENDING_CONSENT": asked}


@pytest.mark.parametrize("status", [ReceiptStatus.OBSERVED, ReceiptStatus.DELIVERED, ReceiptStatus.SKIPPED])
def test_a_question_is_settled_when_the_same_client_succeeds_on_the_same_thing(status: ReceiptStatus) -> None:
    assert pending(asks(), {"event": OPENING, "status": status}) == {}


def test_a_question_is_settled_by_the_end_of_its_session_and_none_is_open_after_it() -> None:
    assert pending(asks(), {"event": ENDED}) == {}
    assert pending({"event": ENDED}, asks(event=TICK)) == {}
    assert pending({"event": ENDED}, {"event": STARTED}, asks(event=TICK))
    assert pending({"event": ENDED}, asks()), "a frame that opens after the end opens the session again"


def test_a_question_that_is_asked_again_waits_once_where_it_was_asked_last() -> None:
    (one,) = pending(asks(), asks())["PENDING_CONSENT"]
    assert one["position"] == 2


@pytest.mark.parametrize("outcome", ["answered", "resolved", "unanswered"])
def test_a_harness_that_waits_for_a_person_is_a_pending_consent_until_it_does_not(outcome: str) -> None:
    (one,) = pending(harness_asks(frame_id="f1"))["PENDING_CONSENT"]
    assert one["about"] == "command_approval:int:7"
    assert one["frame_id"] == "f1"
    assert pending(harness_asks(), harness_asks(outcome)) == {}
    assert pending(harness_asks(), harness_asks(outcome, "7")) != {}, "a number is no text"


def test_a_harness_does_not_wait_beyond_its_frame() -> None:
    def ended(frame: str) -> Step:
        return {"event": CLOSED, "telemetry_summary": {"frame_id": frame}}

    assert pending(harness_asks(frame_id="f1"), ended("f2"))
    assert pending(harness_asks(frame_id="f1"), ended("f1")) == {}
    assert pending(asks(telemetry_summary={"frame_id": "f1"}), ended("f1")), "a client's question outlives the frame"


def test_a_question_that_clients_got_as_well_is_one() -> None:
    asked = harness_asks(emitter="lifebus.app_server")
    assert len(pending(harness_asks(), {**asked, "client_id": "bob"})["PENDING_CONSENT"]) == 1


def test_a_background_client_repeats_no_question_that_was_answered_and_has_questions_of_its_own() -> None:
    late: dict[str, Any] = {"client_background": True, "emitter": "lifebus.app_server"}
    assert pending(harness_asks(), harness_asks("answered"), {**harness_asks(**late), "client_id": "bob"}) == {}
    assert pending(asks(telemetry_summary={"client_background": True}))["PENDING_CONSENT"]


def test_a_payload_that_was_accepted_and_not_placed_is_a_pending_handout() -> None:
    skipped = {"event": OPENING, "payload_receipts": (payload("p1"), payload("p2", PlacementClass.RECEIPT_ONLY))}
    waits = [{**KEY, "client_id": "alice", "payload_id": "p1", "payload_kind": "note", "position": 1}]
    assert pending(skipped) == {"PENDING_HANDOUT": waits}
    placed = {"event": OPENED, "payload_receipts": (payload("p1", PlacementClass.PRE_PROMPT_FRAME),)}
    assert pending(skipped, {**placed, "client_id": "bob"}) == {"PENDING_HANDOUT": waits}
    assert pending(skipped, placed) == {}
    assert pending(skipped, {"event": ENDED}) == {}


def test_a_payload_that_was_refused_waits_for_nothing() -> None:
    failed = {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.PLACEMENT_UNAVAILABLE}
    payloads = (payload("p1"), payload("p2", status=ReceiptStatus.FAILED))
    assert pending({"event": OPENING, "payload_receipts": payloads, **failed}) == {}
    assert pending({"event": OPENING, "payload_receipts": payloads[1:]}) == {}


def test_receipts_without_a_session_leave_nothing_pending() -> None:
    assert pending(asks(harness_session_id=None), {"event": OPENING, "payload_receipts": (payload("p"),)}) != {}
    assert pending(asks(harness_session_id=None)) == {}


def test_a_session_remembers_so_many_and_a_listing_shows_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [harness_asks(number=number) for number in range(MAX_WAITING + 3)]
    found = pending(*many)["PENDING_CONSENT"]
    assert [one["position"] for one in found] == list(range(4, MAX_WAITING + 4))
    monkeypatch.setattr(working, "MAX_PENDING", 2)
    left = MAX_WAITING - 2
    assert pending(*many) == {"PENDING_CONSENT": found[-2:], "left_out": {"PENDING_CONSENT": left}}
