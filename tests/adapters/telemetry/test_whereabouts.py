"""Where a session works and what it is called: what the files of each harness say of it, and nothing else of them."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import Fact, Whereabouts
from support.adapters import claude_lines
from support.adapters.other_telemetry import DUMPS, SCHEMAS, Store, numbered_facts, stored
from support.adapters.telemetry_facts import HOME, TELEMETRY_FILES, facts_of, harness_of, records_of

ROLLOUT = f"{HOME}/.codex/sessions/2026/11/21/rollout-2026-11-21T20-54-34-{claude_lines.SESSION}.jsonl"
LONG = "x" * 1_025


def places(facts: list[Fact]) -> list[tuple[str | None, str | None, str | None]]:
    return [(one.cwd, one.git_branch, one.title) for one in facts if isinstance(one, Whereabouts)]


# What was recorded


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=lambda path: f"{path.parent.parent.name}-{path.name[-14:-6]}")
def test_a_recorded_file_says_where_its_session_works(path: Path) -> None:
    lines = [json.loads(line) for line in records_of(path)]
    said = claude_says(lines) if harness_of(path) == "claude" else rollout_says(lines[0]["payload"])
    assert places(facts_of(harness_of(path), str(path), records_of(path))) == said


def claude_says(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    (only,) = {(one["cwd"], one["gitBranch"], None) for one in lines if "gitBranch" in one}
    return [only]


def rollout_says(first: dict[str, Any]) -> list[tuple[Any, ...]]:
    # A sub-agent's rollout is no session's.
    return [] if "parent_thread_id" in first else [(first["cwd"], first.get("git", {}).get("branch"), None)]


@pytest.mark.parametrize(
    "path", [one for one in DUMPS if harness_of(one) == "opencode"], ids=lambda path: path.parent.name
)
def test_a_recorded_database_says_what_its_sessions_are_called(path: Path) -> None:
    told = [
        json.loads(row["data"])
        for _, row in stored(path)
        if row["type"].startswith("session.") and row["data"][0] == "{"
    ]
    newest = {one["info"]["id"]: one["info"] for one in told if "title" in one["info"]}
    found = {fact.session: (fact.cwd, fact.title) for _, fact in numbered_facts(path) if isinstance(fact, Whereabouts)}
    assert found == {
        name: (info["directory"], None if info["title"].startswith("New session - ") else info["title"])
        for name, info in newest.items()
    }


# Claude Code


def typed(prompt: str, **more: Any) -> bytes:
    return claude_lines.prompt("hi", prompt, **claude_lines.TYPED, **more)


def test_a_branch_that_changes_is_said_again_and_one_that_stays_is_not() -> None:
    lines = [typed(f"p{number}", cwd="/a", gitBranch=name) for number, name in enumerate(["main", "main", "fix", ""])]
    assert places(claude_lines.read(*lines)) == [("/a", "main", None), ("/a", "fix", None)]


def test_a_directory_that_changes_is_left_to_the_hooks() -> None:
    lines = [typed("p1", cwd="/a", gitBranch="main"), typed("p2", cwd="/a/b", gitBranch="main")]
    assert places(claude_lines.read(*lines)) == [("/a", "main", None)]


def test_the_users_title_goes_before_the_one_that_was_made_up() -> None:
    made_up = claude_lines.line("ai-title", aiTitle="Made up")
    given = claude_lines.line("custom-title", customTitle="Given")
    assert places(claude_lines.read(made_up, given, made_up)) == [(None, None, "Made up"), (None, None, "Given")]


@pytest.mark.parametrize("more", [{"isSidechain": True}, {"sessionId": claude_lines.OTHER, "isSidechain": True}])
def test_a_sub_agents_line_says_nothing(more: dict[str, Any]) -> None:
    assert places(claude_lines.read(typed("p1", cwd="/a", gitBranch="main", **more))) == []


@pytest.mark.parametrize("bad", [7, ["main"], {"a": 1}, LONG, "a\nb", "", None])
def test_what_cannot_be_recorded_costs_nothing_else_of_its_line(bad: Any) -> None:
    facts = claude_lines.read(typed("p1", cwd=bad, gitBranch=bad), claude_lines.answer(cwd=bad))
    assert places(facts) == []
    assert len(facts) == 3


# Codex


def first_line(**payload: Any) -> bytes:
    meta = {"id": claude_lines.SESSION, "source": "cli", "thread_source": "user", **payload}
    return json.dumps({"type": "session_meta", "payload": meta}).encode()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"cwd": "/a", "git": {"branch": "main", "commit_hash": "c0ffee"}}, [("/a", "main", None)]),
        ({"cwd": "/a", "git": {}}, [("/a", None, None)]),
        ({"cwd": "/a", "git": None}, [("/a", None, None)]),
        ({"cwd": 7, "git": [1]}, []),
        ({"cwd": LONG, "git": {"branch": "a\nb"}}, []),
        ({}, []),
    ],
)
def test_a_rollouts_first_line_has_the_directory_and_the_branch(said: dict[str, Any], found: list[Any]) -> None:
    assert places(facts_of("codex", ROLLOUT, [first_line(**said)])) == found


def test_a_forks_parent_does_not_say_where_the_fork_works() -> None:
    lines = [first_line(cwd="/own", forked_from_id="x"), first_line(cwd="/parents", git={"branch": "old"})]
    assert places(facts_of("codex", ROLLOUT, lines)) == [("/own", None, None)]


def test_a_sub_agents_rollout_says_nothing() -> None:
    line = first_line(cwd="/a", git={"branch": "main"}, parent_thread_id="x")
    assert places(facts_of("codex", ROLLOUT, [line])) == []


# OpenCode


def session(store: Store, kind: str = "session.updated.1", **info: Any) -> None:
    store.insert("event", aggregate_id="ses_1", type=kind, data=json.dumps({"info": {"id": "ses_1", **info}}))


def test_a_title_is_known_once_it_is_more_than_a_placeholder() -> None:
    store = Store("opencode")
    store.poll()
    session(store, "session.created.1", directory="/a", title="New session - 2026-11-21T21:06:25.278Z")
    session(store, directory="/a", title="New session - 2026-11-21T21:06:25.278Z")
    session(store, directory="/a", title="Repair")
    session(store, time={"updated": 7})
    assert places(store.poll()) == [("/a", None, None), ("/a", None, "Repair")]


@pytest.mark.parametrize("title", ["New session - of the council", "Child session", "New session"])
def test_a_title_that_only_begins_like_a_placeholder_is_one(title: str) -> None:
    store = Store("opencode")
    store.poll()
    session(store, title=title)
    assert places(store.poll()) == [(None, None, title)]


def test_the_summary_of_a_message_is_no_title() -> None:
    store = Store("opencode")
    store.poll()
    info = {"id": "m", "role": "user", "title": "PRIVATE", "directory": "/a"}
    store.insert("event", aggregate_id="ses_1", type="message.updated.1", data=json.dumps({"info": info}))
    assert places(store.poll()) == []


# Hermes


def hermes(columns: str) -> Store:
    store = Store("hermes")
    store.connection.executescript(f"DROP TABLE sessions; CREATE TABLE sessions (id TEXT PRIMARY KEY, {columns});")
    store.connection.execute("INSERT INTO sessions (id) VALUES ('s')")
    store.insert("messages", session_id="s", role="user", finish_reason=None)
    return store


def test_hermes_says_branch_and_title_whenever_they_change() -> None:
    store = hermes("ended_at REAL, end_reason TEXT, git_branch TEXT, title TEXT")
    assert places(store.poll()) == []
    store.connection.execute("UPDATE sessions SET git_branch = 'main'")
    assert places(store.poll()) == [(None, "main", None)]
    assert places(store.poll()) == []
    store.connection.execute("UPDATE sessions SET title = 'Repair'")
    assert places(store.poll()) == [(None, "main", "Repair")]


@pytest.mark.parametrize("columns", ["ended_at REAL, end_reason TEXT", "ended_at REAL, end_reason TEXT, title TEXT"])
def test_a_version_of_hermes_without_these_columns_is_read_as_before(columns: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        hermes(columns).connection.execute("SELECT git_branch FROM sessions")
    facts = hermes(columns).poll()
    assert [type(fact).__name__ for fact in facts] == ["TurnStarted"]


def test_the_tables_of_the_tests_are_without_them_too() -> None:
    assert "git_branch" not in SCHEMAS["hermes"]
