"""Every recorded hook payload goes through its adapter and yields the reviewed list of events, in order.

`expected/<harness>/<scenario>.txt` holds one line a hook call: the hook, the events, and who and what they are about.
"""

import json
from pathlib import Path

import pytest

from lifebus_contract import Emission, validate
from support.adapters.calls import CAPTURE_FILES, adapter_of, captured, ids, warning_codes

EXPECTED = Path(__file__).parent / "expected"


def _expectation(path: Path) -> Path:
    return EXPECTED / path.parent.parent.name / f"{path.parent.name}.txt"


def _summary(hook: str, emissions: tuple[Emission, ...]) -> str:
    if not emissions:
        return f"{hook}: -"
    request, telemetry = emissions[0].request, emissions[-1].telemetry
    events = " ".join(emission.request.event.value for emission in emissions)
    about = {"session": request.harness_session_id, "run": request.harness_run_id, "task": request.harness_task_id}
    if request.frame_context is not None:
        about |= {"frame": request.frame_context.frame_id, "inside": request.frame_context.parent_frame_id}
    shown = {key: value[-8:] for key, value in about.items() if value is not None}
    shown |= {key: str(value) for key, value in telemetry.items() if key not in {"source_hook", "frame_id", "cwd"}}
    codes = "".join(f" !{code}" for code in warning_codes(emissions[0]))
    return f"{telemetry['source_hook']}: {events} | {' '.join(f'{key}={value}' for key, value in shown.items())}{codes}"


def replay(path: Path) -> str:
    """Return the whole file's events as text, one line a hook call."""
    adapter, source = adapter_of(path), ids()
    return "".join(_summary(call.hook, adapter.read(call, source).emissions) + "\n" for call, _ in captured(path))


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_a_recorded_session_yields_the_reviewed_events_in_order(path: Path) -> None:
    assert replay(path) == _expectation(path).read_text()


def test_every_expectation_belongs_to_a_capture() -> None:
    assert sorted(EXPECTED.glob("*/*.txt")) == sorted(_expectation(path) for path in CAPTURE_FILES)


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_recorded_events_are_valid_and_hang_together(path: Path) -> None:
    adapter, source = adapter_of(path), ids()
    keys: list[str | None] = []
    for call, _ in captured(path):
        emissions = adapter.read(call, source).emissions
        assert all(validate(emission, Emission) == emission for emission in emissions)
        assert len({emission.request.invocation_id for emission in emissions}) <= 1
        keys += [emission.request.idempotency_key for emission in emissions]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_nothing_that_was_said_or_done_leaves_the_payload(path: Path) -> None:
    adapter, source = adapter_of(path), ids()
    for call, payload in captured(path):
        # The ids inside of what was said are no words: a message's id is the frame's.
        said = {text for text in _texts(payload, inside=False) if len(text) > 3 and not text.startswith("msg_")}
        for emission in adapter.read(call, source).emissions:
            shown = _values(json.loads(json.dumps([emission.telemetry, emission.request.metadata])))
            assert not said & shown


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_whatever_a_session_does_is_said_with_the_directory_that_its_harness_names(path: Path) -> None:
    adapter, source = adapter_of(path), ids()
    for call, payload in captured(path):
        for emission in adapter.read(call, source).emissions:
            said = payload.get("cwd", "/home/dev/project") if emission.request.harness_session_id else None
            assert emission.telemetry.get("cwd") == said


_PRIVATE = {
    "prompt", "tool_input", "tool_response", "last_assistant_message", "prompt_response", "compact_summary",
    "custom_instructions", "llm_request", "llm_response", "user_message", "conversation_history", "request_messages",
    "assistant_response", "assistant_message", "parts", "messages", "lastAssistantMessage", "systemPrompt",
}  # fmt: skip


def _texts(value: object, *, inside: bool) -> set[str]:
    """Return all text below the keys that hold what was said or done."""
    if isinstance(value, str):
        return {value} if inside else set()
    if isinstance(value, dict):
        return set().union(*(_texts(item, inside=inside or key in _PRIVATE) for key, item in value.items()), set())
    if isinstance(value, list):
        return set().union(*(_texts(item, inside=inside) for item in value), set())
    return set()


def _values(value: object) -> set[str]:
    return _texts(value, inside=True)
