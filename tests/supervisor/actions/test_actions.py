"""Actions: within their scope, and with an outcome for whatever happens."""

from typing import Any

import pytest

from lifebus_contract import BrokerBusy, InvalidRequest, StateConflict
from lifebus_contract.extensions import ActionOutcome, ActionScope, ActionStatus
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState
from lifebus_supervisor.transcripts.session_marks import SessionKind
from support.actions.boxes import (
    ActionBox,
    approval,
    code_of,
    enqueue,
    fresh_box,
    steer,
    upsert,
)


async def content(box: ActionBox, session: str = "s1") -> list[str]:
    return [one.content for one in await box.transcripts.entries(session)]


# What each action does.


async def test_an_entry_is_written() -> None:
    async with fresh_box() as box:
        outcome = await box.ask("transcript.upsert", upsert(details={"a": 1}))
        assert outcome == ActionOutcome(status=ActionStatus.PERFORMED, details={"messageId": "m1", "turnId": "t1"})
        (written,) = await box.transcripts.entries("s1")
        assert (written.content, written.details) == ("text", '{"a":1}')
        assert [one["type"] for one in box.transcripts.events] == ["transcript_updated"]


async def test_a_job_is_queued_with_the_session_of_its_scope() -> None:
    async with fresh_box() as box:
        outcome = await box.ask("queue.enqueue", enqueue(), idempotency_key="k")
        (job,) = box.queue.queued
        assert (job.type, job.project_id, job.source_session_id, job.payload) == ("command", "p1", "s1", {"n": 1})
        assert outcome.status == "performed"
        assert (outcome.details or {})["enqueueStatus"] == "enqueued"
        assert (outcome.details or {})["job"]["id"] == job.job_id


async def test_an_approval_is_decided_once() -> None:
    async with fresh_box() as box:
        payload = {"approvalId": "a1", "decision": "decline"}
        first = await box.ask("approval.decide", payload)
        assert (first.status, box.app_server.decided) == ("performed", [("a1", "decline", "turn")])
        late = await box.ask("approval.decide", payload)
        assert (late.status, code_of(late)) == ("already_resolved", "approval_not_pending")
        assert len(box.app_server.decided) == 1


async def test_a_turn_is_steered() -> None:
    async with fresh_box() as box:
        assert (await box.steer("look here")).status == "performed"
        assert box.app_server.steers == [("s1", "t1", "look here")]


# Scope and sessions.


@pytest.mark.parametrize(
    ("action_type", "payload", "code"),
    [
        ("transcript.upsert", {**upsert(), "sessionId": "s2"}, "scope_session_mismatch"),
        ("transcript.upsert", upsert(turnId="t2"), "scope_turn_mismatch"),
        ("turn.steer.create", {**steer(), "sessionId": "s2"}, "scope_session_mismatch"),
        ("queue.enqueue", enqueue(projectId="p2"), "scope_project_mismatch"),
        ("approval.decide", {"approvalId": "other", "decision": "accept"}, "scope_session_mismatch"),
        ("approval.decide", {"approvalId": "earlier", "decision": "accept"}, "scope_turn_mismatch"),
    ],
)
async def test_nothing_is_done_outside_of_the_scope(action_type: str, payload: dict[str, Any], code: str) -> None:
    async with fresh_box() as box:
        box.app_server.approvals |= {"other": approval("other", "s2"), "earlier": approval("earlier", "s1", "t0")}
        outcome = await box.ask(action_type, payload, idempotency_key="k")
        assert (outcome.status, code_of(outcome)) == ("forbidden", code)
        again = await box.ask(action_type, payload, idempotency_key="k")
        assert again == outcome
        assert not box.app_server.decided
        assert not box.app_server.steers
        assert not box.queue.queued
        assert not await content(box, "s2")


@pytest.mark.parametrize("kind", SessionKind)
@pytest.mark.parametrize("action_type", ["transcript.upsert", "turn.steer.create", "approval.decide", "queue.enqueue"])
async def test_deleted_sessions_and_those_of_workers_are_kept_apart(kind: SessionKind, action_type: str) -> None:
    payloads = {
        "transcript.upsert": upsert(),
        "turn.steer.create": steer(),
        "approval.decide": {"approvalId": "a1", "decision": "accept"},
        "queue.enqueue": enqueue(),
    }
    async with fresh_box() as box:
        if kind is SessionKind.DELETED:
            await box.transcripts.store.delete("s1")
        elif kind is SessionKind.SYSTEM:
            await box.transcripts.marks.mark_system("s1", 1)
        outcome = await box.ask(action_type, payloads[action_type])
        expected: tuple[str, object] = ("performed", None)
        if kind is SessionKind.DELETED:
            expected = ("not_eligible", "session_deleted")
        elif kind is SessionKind.SYSTEM and action_type in ("turn.steer.create", "approval.decide"):
            expected = ("forbidden", "system_session")
        assert (outcome.status, code_of(outcome)) == expected


async def test_an_unknown_session_is_said() -> None:
    async with fresh_box() as box:
        outcome = await box.ask("transcript.upsert", {**upsert(), "sessionId": "nobody"}, ActionScope())
        assert (outcome.status, code_of(outcome)) == ("failed", "session_not_found")


# Faults.


@pytest.mark.parametrize(
    ("state", "said", "status", "code"),
    [
        (ControlState.LATE, "", "already_resolved", "already_resolved"),
        (ControlState.REFUSED, "no active turn to steer", "conflict", "app_server_refused"),
        (ControlState.REFUSED, "what is that", "failed", "app_server_refused"),
        (ControlState.UNREACHABLE, "", "failed", "app_server_unreachable"),
        (ControlState.UNKNOWN, "", "failed", "outcome_unknown"),
    ],
)
async def test_what_an_app_server_answers_is_the_outcome(
    state: ControlState, said: str, status: str, code: str
) -> None:
    async with fresh_box() as box:
        box.app_server.answer = ControlOutcome(state, said)
        outcome = await box.steer()
        assert (outcome.status, code_of(outcome)) == (status, code)


async def test_without_app_servers_nothing_is_claimed() -> None:
    async with fresh_box() as box:
        box.actions.performers = type(box.actions.performers)(
            transcripts=box.transcripts.store, sessions=box.transcripts.marks
        )
        for outcome in (
            await box.steer(),
            await box.ask("approval.decide", {"approvalId": "a1", "decision": "accept"}),
        ):
            assert (outcome.status, code_of(outcome)) == ("failed", "app_server_unreachable")
        assert code_of(await box.ask("queue.enqueue", enqueue())) == "queue_off"


@pytest.mark.parametrize(
    ("payload", "code"),
    [({"x": float("nan")}, "invalid_payload"), ({"input": "x" * 300_000}, "too_large"), ({}, "invalid_payload")],
)
async def test_a_bad_payload_is_invalid(payload: dict[str, Any], code: str) -> None:
    async with fresh_box() as box:
        outcome = await box.ask("turn.steer.create", payload, idempotency_key="k")
        assert (outcome.status, code_of(outcome)) == ("invalid", code)
        # It holds no key: the same one may come with what was meant.
        assert (await box.steer(key="k")).status == "performed"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (BrokerBusy("full", code="queue_full"), "failed"),
        (InvalidRequest("what", code="invalid_payload"), "invalid"),
        (StateConflict("taken", code="job_exists"), "failed"),
    ],
)
async def test_a_refusal_of_the_queue_is_an_outcome_and_frees_the_key(fault: Any, status: str) -> None:
    async with fresh_box() as box:
        box.queue.fault = fault
        outcome = await box.ask("queue.enqueue", enqueue(), idempotency_key="k")
        assert (outcome.status, code_of(outcome)) == (status, fault.code)
        box.queue.fault = None
        assert (await box.ask("queue.enqueue", enqueue(n=2), idempotency_key="k")).status == "performed"
