"""What `--failed` finds and what a canary is, case by case, as the table in docs/consuming.md has it."""

from typing import Any

import pytest

from lifebus_contract import FailureClass, LifecycleEvent, ReceiptStatus
from lifebus_contract.facts.selections import tells_of_canary, tells_of_failure
from support.receipts import receipt

FRAME_ENDED, SESSION_ENDED = LifecycleEvent.FRAME_ENDED, LifecycleEvent.SESSION_ENDED
TICK = LifecycleEvent.SUPERVISOR_TICK


@pytest.mark.parametrize("event", [each for each in LifecycleEvent if each is not LifecycleEvent.RECEIPT_EMITTED])
@pytest.mark.parametrize("end", ["failed", "completed", "interrupted", "blocked", "abandoned", None, True])
@pytest.mark.parametrize("status", ReceiptStatus)
def test_a_failure_is_a_failed_receipt_or_the_end_of_what_failed(
    event: LifecycleEvent, end: object, status: ReceiptStatus
) -> None:
    failure = FailureClass.TIMEOUT if status is ReceiptStatus.FAILED else None
    facts = {"frame_end": end, "session_end": end, "announced_end": "failed"}
    made = receipt(1, event=event, status=status, failure_class=failure, telemetry_summary=facts)
    ended = end == "failed" and event in {FRAME_ENDED, SESSION_ENDED}
    assert tells_of_failure(made) == (ended or status is ReceiptStatus.FAILED)


def test_each_end_has_its_own_fact() -> None:
    assert not tells_of_failure(receipt(1, event=FRAME_ENDED, telemetry_summary={"session_end": "failed"}))
    assert not tells_of_failure(receipt(1, event=SESSION_ENDED, telemetry_summary={"frame_end": "failed"}))


@pytest.mark.parametrize(
    ("failure", "facts", "failed"),
    [
        (FailureClass.OPERATOR_REQUIRED, {"waiting": "begun", "waiting_for": "permission"}, False),
        # a client that was asked about a wait, and did not answer
        (FailureClass.TIMEOUT, {"waiting": "begun", "waiting_for": "permission"}, True),
        (FailureClass.OPERATOR_REQUIRED, {}, True),
    ],
)
def test_a_question_to_a_person_is_no_failure(failure: FailureClass, facts: dict[str, Any], failed: bool) -> None:
    status = ReceiptStatus.FAILED
    made = receipt(1, event=TICK, status=status, failure_class=failure, telemetry_summary=facts)
    assert tells_of_failure(made) is failed


@pytest.mark.parametrize(
    ("client", "facts", "is_one"),
    [
        ("lifebus.hook", {"source_hook": "lifebus.canary", "canary": "canary_1"}, True),
        # a client that was asked about it
        ("alice", {"source_hook": "lifebus.canary", "emitter": "lifebus.hook"}, True),
        ("lifebus.hook", {"source_hook": "Stop", "canary": "canary_1"}, False),
        ("lifebus.hook", {"canary": "canary_1"}, False),
        # an app's own facts
        ("alice", {"source_hook": "lifebus.canary", "canary": "canary_1"}, False),
        ("alice", {"source_hook": "lifebus.canary", "emitter": "bob"}, False),
        ("lifebus.hook", {"source_hook": "lifebus.canary.2"}, False),
    ],
)
def test_a_canary_is_known_by_its_hook_and_by_who_reports_it(client: str, facts: dict[str, Any], is_one: bool) -> None:
    assert tells_of_canary(receipt(1, event=TICK, client_id=client, telemetry_summary=facts)) is is_one
