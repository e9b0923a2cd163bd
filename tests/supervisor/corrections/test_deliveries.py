"""Which calls opened a refused prompt's frame, and what is taken back of what they delivered."""

import os
from typing import Any

import pytest

from lifebus_contract import IdSource, LifecycleEvent, Receipt
from lifebus_supervisor.corrections.deliveries import (
    PROMPT_BLOCKED,
    Mistake,
    blocked_frame,
    calls_of_prompt,
    corrections,
)
from support.receipts import receipt
from support.supervisor.deliveries import of_frame, placed

OPENING, OPENED, ENDED = LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED
STARTING = LifecycleEvent.SESSION_STARTING
WHY = Mistake(refusal=PROMPT_BLOCKED, evidence="the file says so")
IDS = IdSource(lambda: 1, os.urandom)


def end(number: int = 90, **facts: Any) -> Receipt:
    return of_frame(number, ENDED, "inv_next", facts={"frame_end": "blocked", **facts})


@pytest.mark.parametrize(
    ("one", "frame"),
    [
        (end(), "f1"),
        (end(frame_end="unknown"), None),
        (end(client_background=True), None),
        (of_frame(1, OPENING, "inv_1", facts={"frame_end": "blocked"}), None),
        (receipt(1, event=ENDED, telemetry_summary={"frame_end": "blocked"}), None),
    ],
)
def test_only_the_reported_end_of_a_frame_says_that_its_prompt_was_refused(one: Receipt, frame: str | None) -> None:
    assert blocked_frame(one) == frame


def test_the_calls_of_a_prompt_are_those_that_opened_its_frame_and_not_the_one_that_ended_it() -> None:
    before = [
        of_frame(1, ENDED, "inv_a", "f0"),
        of_frame(2, OPENING, "inv_a", parent_receipt_id="lfr_000001"),
        of_frame(3, OPENED, "inv_a", parent_receipt_id="lfr_000002"),
        of_frame(4, OPENING, "inv_b", "f2"),
        of_frame(5, OPENED, "inv_c"),
        of_frame(90, ENDED, "inv_next", client_id="bob", facts={"frame_end": "blocked"}),
    ]
    calls = calls_of_prompt(before, end())
    assert calls.invocations == {"inv_a", "inv_c"}
    assert calls.complete


def test_a_life_before_this_one_under_the_same_id_is_another_prompt() -> None:
    before = [of_frame(1, OPENING, "inv_a"), of_frame(2, ENDED, "inv_b"), of_frame(3, OPENING, "inv_c")]
    assert calls_of_prompt(before, end()).invocations == {"inv_c"}


@pytest.mark.parametrize(
    "before",
    [
        [],
        [of_frame(3, OPENED, "inv_a")],
        [of_frame(3, OPENING, "inv_a", parent_receipt_id="lfr_older")],
    ],
)
def test_what_may_have_begun_earlier_is_not_complete(before: list[Receipt]) -> None:
    assert not calls_of_prompt(before, end()).complete


def test_what_is_corrected_are_payloads_that_were_placed_in_front_of_the_model() -> None:
    payloads = (
        placed(name="a"),
        placed("degraded", "side_channel_context", "b"),
        placed("observed", "receipt_only", "c"),
        placed("skipped", None, "d"),
        placed("failed", None, "e"),
    )
    delivery = of_frame(1, OPENING, "inv_a", payload_receipts=payloads, idempotency_key="k", sequence=7)
    (made,) = corrections([delivery], {"inv_a"}, WHY, IDS, 5)
    assert [(one.payload_id, one.status, one.placement) for one in made.receipt.payload_receipts] == [
        ("pay_a", "failed", "pre_prompt_frame"),
        ("pay_b", "failed", "side_channel_context"),
    ]
    assert (made.receipt.sequence, made.receipt.at_epoch_s) == (None, 5)
    assert made.receipt.idempotency_key == "correction:lfr_000001"
    assert made.receipt.telemetry_summary == {
        "frame_id": "f1",
        "emitter": "lifebus.supervisor",
        "corrects": "lfr_000001",
        "cause": "prompt_blocked",
        "evidence": "the file says so",
    }


def test_all_that_the_refused_prompts_call_delivered_is_corrected_and_nothing_of_other_calls() -> None:
    payload = (placed(),)
    receipts = [
        receipt(1, event=STARTING, invocation_id="inv_start", payload_receipts=payload),
        receipt(2, event=STARTING, invocation_id="inv_a", payload_receipts=payload),
        of_frame(3, OPENING, "inv_a", client_id="bob", payload_receipts=payload),
        of_frame(4, OPENED, "inv_a"),
        of_frame(5, ENDED, "inv_next", payload_receipts=payload),
    ]
    made = [one.receipt for one in corrections(receipts, {"inv_a"}, WHY, IDS, 5)]
    assert [(one.client_id, one.event.value, one.parent_receipt_id) for one in made] == [
        ("alice", "session.starting", "lfr_000002"),
        ("bob", "frame.opening", "lfr_000003"),
    ]


def test_a_correction_is_not_corrected_and_its_digest_is_of_the_delivery_alone() -> None:
    delivery = of_frame(1, OPENING, "inv_a", payload_receipts=(placed(),))
    (first,) = corrections([delivery], {"inv_a"}, WHY, IDS, 5)
    other = Mistake(refusal=PROMPT_BLOCKED, evidence="another")
    (second,) = corrections([delivery, first.receipt], {"inv_a"}, other, IDS, 6)
    assert (second.digest, second.receipt.idempotency_key) == (first.digest, first.receipt.idempotency_key)
    assert corrections([first.receipt], {"inv_a"}, WHY, IDS, 7) == []
