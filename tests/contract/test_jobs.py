"""The wire types of the queue: the specification's keys, its names of events, and what is refused."""

import msgspec
import pytest

from lifebus_contract.jobs import (
    AgentInstruction,
    Job,
    JobEvent,
    JobEventPayload,
    JobEventType,
    JobPriority,
    JobState,
    NewJob,
    RunningContext,
    SuggestedRequestPayload,
    SuggestionStatus,
    thread_of,
)

KEYS = (
    "id,type,version,projectId,sourceSessionId,priority,state,dedupeKey,payload,result,error,attempts,maxAttempts,"
    "createdAt,startedAt,completedAt,cancelRequestedAt,nextAttemptAt,lastAttemptAt,runningContext"
)
PARTS = {
    "agent": "reviewer",
    "jobKind": "turn_supervisor_review",
    "projectId": "p",
    "sourceSessionId": "s",
    "threadId": "t",
    "turnId": "u",
    "instructionText": "look",
}


def test_a_job_has_the_keys_of_the_contract_and_null_where_nothing_is_known() -> None:
    job = Job(
        id="j",
        type="command",
        version=1,
        project_id="p",
        source_session_id=None,
        priority=JobPriority.INTERACTIVE,
        state=JobState.QUEUED,
        dedupe_key=None,
        payload={},
        result=None,
        error=None,
        attempts=0,
        max_attempts=2,
        created_at="2026-11-23T13:00:00.000Z",
        started_at=None,
        completed_at=None,
        cancel_requested_at=None,
        next_attempt_at=None,
        last_attempt_at=None,
        running_context=RunningContext(),
    )
    assert ",".join(msgspec.to_builtins(job)) == KEYS
    assert msgspec.to_builtins(job)["runningContext"] == {"threadId": None, "turnId": None}
    assert msgspec.convert(msgspec.to_builtins(job), Job) == job


def test_the_events_are_the_seven_of_the_contract() -> None:
    assert {one.value for one in JobEventType} == {
        "orchestrator_job_queued",
        "orchestrator_job_started",
        "orchestrator_job_progress",
        "orchestrator_job_completed",
        "orchestrator_job_failed",
        "orchestrator_job_canceled",
        "suggested_request_updated",
    }


def test_an_event_leaves_out_what_it_does_not_have() -> None:
    payload = JobEventPayload(job_id="j", project_id="p", job_type="command", state=JobState.QUEUED)
    event = JobEvent(type=JobEventType.QUEUED, thread_id=None, payload=payload)
    assert msgspec.to_builtins(event) == {
        "type": "orchestrator_job_queued",
        "threadId": None,
        "payload": {"jobId": "j", "projectId": "p", "jobType": "command", "state": "queued"},
    }
    suggestion = SuggestedRequestPayload(session_id="s", request_key="k", status=SuggestionStatus.COMPLETE)
    assert msgspec.to_builtins(suggestion) == {"sessionId": "s", "requestKey": "k", "status": "complete"}


def test_only_queued_and_running_are_not_terminal() -> None:
    assert [one.value for one in JobState if not one.is_terminal] == ["queued", "running"]


def test_an_instruction_without_a_key_of_its_own_is_one_of_its_turn_and_kind() -> None:
    plain = msgspec.convert(PARTS, AgentInstruction)
    assert plain.default_dedupe_key == "p:t:u:turn_supervisor_review"
    assert msgspec.convert({**PARTS, "dedupeKey": "k"}, AgentInstruction).default_dedupe_key == "p:k"


@pytest.mark.parametrize(
    "wrong",
    [
        {"instructionText": ""},
        {"expectResponse": "poem"},
        {"supplementalTargets": [{"messageId": str(number), "type": "note"} for number in range(9)]},
        {"supplementalTargets": [{"messageId": "m", "type": "note", "placeholderTexts": ["x"] * 13}]},
        {"fallbackSuggestionDraft": ""},
        {"unknown": 1},
    ],
)
def test_an_instruction_beyond_its_bounds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**PARTS, **wrong}, AgentInstruction)


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "\u202e"])
def test_a_job_with_a_name_that_cannot_be_printed_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="unprintable"):
        msgspec.convert({"type": "command", "projectId": name}, NewJob)


def test_the_longest_project_has_a_thread_that_signals_can_carry() -> None:
    assert len(thread_of("p" * 200)) <= 256
