"""Every captured rollout and transcript is read into the reviewed list of facts, line by line.

`expected_facts/<harness>/<scenario>.txt` names each file and its facts, each behind the number of the line it is from.
"""

from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Compacted, Fact, Usage, Whereabouts
from support.adapters.calls import captured, ids
from support.adapters.telemetry_facts import (
    FOLDERS,
    NOTHING_SET,
    TELEMETRY_FILES,
    expectation,
    facts_of,
    harness_of,
    records_of,
    replayed_scenario,
    scenario_of,
    source_of,
)

SCENARIOS = [list(files) for _, files in groupby(TELEMETRY_FILES, key=expectation)]
SUBAGENTS = {"rollout-2026-11-22T01-36-43-00000004-74e1-7d1c-a9b9-4c100a5c1192.jsonl"}
"""The rollouts of sub-agents: hooks name them, and they hold no facts."""

UNWRITTEN = {9913}
"""What stands in a hook and never in the rollout: the program was killed between the two."""


def by_name(path: Path) -> str:
    return f"{harness_of(path)}-{scenario_of(path)}-{path.name[-14:-6]}"


@pytest.mark.parametrize("files", SCENARIOS, ids=lambda files: f"{harness_of(files[0])}-{scenario_of(files[0])}")
def test_a_captured_file_has_the_reviewed_facts_in_order(files: list[Path]) -> None:
    assert replayed_scenario(files) == expectation(files[0]).read_text()


def test_every_expectation_belongs_to_a_captured_file() -> None:
    folder = Path(__file__).parent / "expected_facts"
    kept = [path for name in FOLDERS for path in (folder / name).glob("*.txt")]
    assert sorted(kept) == sorted({expectation(path) for path in TELEMETRY_FILES})


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=by_name)
def test_a_file_read_twice_has_the_same_facts_with_the_same_keys(path: Path) -> None:
    once, again = (facts_of(harness_of(path), str(path), records_of(path)) for _ in range(2))
    keys = [fact.key for fact in once if isinstance(fact, Compacted)]
    assert once == again
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=by_name)
def test_facts_are_about_the_session_that_hooks_and_file_name_say(path: Path) -> None:
    source = source_of(harness_of(path))
    sessions = {fact.session for fact in facts_of(harness_of(path), str(path), records_of(path))}
    hooks = {hook["session_id"] for hook in hooks_beside(path)}
    assert sessions <= {source.session_of(str(path))}
    assert sessions <= hooks
    assert sessions or path.name in SUBAGENTS


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=by_name)
def test_no_words_of_a_conversation_get_into_facts(path: Path) -> None:
    facts = facts_of(harness_of(path), str(path), records_of(path))
    # Where a session works and what it is called has tests of its own.
    text = msgspec.json.encode([one for one in facts if not isinstance(one, Whereabouts)]).decode()
    for word in ("Fake answer", "TOOL:", "USAGE:", "echo", "/home/dev"):
        assert word not in text


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=by_name)
def test_the_transcript_that_a_hook_names_is_a_file_of_the_source(path: Path) -> None:
    source = source_of(harness_of(path))
    readings = [ADAPTERS[harness_of(path)].read(call, ids()) for call, _ in captured(hooks_file(path))]
    named = {reading.transcript for reading in readings if reading.transcript}
    assert path.name in {name.rpartition("/")[2] for name in named}
    assert all(source.is_ours(name) for name in named)
    assert all(any(name.startswith(root + "/") for root in source.roots(NOTHING_SET)) for name in named)


@pytest.mark.parametrize("adapter_id", FOLDERS)
def test_what_hooks_and_files_say_of_a_full_context_agrees(adapter_id: str) -> None:
    """Each number of a hook is also one of the session's file."""
    for path in (path for path in TELEMETRY_FILES if harness_of(path) == adapter_id):
        readings = [ADAPTERS[adapter_id].read(call, ids()) for call, _ in captured(hooks_file(path))]
        session = source_of(adapter_id).session_of(str(path))
        by_hooks = {used for reading in readings for used in _used(reading.facts, session)}
        assert by_hooks <= set(_used(facts_of(adapter_id, str(path), records_of(path)), session)) | UNWRITTEN


def _used(facts: tuple[Fact, ...] | list[Fact], session: str | None) -> list[int]:
    return [fact.used_tokens for fact in facts if isinstance(fact, Usage) and fact.session == session]


def hooks_file(path: Path) -> Path:
    return next(parent / "hooks.jsonl" for parent in path.parents if (parent / "hooks.jsonl").exists())


def hooks_beside(path: Path) -> list[dict[str, str]]:
    return [payload for _, payload in captured(hooks_file(path))]
