"""What the hooks of Gemini CLI, Hermes, OpenCode and OpenClaw mean, rule by rule."""

import pytest

from lifebus_contract import Emission
from support.adapters.calls import events, parse, warning_codes

GEMINI = {"session_id": "s1", "cwd": "/home/dev/project", "timestamp": "2026-11-21T21:04:14.203Z"}


def _frame_id(emissions: tuple[Emission, ...]) -> str:
    assert emissions[0].request.frame_context is not None
    return emissions[0].request.frame_context.frame_id


def test_a_gemini_turn_has_no_name_and_a_stand_in_that_says_nothing_of_its_prompt() -> None:
    before = parse("gemini", GEMINI | {"hook_event_name": "BeforeAgent", "prompt": "do it"})
    after = parse("gemini", GEMINI | {"hook_event_name": "AfterAgent", "prompt": "do it", "stop_hook_active": False})
    other = parse("gemini", GEMINI | {"hook_event_name": "BeforeAgent", "prompt": "do more"})
    assert events(before + after) == ["frame.opening", "frame.opened", "frame.ending", "frame.ended"]
    assert _frame_id(before) == _frame_id(other), "the same call, with other words"
    assert warning_codes(before[0]) == ["frame_id_synthesized", "event_id_synthesized"]
    assert before[0].request.harness_task_id is None


def test_gemini_sessions_start_and_end() -> None:
    assert events(parse("gemini", GEMINI | {"hook_event_name": "SessionStart", "source": "resume"})) == [
        "session.starting",
        "session.started",
    ]
    assert events(parse("gemini", GEMINI | {"hook_event_name": "SessionEnd", "reason": "exit"})) == [
        "session.ending",
        "session.ended",
    ]


@pytest.mark.parametrize("hook", ["PreCompress", "BeforeModel", "AfterModel", "BeforeTool", "AfterTool"])
def test_gemini_hooks_around_model_and_tools_mean_nothing(hook: str) -> None:
    assert parse("gemini", GEMINI | {"hook_event_name": hook, "trigger": "auto"}) == ()


def _hermes(hook: str, **extra: object) -> tuple[Emission, ...]:
    return parse("hermes", {"hook_event_name": hook, "session_id": "s1", "extra": {"turn_id": "s1:t1", **extra}})


@pytest.mark.parametrize(
    ("extra", "end"),
    [
        ({"completed": True, "interrupted": False}, "completed"),
        ({"completed": False, "interrupted": True}, "interrupted"),
        ({"completed": False, "interrupted": False}, "failed"),
    ],
)
def test_the_end_of_a_hermes_session_hook_is_the_end_of_a_turn(extra: dict[str, bool], end: str) -> None:
    (ended,) = _hermes("on_session_end", **extra)
    assert ended.request.event.value == "frame.ended"
    assert ended.telemetry["frame_end"] == end


def test_only_finalising_ends_a_hermes_session() -> None:
    ended = _hermes("on_session_finalize", reason="shutdown")
    assert events(ended) == ["session.ending", "session.ended"]
    assert ended[-1].telemetry["reason"] == "shutdown"


def test_a_hermes_turn_opens_and_ends_under_its_turn_id() -> None:
    opened, ending = _hermes("pre_llm_call", user_message="hello"), _hermes("post_llm_call")
    assert events(opened + ending) == ["frame.opening", "frame.opened", "frame.ending"]
    assert _frame_id(opened) == _frame_id(ending) == opened[0].request.harness_task_id == "s1:t1"


def test_a_failed_hermes_request_ends_the_frame_as_failed() -> None:
    (ended,) = _hermes("api_request_error")
    assert ended.telemetry["frame_end"] == "failed"


@pytest.mark.parametrize(
    ("attempt", "ends"),
    [
        ({"retryable": True, "retry_count": 0, "max_retries": 3}, False),
        ({"retryable": True, "retry_count": 2, "max_retries": 3}, True),
        ({"retryable": False, "retry_count": 0, "max_retries": 3}, True),
        ({"retryable": True, "retry_count": 0, "max_retries": 1}, True),
        ({"retryable": True, "retry_count": 0}, True),
    ],
)
def test_a_hermes_request_that_is_made_again_ends_nothing(attempt: dict[str, object], ends: bool) -> None:
    assert bool(_hermes("api_request_error", **attempt)) is ends


def _opencode_event(kind: str, **properties: object) -> tuple[Emission, ...]:
    event = {"id": "evt_oc1", "type": kind, "properties": {"sessionID": "ses_1", **properties}}
    return parse("opencode", {"hook": "event", "input": {"event": event}, "output": None}, hook="event")


def test_an_opencode_turn_opens_with_its_message_and_ends_when_the_session_idles() -> None:
    message = {"id": "msg_1", "model": {"modelID": "m"}}
    opened = parse(
        "opencode", {"hook": "chat.message", "input": {"sessionID": "ses_1"}, "output": {"message": message}}
    )
    ended = _opencode_event("session.idle")
    assert events(opened + ended) == ["frame.opening", "frame.opened", "frame.ending", "frame.ended"]
    assert _frame_id(opened) == "msg_1"
    assert warning_codes(ended[0]) == ["frame_id_synthesized"]
    assert (opened[0].request.event_id, ended[0].request.event_id) == ("msg_1", "evt_oc1")


def test_opencode_distinguishes_a_compaction_that_begins_from_one_that_is_done() -> None:
    begun = parse("opencode", {"hook": "experimental.session.compacting", "input": {"sessionID": "ses_1"}})
    assert events(begun) == ["context.pressure_observed"]
    assert events(_opencode_event("session.compacted")) == ["context.compacted"]


def test_an_opencode_error_ends_the_frame_as_failed_and_keeps_the_message_to_itself() -> None:
    error = {"name": "ProviderAuthError", "data": {"message": "key sk-123 is wrong"}}
    _, ended = _opencode_event("session.error", error=error)
    assert (ended.telemetry["frame_end"], ended.telemetry["error"]) == ("failed", "ProviderAuthError")
    assert "sk-123" not in repr(ended)


def test_an_opencode_process_that_disposes_says_that_the_session_is_unknown() -> None:
    ending, _ = parse("opencode", {"hook": "dispose", "input": None, "output": None})
    assert ending.request.harness_session_id is None
    assert "identity_unavailable" in warning_codes(ending)
    assert events(_opencode_event("session.deleted")) == ["session.ending", "session.ended"]


def test_an_openclaw_run_is_a_frame() -> None:
    ctx = {"runId": "r1", "sessionId": "s1", "modelId": "m", "trigger": "user"}
    opened = parse("openclaw", {"hook": "before_prompt_build", "event": {"prompt": "hi"}, "ctx": ctx})
    ending = parse("openclaw", {"hook": "before_agent_finalize", "event": {"stopHookActive": False}, "ctx": ctx})
    (ended,) = parse("openclaw", {"hook": "agent_end", "event": {"success": False, "durationMs": 3}, "ctx": ctx})
    assert events(opened + ending) == ["frame.opening", "frame.opened", "frame.ending"]
    assert ended.telemetry["frame_end"] == "failed"
    assert (ended.request.harness_run_id, ended.request.harness_task_id) == ("r1", None)
    assert _frame_id(opened) == _frame_id((ended,)) == "r1"


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("session_start", ["session.starting", "session.started"]),
        ("before_compaction", ["context.pressure_observed"]),
        ("after_compaction", ["context.compacted"]),
        ("session_end", ["session.ending", "session.ended"]),
    ],
)
def test_openclaw_hooks_of_the_gateway_mean_what_its_manual_says(hook: str, expected: list[str]) -> None:
    assert events(parse("openclaw", {"hook": hook, "event": {}, "ctx": {"sessionId": "s1"}})) == expected
