"""Payloads, scopes and outcomes of actions."""

from typing import Any

import pytest

from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError, StateConflict
from lifebus_contract.actions.payloads import (
    Action,
    ApprovalDecision,
    DecideApproval,
    DecisionScope,
    EnqueueJob,
    SteerTurn,
    TranscriptUpsert,
)
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.rules.outcomes import is_kept, outcome_of_fault, refused, status_of_words
from lifebus_supervisor.actions.rules.payloads import read_action
from lifebus_supervisor.actions.rules.scopes import approval_violation, scope_violation, within

ENTRY = {"messageId": "m1", "turnId": "t1", "role": "system", "type": "note", "content": "", "status": "complete"}
UPSERT = {"sessionId": "s1", "entry": ENTRY}
STEER = {"sessionId": "s1", "turnId": "t1", "input": "go on"}
ENQUEUE = {"type": "command", "projectId": "p1", "payload": {}}
SCOPE = ActionScope(project_id="p1", source_session_id="s1", turn_id="t1")


def read(action_type: str, payload: dict[str, Any]) -> Action | ActionOutcome:
    return read_action(ActionRequest(action_type=action_type, payload=payload))


def action(action_type: str, payload: dict[str, Any]) -> Action:
    found = read(action_type, payload)
    assert not isinstance(found, ActionOutcome), found
    return found


def code_of(outcome: ActionOutcome | None) -> str | None:
    return None if outcome is None else (outcome.details or {})["code"]


def test_each_type_has_its_payload() -> None:
    assert isinstance(read("transcript.upsert", UPSERT), TranscriptUpsert)
    assert read("turn.steer.create", STEER) == SteerTurn(session_id="s1", turn_id="t1", input="go on")
    assert isinstance(read("queue.enqueue", ENQUEUE), EnqueueJob)
    assert read("approval.decide", {"approvalId": "0", "decision": "accept"}) == DecideApproval(
        approval_id="0", decision=ApprovalDecision.ACCEPT, scope=DecisionScope.TURN
    )


def test_an_approval_can_also_be_cancelled() -> None:
    found = action("approval.decide", {"approvalId": "a", "decision": "cancel", "scope": "session"})
    assert found == DecideApproval(approval_id="a", decision=ApprovalDecision.CANCEL, scope=DecisionScope.SESSION)


@pytest.mark.parametrize(
    ("action_type", "payload"),
    [
        ("transcript.upsert", {}),
        ("transcript.upsert", {**UPSERT, "sessionId": ""}),
        ("transcript.upsert", {**UPSERT, "entry": {**ENTRY, "role": "robot"}}),
        ("transcript.upsert", {**UPSERT, "entry": {**ENTRY, "messageId": " "}}),
        ("transcript.upsert", {**UPSERT, "entry": [1]}),
        ("transcript.upsert", {**UPSERT, "entry": {**ENTRY, "startedAt": -1}}),
        ("approval.decide", {"approvalId": "a", "decision": "maybe"}),
        ("approval.decide", {"approvalId": "a", "decision": "accept", "scope": "ever"}),
        ("turn.steer.create", {**STEER, "input": " \n"}),
        ("turn.steer.create", {**STEER, "turnId": None}),
        ("queue.enqueue", {"type": "command", "projectId": "p1"}),
        ("queue.enqueue", {**ENQUEUE, "priority": "urgent"}),
    ],
)
def test_a_payload_of_another_form_is_invalid(action_type: str, payload: dict[str, Any]) -> None:
    found = read(action_type, payload)
    assert isinstance(found, ActionOutcome)
    assert found.status is ActionStatus.INVALID
    assert code_of(found) == "invalid_payload"
    assert (found.details or {})["issues"]


def test_an_unknown_type_is_invalid() -> None:
    found = read("rm.everything", {})
    assert isinstance(found, ActionOutcome)
    assert (found.status, code_of(found)) == ("invalid", "unknown_action_type")


def test_details_of_an_entry_may_be_any_json_and_unknown_keys_are_passed_over() -> None:
    entry = {**ENTRY, "details": {"b": 1, "a": [True]}, "contentBytes": 9, "future": 1}
    found = action("transcript.upsert", {**UPSERT, "entry": entry, "more": 1})
    assert isinstance(found, TranscriptUpsert)
    assert found.entry.details == '{"a":[true],"b":1}'
    assert found.entry.content_bytes is None


@pytest.mark.parametrize(
    ("action_type", "payload", "code"),
    [
        ("transcript.upsert", UPSERT, None),
        ("transcript.upsert", {**UPSERT, "sessionId": "s2"}, "scope_session_mismatch"),
        ("transcript.upsert", {**UPSERT, "entry": {**ENTRY, "turnId": "t2"}}, "scope_turn_mismatch"),
        ("turn.steer.create", STEER, None),
        ("turn.steer.create", {**STEER, "sessionId": "s2"}, "scope_session_mismatch"),
        ("turn.steer.create", {**STEER, "turnId": "t2"}, "scope_turn_mismatch"),
        ("queue.enqueue", ENQUEUE, None),
        ("queue.enqueue", {**ENQUEUE, "projectId": "p2"}, "scope_project_mismatch"),
        ("queue.enqueue", {**ENQUEUE, "sourceSessionId": "s2"}, "scope_session_mismatch"),
        ("queue.enqueue", {**ENQUEUE, "sourceSessionId": "s1"}, None),
    ],
)
def test_an_action_stays_within_its_session_and_turn(
    action_type: str, payload: dict[str, Any], code: str | None
) -> None:
    found = action(action_type, payload)
    outcome = scope_violation(found, SCOPE)
    assert code_of(outcome) == code
    if outcome is not None:
        assert outcome.status is ActionStatus.FORBIDDEN
        details = outcome.details or {}
        assert details["expected"] != details["received"]
    # What nobody knows locks nothing.
    assert scope_violation(found, ActionScope()) is None


@pytest.mark.parametrize(
    ("thread", "turn", "code"),
    [
        ("s1", "t1", None),
        ("s2", "t1", "scope_session_mismatch"),
        ("s1", "t2", "scope_turn_mismatch"),
        ("s1", None, "scope_turn_mismatch"),
    ],
)
def test_an_approval_is_of_the_session_and_turn_or_is_not_decided(
    thread: str, turn: str | None, code: str | None
) -> None:
    assert code_of(approval_violation(thread, turn, SCOPE)) == code
    assert approval_violation(thread, turn, ActionScope()) is None


def test_a_job_inherits_the_session_of_its_scope() -> None:
    inherited = within(action("queue.enqueue", ENQUEUE), SCOPE)
    assert isinstance(inherited, EnqueueJob)
    assert inherited.source_session_id == "s1"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (StateConflict("gone", code="session_deleted"), "not_eligible", "session_deleted"),
        (InvalidRequest("who", code="no_session"), "failed", "session_not_found"),
        (InvalidRequest("big", code="too_large"), "invalid", "too_large"),
        (BrokerBusy("full", code="queue_full"), "failed", "queue_full"),
        (StateConflict("none", code="unknown_job_type"), "failed", "unknown_job_type"),
        (LifebusError("what"), "failed", "failed"),
    ],
)
def test_a_refusal_of_an_executor_is_an_outcome(fault: LifebusError, status: str, code: str) -> None:
    outcome = outcome_of_fault(fault)
    assert (outcome.status, code_of(outcome)) == (status, code)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("no active turn to steer", "conflict"),
        ("expected active turn id t1 but found t2", "conflict"),
        ("approval was already resolved", "already_resolved"),
        ("already handled", "already_resolved"),
        ("thread not found: x", "already_resolved"),
        ("Not eligible for this", "not_eligible"),
        ("a conflict", "conflict"),
        ("out of memory", "failed"),
    ],
)
def test_the_words_of_an_app_server_have_a_status(said: str, status: str) -> None:
    assert status_of_words(said) == status


@pytest.mark.parametrize("status", ActionStatus)
def test_only_final_outcomes_are_kept_under_a_key(status: ActionStatus) -> None:
    kept = status in ("performed", "already_resolved", "not_eligible", "forbidden")
    assert is_kept(ActionOutcome(status=status)) is kept
    # What may have been done is never done again.
    assert is_kept(refused(status, "outcome_unknown", "nobody can tell")) is True
