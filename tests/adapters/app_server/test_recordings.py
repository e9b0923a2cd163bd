"""The sessions that the demo plays: complete, in order, and readable by the adapters."""

import json
from importlib import resources

import pytest

from support.adapters.calls import parse

RECORDINGS = [
    (harness, scenario)
    for harness, scenarios in {
        "codex": ("exec_three_turns_auto_compaction", "exec_sigint"),
        "claude": ("print_four_runs_manual_compact", "print_model_error_500_stopfailure"),
        "gemini": ("prompt_tool_call", "three_runs_resume"),
    }.items()
    for scenario in scenarios
]


@pytest.mark.parametrize(("harness", "scenario"), RECORDINGS)
def test_a_recording_runs_forward_from_zero_and_every_call_parses(harness: str, scenario: str) -> None:
    text = resources.files("lifebus").joinpath("recordings", harness, f"{scenario}.jsonl").read_text()
    calls = [json.loads(line) for line in text.splitlines()]
    times = [call["at"] for call in calls]
    assert times[0] == 0
    assert times == sorted(times)
    found = [parse(harness, call["stdin"], call["hook"]) for call in calls]
    assert [emission.request.event.value for emission in found[0]] == ["session.starting", "session.started"]
    assert [emission.request.event.value for emission in found[-1]] == ["session.ending", "session.ended"]
