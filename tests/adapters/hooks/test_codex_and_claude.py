"""What Codex's and Claude Code's hooks mean, rule by rule, traps first."""

import pytest

from lifebus_contract import FrameClass, InvalidRequest
from support.adapters.calls import events, parse, warning_codes

BOTH = pytest.mark.parametrize(("adapter_id", "turn"), [("codex", "turn_id"), ("claude", "prompt_id")])
SESSION = {"session_id": "s1", "cwd": "/home/dev/project"}


@BOTH
@pytest.mark.parametrize("source", ["startup", "resume", "clear"])
def test_a_session_start_is_starting_and_started_of_one_invocation(adapter_id: str, turn: str, source: str) -> None:
    starting, started = parse(adapter_id, SESSION | {"hook_event_name": "SessionStart", "source": source})
    assert events((starting, started)) == ["session.starting", "session.started"]
    assert starting.request.invocation_id == started.request.invocation_id
    assert starting.request.event_id == started.request.event_id
    assert starting.telemetry == {"cwd": "/home/dev/project", "source_hook": "SessionStart", "source": source}


def test_a_forked_codex_session_starts_too() -> None:
    assert events(parse("codex", SESSION | {"hook_event_name": "SessionStart", "source": "fork"})) != []


@BOTH
def test_a_session_start_after_a_compaction_is_no_new_session(adapter_id: str, turn: str) -> None:
    assert parse(adapter_id, SESSION | {"hook_event_name": "SessionStart", "source": "compact"}) == ()


@BOTH
def test_a_prompt_opens_the_frame_of_its_turn(adapter_id: str, turn: str) -> None:
    payload = SESSION | {"hook_event_name": "UserPromptSubmit", turn: "t1", "prompt": "the secret plan"}
    opening, opened = parse(adapter_id, payload)
    assert events((opening, opened)) == ["frame.opening", "frame.opened"]
    assert opening.request.frame_context is not None
    assert opening.request.frame_context.frame_id == "t1"
    assert opening.request.frame_context.frame_class is FrameClass.TOP_LEVEL
    assert (opening.request.harness_session_id, opening.request.harness_task_id) == ("s1", "t1")
    assert opening.request.harness_run_id is None
    assert opening.telemetry["frame_id"] == "t1"


@BOTH
def test_a_stop_ends_the_frame_and_a_second_stop_ends_it_again(adapter_id: str, turn: str) -> None:
    payload = SESSION | {"hook_event_name": "Stop", turn: "t1", "stop_hook_active": False}
    first, second = parse(adapter_id, payload), parse(adapter_id, payload | {"stop_hook_active": True})
    assert events(first) == events(second) == ["frame.ending", "frame.ended"]
    assert first[1].telemetry["frame_end"] == "completed"
    assert [stop[0].telemetry["stop_hook_active"] for stop in (first, second)] == [False, True]


def test_a_codex_interrupt_ends_the_frame_without_an_ending() -> None:
    (ended,) = parse("codex", SESSION | {"hook_event_name": "Interrupt", "turn_id": "t1"})
    assert ended.request.event.value == "frame.ended"
    assert ended.telemetry["frame_end"] == "interrupted"


def test_a_claude_stop_failure_ends_the_frame_as_failed() -> None:
    payload = SESSION | {"hook_event_name": "StopFailure", "prompt_id": "t1", "error": "server_error"}
    (ended,) = parse("claude", payload)
    assert ended.request.event.value == "frame.ended"
    assert (ended.telemetry["frame_end"], ended.telemetry["error"]) == ("failed", "server_error")


@BOTH
def test_a_coming_compaction_is_pressure_and_never_a_compaction(adapter_id: str, turn: str) -> None:
    (observed,) = parse(adapter_id, SESSION | {"hook_event_name": "PreCompact", turn: "t1", "trigger": "auto"})
    assert observed.request.event.value == "context.pressure_observed"
    assert observed.request.frame_context is None
    assert observed.telemetry["trigger"] == "auto"


@BOTH
def test_a_finished_compaction_is_a_compaction(adapter_id: str, turn: str) -> None:
    payload = SESSION | {"hook_event_name": "PostCompact", turn: "t1", "trigger": "manual"}
    assert events(parse(adapter_id, payload)) == ["context.compacted"]


@BOTH
def test_a_session_end_is_ending_and_ended(adapter_id: str, turn: str) -> None:
    ending, ended = parse(adapter_id, SESSION | {"hook_event_name": "SessionEnd", turn: "t9", "reason": "other"})
    assert events((ending, ended)) == ["session.ending", "session.ended"]
    assert ending.request.harness_task_id is None
    assert ending.telemetry["reason"] == "other"


@BOTH
def test_a_sub_agent_is_a_nested_frame_inside_the_turn(adapter_id: str, turn: str) -> None:
    about = SESSION | {turn: "t1", "agent_id": "a1", "agent_type": "explorer"}
    opened = parse(adapter_id, about | {"hook_event_name": "SubagentStart"})
    ended = parse(adapter_id, about | {"hook_event_name": "SubagentStop", "stop_hook_active": False})
    assert events(opened) == ["frame.opening", "frame.opened"]
    assert events(ended) == ["frame.ending", "frame.ended"]
    for emission in opened + ended:
        assert emission.request.frame_context is not None
        assert emission.request.frame_context.frame_class is FrameClass.SUBCALL
        assert emission.request.frame_context.frame_id == "a1"
        assert emission.request.frame_context.parent_frame_id == "t1"
        assert emission.telemetry["frame_id"] == emission.request.event_id == "a1"


def test_a_codex_prompt_inside_a_sub_agent_belongs_to_the_nested_frame() -> None:
    payload = SESSION | {"hook_event_name": "UserPromptSubmit", "turn_id": "t1", "agent_id": "a1"}
    opening, _ = parse("codex", payload)
    assert opening.request.frame_context is not None
    assert opening.request.frame_context.parent_frame_id == "t1"


def test_the_helpers_of_a_claude_compaction_mean_nothing() -> None:
    payload = SESSION | {"hook_event_name": "SubagentStop", "prompt_id": "p1", "agent_id": "a1", "agent_type": ""}
    assert parse("claude", payload) == ()


def test_a_sub_agent_that_stops_outside_any_turn_is_still_a_valid_nested_frame() -> None:
    payload = SESSION | {"hook_event_name": "SubagentStop", "agent_id": "a1", "agent_type": "explorer"}
    ending, _ = parse("claude", payload)
    assert ending.request.frame_context is not None
    assert ending.request.frame_context.parent_frame_id
    assert "frame_id_synthesized" in warning_codes(ending)


@BOTH
def test_a_sub_agent_hook_must_name_its_agent(adapter_id: str, turn: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(adapter_id, SESSION | {"hook_event_name": "SubagentStart", turn: "t1"})
    assert refused.value.field == "$.agent_id"


@BOTH
@pytest.mark.parametrize("hook", ["PreToolUse", "PostToolUse"])
def test_tool_hooks_mean_nothing(adapter_id: str, turn: str, hook: str) -> None:
    assert parse(adapter_id, SESSION | {"hook_event_name": hook, turn: "t1", "tool_input": {"command": "ls"}}) == ()


@pytest.mark.parametrize("hook", ["Notification", "MessageDisplay", "PostToolBatch", "PreModelSwitch", "Setup"])
def test_claude_hooks_about_display_and_surroundings_mean_nothing(hook: str) -> None:
    assert parse("claude", SESSION | {"hook_event_name": hook}) == ()


def test_a_claude_status_line_has_no_hook_name_in_it_and_means_nothing() -> None:
    assert parse("claude", SESSION | {"model": {"id": "x"}, "context_window": {}}, hook="statusLine") == ()


@pytest.mark.parametrize("hook", ["PreModelRequest", "PostModelRequest"])
def test_codex_token_counts_are_samples_and_not_events(hook: str) -> None:
    assert parse("codex", SESSION | {"hook_event_name": hook, "turn_id": "t1", "token_usage": {}}) == ()


def test_clearing_a_claude_session_ends_one_id_and_starts_another() -> None:
    ended = parse("claude", {"session_id": "s1", "hook_event_name": "SessionEnd", "reason": "clear"})
    started = parse("claude", {"session_id": "s2", "hook_event_name": "SessionStart", "source": "clear"})
    assert [emission.request.harness_session_id for emission in ended + started] == ["s1", "s1", "s2", "s2"]


@BOTH
def test_a_turn_without_an_id_gets_one_that_its_end_finds_again(adapter_id: str, turn: str) -> None:
    opening, _ = parse(adapter_id, SESSION | {"hook_event_name": "UserPromptSubmit"})
    ending, _ = parse(adapter_id, SESSION | {"hook_event_name": "Stop"})
    assert opening.request.frame_context == ending.request.frame_context
    assert warning_codes(opening) == ["frame_id_synthesized", "event_id_synthesized"]
