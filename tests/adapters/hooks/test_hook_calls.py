"""What holds for every harness: names, ids, keys, lateness, privacy."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.fields import FACT_CHARACTERS
from support.adapters.calls import hooks_of, parse, warning_codes

START = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}
PROMPT = {"session_id": "s1", "turn_id": "t1", "hook_event_name": "UserPromptSubmit", "prompt": "the secret plan"}


def test_the_payload_wins_where_its_hook_name_and_the_command_line_differ() -> None:
    (compacted,) = parse("codex", START | {"hook_event_name": "PostCompact"}, hook="SessionStart")
    assert compacted.telemetry["source_hook"] == "PostCompact"


def test_the_command_line_names_the_hook_where_the_payload_does_not() -> None:
    assert len(parse("codex", {"session_id": "s1"}, hook="SessionEnd")) == 2


def test_idempotency_keys_are_those_of_the_call_and_the_event() -> None:
    starting, started = parse("codex", START, call_id="call-7")
    assert starting.request.idempotency_key == "call-7:session.starting"
    assert started.request.idempotency_key == "call-7:session.started"


@pytest.mark.parametrize(
    ("adapter_id", "payload"),
    [
        ("codex", {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "turn_id": "t1"}),
        ("claude", {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt_id": "t1"}),
        ("hermes", {"hook_event_name": "pre_llm_call", "session_id": "s1", "extra": {"turn_id": "t1"}}),
        (
            "opencode",
            {
                "hook": "event",
                "input": {"event": {"type": "session.idle", "id": "e1", "properties": {"sessionID": "s1"}}},
            },
        ),
    ],
)
def test_an_event_that_the_harness_names_is_the_same_whichever_call_reports_it(
    adapter_id: str, payload: dict[str, Any]
) -> None:
    first, again = parse(adapter_id, payload, call_id="call-1"), parse(adapter_id, payload, call_id="call-2")
    assert first
    assert [item.request.idempotency_key for item in first] == [item.request.idempotency_key for item in again]
    other = parse(adapter_id, json.loads(json.dumps(payload).replace("t1", "t2").replace("e1", "e2")))
    assert {item.request.idempotency_key for item in first}.isdisjoint(item.request.idempotency_key for item in other)


def test_two_stops_of_one_turn_are_two_moments() -> None:
    stop = {"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1"}
    first, again = parse("codex", stop, call_id="call-1"), parse("codex", stop, call_id="call-2")
    assert {item.request.idempotency_key for item in first}.isdisjoint(item.request.idempotency_key for item in again)


def test_parsing_a_call_twice_gives_the_same_keys_and_frames() -> None:
    first, again = parse("codex", PROMPT), parse("codex", PROMPT)
    assert [item.request.idempotency_key for item in first] == [item.request.idempotency_key for item in again]
    assert [item.request.frame_context for item in first] == [item.request.frame_context for item in again]


def test_a_hook_with_an_id_of_its_own_keeps_it_and_one_without_says_that_ordering_is_weaker() -> None:
    (opening, _), (starting, _) = parse("codex", PROMPT), parse("codex", START)
    assert opening.request.event_id == "t1"
    assert opening.warnings == ()
    assert starting.request.event_id.startswith("evt_")
    assert warning_codes(starting) == ["event_id_synthesized"]
    assert "ordering is weaker" in starting.warnings[0].message


def test_a_call_from_the_spool_is_marked_as_late_on_every_event() -> None:
    for emission in parse("codex", PROMPT, spooled_at_epoch_s=1_778_100_000):
        assert warning_codes(emission) == ["spooled_late"]
        assert "1778100000" in emission.warnings[0].message


def test_prompts_never_leave_the_payload_and_the_directory_is_said_with_what_happened_in_it() -> None:
    for emission in parse("codex", PROMPT | {"cwd": "/home/dev/project"}):
        assert "secret" not in repr(emission)
        assert emission.request.metadata["cwd"] == "/home/dev/project"
        assert emission.telemetry["cwd"] == "/home/dev/project"


@pytest.mark.parametrize("cwd", ["/x" * 600, "/home/dev/a\nb"], ids=["long", "lines"])
def test_a_directory_that_no_receipt_can_hold_is_left_out_and_never_cut(cwd: str) -> None:
    for emission in parse("codex", PROMPT | {"cwd": cwd}):
        assert "cwd" not in emission.telemetry


def test_a_long_text_where_a_word_is_expected_is_cut() -> None:
    ending, _ = parse("codex", {"session_id": "s1", "hook_event_name": "SessionEnd", "reason": "x" * 5_000})
    assert ending.telemetry["reason"] == "x" * FACT_CHARACTERS


@pytest.mark.parametrize("adapter_id", list(ADAPTERS))
def test_no_hook_is_both_known_to_mean_something_and_nothing(adapter_id: str) -> None:
    table = hooks_of(adapter_id)
    assert not table.rules.keys() & table.silent
    assert table.sessionless <= table.rules.keys()


@pytest.mark.parametrize("adapter_id", list(ADAPTERS))
def test_no_rule_mixes_frame_events_with_others_or_repeats_one(adapter_id: str) -> None:
    for rule in hooks_of(adapter_id).rules.values():
        assert len({event.value.partition(".")[0] for event in rule.events}) == 1
        assert len(set(rule.events)) == len(rule.events)
