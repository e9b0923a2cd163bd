"""Payloads that no harness sends: refused with `InvalidRequest`, naming the field, and never anything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS
from lifebus_contract import Emission, InvalidRequest, validate
from support.adapters.calls import call, delivery, hooks_of, ids, parse

ALL = pytest.mark.parametrize("adapter_id", list(ADAPTERS))

NOT_STRICT_JSON = {
    "nothing": b"",
    "words": b"hello",
    "truncated": b'{"session_id": "s1"',
    "bytes": b"\xff\xfe\x00",
    "not a number": b'{"session_id": NaN}',
    "a key twice": b'{"session_id": "s1", "session_id": "s2"}',
    "a lone surrogate": b'{"session_id": "\\ud800"}',
    "a huge integer": b'{"session_id": "s1", "n": 99999999999999999999}',
    "deep": b'{"a":' * 40 + b"1" + b"}" * 40,
    "deeper than the reader": b"[" * 100_000,
    "a list": b"[]",
    "text": b'"SessionStart"',
    "null": b"null",
    "huge": b'{"prompt": "' + b"x" * 300_000 + b'"}',
    "many entries": b'{"a": [' + b"1," * 70_000 + b"1]}",
}


@ALL
def test_a_payload_that_is_not_a_strict_object_is_refused(adapter_id: str, subtests: pytest.Subtests) -> None:
    for kind, stdin in NOT_STRICT_JSON.items():
        with subtests.test(kind=kind):
            with pytest.raises(InvalidRequest) as refused:
                parse(adapter_id, stdin, hook="SessionStart")
            assert refused.value.field is not None


@ALL
def test_an_unknown_hook_is_refused(adapter_id: str, subtests: pytest.Subtests) -> None:
    for name in ["", "NoSuchHook", "sessionstart", "\x1b[31m", "x" * 300]:
        with subtests.test(name=name):
            with pytest.raises(InvalidRequest) as refused:
                parse(adapter_id, {"session_id": "s1"}, hook=name)
            assert refused.value.code == "unknown_hook"
            assert refused.value.detail.isprintable()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hook_event_name", 5),
        ("session_id", 5),
        ("session_id", ["s1"]),
        ("session_id", "s\n1"),
        ("session_id", "s" * 257),
        ("turn_id", {"id": 1}),
        ("agent_id", True),
        ("stop_hook_active", "yes"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    payload = {"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1", field: value}
    with pytest.raises(InvalidRequest) as refused:
        parse("codex", payload)
    assert refused.value.field == f"$.{field}"


@pytest.mark.parametrize("session_id", [None, ""])
def test_a_missing_session_id_is_refused_by_name(session_id: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse("claude", {"hook_event_name": "SessionStart", "session_id": session_id})
    assert refused.value.field == "$.session_id"


@pytest.mark.parametrize(
    ("adapter_id", "payload", "field"),
    [
        ("hermes", {"hook_event_name": "pre_llm_call", "session_id": "s", "extra": "x"}, "$.extra"),
        ("opencode", {"hook": "event", "input": {"event": [1]}}, "$.input.event"),
        ("opencode", {"hook": "chat.message", "input": 7}, "$.input"),
        ("openclaw", {"hook": "agent_end", "event": {"success": 1}, "ctx": {"sessionId": "s"}}, "$.event.success"),
    ],
)
def test_a_wrong_shape_further_inside_is_refused_by_path(adapter_id: str, payload: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(adapter_id, payload)
    assert refused.value.field == field


def test_unknown_fields_of_a_newer_harness_are_passed_over() -> None:
    payload = {"hook_event_name": "SessionEnd", "session_id": "s1", "invented": {"deep": [1]}}
    assert len(parse("codex", payload)) == 2


@given(stdin=st.binary(max_size=200), hook=st.text(max_size=20))
@ALL
def test_random_bytes_are_refused_and_nothing_else(adapter_id: str, stdin: bytes, hook: str) -> None:
    _parses_or_refuses(adapter_id, stdin, hook)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_WORDS = [
    "session_id", "turn_id", "prompt_id", "agent_id", "agent_type", "extra", "input", "output", "event", "ctx", "cwd",
    "prompt", "source", "reason", "trigger", "stop_hook_active", "model", "error", "hook", "sessionID", "sessionId",
    "runId", "properties", "type", "id", "message", "info", "success", "completed", "interrupted",
]  # fmt: skip


@given(data=st.data())
@ALL
def test_known_hooks_with_random_fields_parse_or_are_refused(adapter_id: str, data: st.DataObject) -> None:
    table = hooks_of(adapter_id)
    hook = data.draw(st.sampled_from(sorted(table.rules)))
    fields = st.dictionaries(st.sampled_from(_WORDS), _VALUES, max_size=6)
    nested = st.dictionaries(st.sampled_from(_WORDS), st.text(max_size=5) | fields, max_size=4)
    payload: dict[str, Any] = data.draw(fields) | data.draw(nested)
    if data.draw(st.booleans()):
        payload["session_id"] = "s1"
    _parses_or_refuses(adapter_id, json.dumps(payload).encode(), hook)


def _parses_or_refuses(adapter_id: str, stdin: bytes, hook: str) -> None:
    adapter, native = ADAPTERS[adapter_id], call(adapter_id, stdin, hook)
    try:
        emissions = adapter.read(native, ids()).emissions
        adapter.render(native, [delivery()])
    except InvalidRequest:
        return
    for emission in emissions:
        validate(emission, Emission)
