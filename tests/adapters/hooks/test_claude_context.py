"""The facts about the context in Claude Code's hooks, and what its status line shows."""

from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, HookAnswer
from lifebus_adapters.shared.telemetry import Fact, Usage, WindowKnown
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, captured, delivery, ids
from support.adapters.hook_bus import hook_bus
from support.paths import CAPTURES

SESSION = "01900000-0000-4000-8000-000000000001"
CURRENT = {
    "input_tokens": 10,
    "output_tokens": 40_000,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 3_000,
}


def status(current: Any = None, size: Any = 100_000, **changes: Any) -> dict[str, Any]:
    window = {"total_input_tokens": 3_210, "context_window_size": size, "current_usage": current, "used_percentage": 3}
    return {"session_id": SESSION, "model": {"id": "claude-unheard-of"}, "context_window": window} | changes


def hook_facts(payload: dict[str, Any], hook: str = "statusLine") -> tuple[Fact, ...]:
    return ADAPTERS["claude"].read(call("claude", payload, hook), ids()).facts


def shown(payload: Any, hook: str = "statusLine") -> HookAnswer:
    return ADAPTERS["claude"].render(call("claude", payload, hook), [])


# Facts


def test_the_status_line_has_tokens_and_window_as_the_transcript_counts_them() -> None:
    assert hook_facts(status(CURRENT)) == (
        Usage(
            session=SESSION,
            used_tokens=43_210,
            used_source="hook:statusLine.current_usage",
            window_tokens=100_000,
            window_source="hook:statusLine.context_window_size",
            model="claude-unheard-of",
        ),
    )


def test_after_the_start_and_after_a_compaction_it_has_the_window_alone() -> None:
    expected = WindowKnown(session=SESSION, window_tokens=100_000, window_source="hook:statusLine.context_window_size")
    assert hook_facts(status(None)) == (expected,)
    assert hook_facts(status(dict.fromkeys(CURRENT, 0))) == (expected,)


@pytest.mark.parametrize("size", [None, 0])
def test_a_window_of_nothing_is_no_window(size: Any) -> None:
    assert hook_facts(status(None, size)) == ()
    (usage,) = hook_facts(status(CURRENT, size))
    assert isinstance(usage, Usage)
    assert (usage.window_tokens, usage.window_source) == (None, None)


def test_an_older_status_line_has_no_facts() -> None:
    assert hook_facts({"session_id": SESSION, "model": {"id": "m"}}) == ()


@pytest.mark.parametrize(
    ("hook", "model"), [("SessionStart", None), ("PreModelSwitch", "old"), ("PostModelSwitch", "new")]
)
def test_a_resume_and_a_change_of_model_have_the_tokens_without_a_window(hook: str, model: str | None) -> None:
    payload = {
        "session_id": SESSION,
        "source": "resume",
        "from_model": "old",
        "to_model": "new",
        "context_tokens": 2_605,
    }
    (usage,) = hook_facts({**payload, "hook_event_name": hook})
    assert usage == Usage(session=SESSION, used_tokens=2_605, used_source=f"hook:{hook}.context_tokens", model=model)


@pytest.mark.parametrize("hook", ["SessionStart", "Stop", "UserPromptSubmit", "PreModelSwitch"])
def test_hooks_without_tokens_have_no_facts_about_the_context(hook: str) -> None:
    assert hook_facts({"session_id": SESSION, "prompt_id": "p1", "hook_event_name": hook, "source": "startup"}) == ()


def test_a_sub_agents_tokens_are_not_the_sessions() -> None:
    assert hook_facts(status(CURRENT, agent_id="a1")) == ()


@pytest.mark.parametrize("strange", [-1, 2**53, 1.5, True, "9", [], {}])
def test_strange_numbers_are_refused(strange: Any) -> None:
    for payload in (status(CURRENT, strange), status({**CURRENT, "input_tokens": strange})):
        with pytest.raises(InvalidRequest):
            hook_facts(payload)
        with pytest.raises(InvalidRequest):
            shown(payload)
    with pytest.raises(InvalidRequest):
        hook_facts({"session_id": SESSION, "hook_event_name": "PostModelSwitch", "context_tokens": strange})


def test_recorded_status_lines_agree_with_the_resumes_of_the_same_program() -> None:
    path = CAPTURES / "claude/print_four_runs_manual_compact/hooks.jsonl"
    facts = [fact for native, _ in captured(path) for fact in ADAPTERS["claude"].read(native, ids()).facts]
    assert [fact.used_tokens for fact in facts if isinstance(fact, Usage)] == [90_012, 150_012, 2_605]


# What is shown


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (status(CURRENT), b"context 43 %"),
        (status(CURRENT, 43_210), b"context 100 %"),
        (status(CURRENT, 10), b"context 100 %"),
        (status(None), b"context ?"),
        (status(CURRENT, None), b"context ?"),
        ({"session_id": SESSION}, b"context ?"),
    ],
)
def test_the_status_line_shows_one_short_line(payload: dict[str, Any], text: bytes) -> None:
    assert shown(payload) == HookAnswer(stdout=text)


def test_only_the_status_line_is_shown() -> None:
    assert shown({**status(CURRENT), "hook_event_name": "MessageDisplay"}, "MessageDisplay") == HookAnswer()


def test_no_payload_ever_gets_into_the_status_line() -> None:
    answer = ADAPTERS["claude"].render(call("claude", status(CURRENT), "statusLine"), [delivery()])
    assert answer.stdout == b"context 43 %"


async def test_through_the_broker_the_status_line_is_answered_and_nothing_is_recorded() -> None:
    async with hook_bus() as bus:
        recorded, answer = await bus.hook("claude", status(CURRENT), hook="statusLine")
        unreadable = await bus.call(call("claude", b"nonsense", "statusLine"))
    assert (recorded, answer.stdout, answer.exit_code) == ([], b"context 43 %", 0)
    assert (unreadable[1].stdout, unreadable[1].exit_code) == (b"", 0)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("claude/interactive*/hooks.jsonl")))
def test_recorded_status_lines_are_shown_as_claude_counts_them(path: Any) -> None:
    lines = [native for native, _ in captured(path) if native.hook == "statusLine"]
    texts = [ADAPTERS["claude"].render(native, []).stdout.decode() for native in lines]
    assert texts == ["context ?", *["context 1 %"] * 4, "context ?", "context 5 %", "context ?"]
