"""What each harness gets back: its own form, only where it takes context, nothing otherwise; traps first."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, ContextDelivery, HookAnswer
from lifebus_contract import FailureClass, InvalidRequest, LifebusError
from lifebus_contract.payload_text import text_size
from support.adapters.calls import CAPTURE_FILES, adapter_of, call, captured, delivery, hooks_of, slots_of

ALL = pytest.mark.parametrize("adapter_id", list(ADAPTERS))
NOTHING = HookAnswer(stdout=b"", exit_code=0)
TEXT = '{"payloads":[{"payload_id":"pay_1","payload_kind":"instruction_frame","body":"remember the milk"}]}'
NAMED_BY = {"opencode": "hook", "openclaw": "hook"}


def _answer(adapter_id: str, hook: str, *deliveries: ContextDelivery) -> HookAnswer:
    payload = {NAMED_BY.get(adapter_id, "hook_event_name"): hook, "session_id": "s1"}
    return ADAPTERS[adapter_id].render(call(adapter_id, payload), deliveries)


def _native(adapter_id: str, hook: str, *deliveries: ContextDelivery) -> Any:
    answer = _answer(adapter_id, hook, *deliveries)
    assert answer.exit_code == 0
    return json.loads(answer.stdout)


@pytest.mark.parametrize("adapter_id", ["codex", "claude"])
@pytest.mark.parametrize("hook", ["SessionStart", "UserPromptSubmit", "SubagentStart"])
def test_codex_and_claude_get_the_context_under_the_hooks_own_name_and_no_other_key(adapter_id: str, hook: str) -> None:
    expected = {"hookSpecificOutput": {"hookEventName": hook, "additionalContext": TEXT}}
    assert _native(adapter_id, hook, delivery()) == expected


@pytest.mark.parametrize("hook", ["SessionStart", "BeforeAgent"])
def test_gemini_gets_pure_json_on_its_two_context_hooks(hook: str) -> None:
    expected = {"hookSpecificOutput": {"hookEventName": hook, "additionalContext": TEXT}}
    assert _native("gemini", hook, delivery()) == expected


def test_hermes_gets_its_context_before_the_model_call() -> None:
    assert _native("hermes", "pre_llm_call", delivery()) == {"context": TEXT}


def test_an_opencode_plugin_gets_text_parts() -> None:
    assert _native("opencode", "chat.message", delivery()) == {"parts": [{"type": "text", "text": TEXT}]}


def test_an_openclaw_plugin_gets_what_it_may_return() -> None:
    assert _native("openclaw", "before_prompt_build", delivery()) == {"prependContext": TEXT}


@pytest.mark.parametrize(
    ("adapter_id", "hook"),
    [
        *(("codex", hook) for hook in ("Stop", "PreCompact", "PostCompact", "Interrupt", "SubagentStop", "SessionEnd")),
        *(("claude", hook) for hook in ("Stop", "StopFailure", "PreCompact", "PostCompact", "SessionEnd")),
        *(("gemini", hook) for hook in ("AfterAgent", "PreCompress", "BeforeModel", "SessionEnd")),
        *(("hermes", hook) for hook in ("on_session_start", "post_llm_call", "on_session_end")),
    ],
)
def test_a_hook_that_takes_no_context_gets_none_even_if_there_is_something_to_deliver(
    adapter_id: str, hook: str
) -> None:
    assert _answer(adapter_id, hook, delivery()) == NOTHING


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_with_nothing_to_deliver_every_recorded_hook_is_answered_with_silence(path: Any) -> None:
    for native, _ in captured(path):
        if native.hook not in hooks_of(path.parent.parent.name).displays:
            assert adapter_of(path).render(native, []) == NOTHING


@ALL
def test_with_nothing_to_deliver_not_even_a_broken_payload_is_looked_at(adapter_id: str) -> None:
    assert ADAPTERS[adapter_id].render(call(adapter_id, b"not json"), []) == NOTHING


def test_payloads_of_several_clients_share_one_context_in_order() -> None:
    context = _native("codex", "SessionStart", delivery("one", payload_id="pay_1"), delivery("two", payload_id="pay_2"))
    payloads = json.loads(context["hookSpecificOutput"]["additionalContext"])["payloads"]
    assert [(payload["payload_id"], payload["body"]) for payload in payloads] == [("pay_1", "one"), ("pay_2", "two")]


def test_a_body_that_is_json_stays_a_string() -> None:
    context = _native("claude", "SessionStart", delivery('{"payloads": [], "hookEventName": "Stop"}'))
    (payload,) = json.loads(context["hookSpecificOutput"]["additionalContext"])["payloads"]
    assert payload["body"] == '{"payloads": [], "hookEventName": "Stop"}'


def test_bodies_in_any_script_arrive_whole() -> None:
    body = 'naïve "quotes" \\ 日本語 \U0001f680 \u2028 \x00'
    context = _native("codex", "UserPromptSubmit", delivery(body))
    assert json.loads(context["hookSpecificOutput"]["additionalContext"])["payloads"][0]["body"] == body


def _context_hooks() -> list[tuple[str, str]]:
    return [(name, hook) for name in ADAPTERS for hook in slots_of(name)]


@pytest.mark.parametrize(("adapter_id", "hook"), _context_hooks())
def test_context_of_exactly_the_claimed_size_is_rendered_and_one_byte_more_refused(adapter_id: str, hook: str) -> None:
    limit = ADAPTERS[adapter_id].registered.manifest.placement[slots_of(adapter_id)[hook]].max_bytes
    assert limit is not None
    body = "x" * (limit - text_size([delivery("").payload]))
    assert _answer(adapter_id, hook, delivery(body)).stdout
    with pytest.raises(LifebusError) as refused:
        _answer(adapter_id, hook, delivery(body + "x"))
    assert refused.value.failure_class is FailureClass.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize(("adapter_id", "hook"), _context_hooks())
def test_a_hook_that_takes_context_is_one_that_yields_events(adapter_id: str, hook: str) -> None:
    assert hook in hooks_of(adapter_id).rules


@ALL
def test_no_answer_is_given_to_an_unknown_hook(adapter_id: str) -> None:
    with pytest.raises(InvalidRequest):
        _answer(adapter_id, "NoSuchHook", delivery())
