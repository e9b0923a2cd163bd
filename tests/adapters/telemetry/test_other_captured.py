"""Every captured file and database of Gemini CLI, OpenCode, Hermes and OpenClaw is read into the reviewed facts.

`expected_facts/<harness>/<scenario>.txt` names each file and its facts, each behind the number of its record or row.
"""

from pathlib import Path

import msgspec
import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import (
    Compacted,
    Fact,
    TurnContinued,
    TurnEnded,
    TurnStarted,
    Usage,
    Whereabouts,
)
from support.adapters.calls import CAPTURE_FILES, captured, ids
from support.adapters.other_telemetry import DUMPS, FILES, SCENARIOS, numbered_facts, replay_scenario, source
from support.adapters.telemetry_facts import NOTHING_SET, harness_of, scenario_of

HARNESSES = ("gemini", "hermes", "openclaw", "opencode")


def by_name(path: Path) -> str:
    return f"{harness_of(path)}-{scenario_of(path)}-{path.name}"


def facts(path: Path) -> list[Fact]:
    return [fact for _, fact in numbered_facts(path)]


def hooks_of(harness: str, scenario: str) -> list[Path]:
    return [path for path in CAPTURE_FILES if path.parent.name == scenario and path.parent.parent.name == harness]


@pytest.mark.parametrize("expected", SCENARIOS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_captured_scenario_has_the_reviewed_facts_in_order(expected: Path) -> None:
    assert replay_scenario(SCENARIOS[expected]) == expected.read_text()


def test_every_expectation_belongs_to_a_captured_file() -> None:
    folder = Path(__file__).parent / "expected_facts"
    assert sorted(path for name in HARNESSES for path in (folder / name).glob("*.txt")) == sorted(SCENARIOS)


@pytest.mark.parametrize("path", [*FILES, *DUMPS], ids=by_name)
def test_no_words_of_a_conversation_get_into_facts(path: Path) -> None:
    # Where a session works and what it is called has tests of its own.
    text = msgspec.json.encode([one for one in facts(path) if not isinstance(one, Whereabouts)]).decode()
    for word in ("Fake answer", "TOOL:", "USAGE:", "echo", "state_snapshot", "/home/dev"):
        assert word not in text


@pytest.mark.parametrize("path", [*FILES, *DUMPS], ids=by_name)
def test_facts_are_about_the_session_that_the_hooks_name(path: Path) -> None:
    files = hooks_of(harness_of(path), scenario_of(path))
    if not files:
        pytest.skip("no hooks were recorded beside this one")
    named = {ADAPTERS[harness_of(path)].read(call, ids()).session for file in files for call, _ in captured(file)}
    assert {fact.session for fact in facts(path)} <= named


@pytest.mark.parametrize("path", [*FILES, *DUMPS], ids=by_name)
def test_what_hooks_and_files_say_of_a_full_context_agrees(path: Path) -> None:
    files = hooks_of(harness_of(path), scenario_of(path))
    readings = [ADAPTERS[harness_of(path)].read(call, ids()) for file in files for call, _ in captured(file)]
    by_hooks = {fact.used_tokens for reading in readings for fact in reading.facts if isinstance(fact, Usage)}
    by_file = {fact.used_tokens for fact in facts(path) if isinstance(fact, Usage)}
    assert by_file <= by_hooks or not by_hooks or not files


@pytest.mark.parametrize("path", [path for path in DUMPS if harness_of(path) == "openclaw"], ids=by_name)
def test_openclaws_runs_have_the_ids_that_its_hooks_use(path: Path) -> None:
    turns = [fact.frame_id for fact in facts(path) if isinstance(fact, TurnStarted | TurnEnded)]
    assert turns == [turn for turn in dict.fromkeys(turns) for _ in range(2)]
    assert None not in turns


@pytest.mark.parametrize("path", [path for path in DUMPS if harness_of(path) == "opencode"], ids=by_name)
def test_opencodes_turns_have_the_ids_that_its_hooks_use(path: Path) -> None:
    turns = [fact.frame_id for fact in facts(path) if isinstance(fact, TurnStarted | TurnContinued | TurnEnded)]
    files = hooks_of(harness_of(path), scenario_of(path))
    readings = [ADAPTERS["opencode"].read(call, ids()) for file in files for call, _ in captured(file)]
    prompts = [reading.emissions[0] for reading in readings if reading.hook == "chat.message"]
    named = {one.request.frame_context.frame_id for one in prompts if one.request.frame_context}
    assert None not in turns
    assert set(turns) == named or not files


@pytest.mark.parametrize(
    ("harness", "scenario", "compactions"),
    [
        ("opencode", "three_runs_auto_compaction", 1),
        ("opencode", "run_tool_call", 0),
        ("hermes", "chat_resume_compression_no_progress", 0),
        ("gemini", "three_runs_resume", 0),
        ("gemini", "compression", 1),
    ],
)
def test_only_what_proves_a_compaction_is_one(harness: str, scenario: str, compactions: int) -> None:
    """Gemini CLI's tokens fell from 70,000 to 12,522 by resuming; Hermes tried to compress and made no progress."""
    paths = [path for path in (*FILES, *DUMPS) if (harness_of(path), scenario_of(path)) == (harness, scenario)]
    proofs = [fact for path in paths for fact in facts(path) if isinstance(fact, Compacted)]
    assert len(proofs) == compactions


def test_the_chat_file_that_a_hook_names_is_one_of_ours() -> None:
    named = {
        ADAPTERS["gemini"].read(call, ids()).transcript
        for path in CAPTURE_FILES
        if path.parent.parent.name == "gemini"
        for call, _ in captured(path)
    }
    chats = source("gemini", "chats")
    (root,) = chats.roots(NOTHING_SET)
    assert {path.name for path in FILES if path.suffix == ".jsonl"} <= {str(name).rpartition("/")[2] for name in named}
    assert all(name and chats.is_ours(name) and name.startswith(root + "/") for name in named)
