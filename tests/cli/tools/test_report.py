"""`lifebus report` as a command: a broker with sessions of two harnesses, and what the report says of them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lifebus.cli.tools.report_rules import ActivityReport
from support.command_line import Shell, broker_up
from support.running import short_directory

WIDE = 80


def hook(shell: Shell, session: str, **payload: Any) -> None:
    """Call the launcher that was installed, as Claude Code does."""
    shell.hook("claude", {"session_id": session, "cwd": "/srv/api", **payload})


@pytest.fixture(scope="module")
def busy() -> Iterator[Shell]:
    """A shell beside a broker with a session of Claude Code that waited and failed, and two of an app's own."""
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_TICKS_INTERVAL_MS="100")
        assert shell.call("hooks", "install", "claude", "--yes").code == 0
        note = directory / "note"
        note.write_text("remember the milk")
        with broker_up(shell):
            hook(shell, "s1", hook_event_name="SessionStart", source="startup")
            hook(shell, "s1", hook_event_name="UserPromptSubmit", prompt_id="t1", prompt="PRIVATE")
            hook(shell, "s1", hook_event_name="PermissionRequest", prompt_id="t1", tool_name="Bash")
            hook(shell, "s1", hook_event_name="StopFailure", prompt_id="t1", error="overloaded")
            for session in ("a", "b"):
                shell.call("emit", "session.started", "--session", session, "--adapter", "codex")
            placed = ("--payload", str(note), "--placement", "pre_prompt_frame")
            of_frame = ("--adapter", "codex", "--session", "a", "--frame", "f1")
            assert shell.call("emit", "frame.opening", *of_frame, *placed).code == 0
            # A call that found no time in the broker lies in the spool for a moment.
            while not ended(shell):
                pass
            yield shell


def ended(shell: Shell) -> bool:
    """Whether the wait of the session is over, and its turn has failed."""
    heads = shell.call("sessions", "claude/s1", "--json").json
    return bool(heads) and heads[0]["failures"] == 1 and not heads[0]["waiting"]


def test_the_report_says_what_happened_by_harness_and_project(busy: Shell) -> None:
    found = busy.call("report", "--json").json
    rows = {(row["adapter_id"], row["project"]): row for row in found["rows"]}
    claude, codex = rows["claude", "api"], rows["codex", "-"]
    assert [claude[name] for name in ("sessions", "turns", "failures", "injected")] == [1, 1, 1, 0]
    assert claude["waited_ms"] >= 0
    assert [codex[name] for name in ("sessions", "turns", "failures", "injected")] == [2, 1, 0, 1]
    assert (found["total"]["sessions"], found["missing"]) == (3, 0)


def test_it_is_of_a_span_a_harness_or_a_project(busy: Shell) -> None:
    assert [row["adapter_id"] for row in busy.call("report", "--adapter", "codex", "--json").json["rows"]] == ["codex"]
    assert [row["project"] for row in busy.call("report", "--project", "a*", "--json").json["rows"]] == ["api"]
    nothing = busy.call("report", "--since", "2001-01-01", "--until", "2001-01-02")
    assert (nothing.code, nothing.out, "nothing happened" in nothing.err) == (0, "", True)
    backwards = busy.call("report", "--since", "1m", "--until", "1h")
    assert (backwards.code, "before --since" in backwards.err) == (2, True)


def test_a_terminal_of_eighty_columns_has_room_for_it(busy: Shell) -> None:
    ran = busy.on_terminal("report", variables={"NO_COLOR": "1"})
    assert "api" in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= WIDE


def test_the_json_is_what_its_schema_says(busy: Shell) -> None:
    found = busy.call("report", "--json").out
    assert msgspec.json.decode(found, type=ActivityReport, strict=True).rows
