"""Who waits for a person, as commands and the library show it: begun by a hook that was installed, ended by another."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

import lifebus
from lifebus import Receipt
from support.command_line import Shell, broker_up
from support.running import short_directory

SESSION = "s1"
PERMISSION = {"hook_event_name": "PermissionRequest", "prompt_id": "t1", "tool_name": "Bash", "tool_input": {"c": "rm"}}
PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt_id": "t1", "prompt": "PRIVATE"}
STOP = {"hook_event_name": "Stop", "prompt_id": "t1", "stop_hook_active": False}


def hook(shell: Shell, payload: dict[str, Any], session: str = SESSION) -> None:
    """Call the launcher that was installed, as Claude Code does, until the broker has taken the call."""
    shell.hook("claude", {"session_id": session, **payload})


@pytest.fixture(scope="module")
def waiting() -> Iterator[Shell]:
    """A shell beside a broker with a session that waits, and another that does not."""
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_TICKS_INTERVAL_MS="100")
        assert shell.call("hooks", "install", "claude", "--yes").code == 0
        with broker_up(shell):
            shell.call("emit", "session.started", "--session", "other", "--adapter", "codex")
            hook(shell, PROMPT)
            hook(shell, PERMISSION)
            # A call that found no time in the broker lies in the spool for a moment.
            while not shell.call("sessions", "--waiting", "--json").json:
                pass
            yield shell


def test_the_hooks_that_tell_of_it_are_installed(waiting: Shell) -> None:
    settings = json.loads((waiting.directory / ".claude/settings.json").read_text())
    assert {"PermissionRequest", "Notification", "Elicitation", "ElicitationResult"} <= settings["hooks"].keys()


@pytest.mark.parametrize("event", ["Notification", "PermissionRequest"])
def test_a_plan_may_be_of_one_of_them_alone(waiting: Shell, event: str) -> None:
    ran = waiting.call("hooks", "plan", "claude", "--events", event)
    assert (ran.code, event in ran.out) == (0, True)


def test_sessions_say_for_what_and_since_when(waiting: Shell) -> None:
    (session,) = waiting.call("sessions", "--waiting", "--json").json
    (wait,) = session["waiting"]
    assert (session["harness_session_id"], wait["waiting_for"], wait["kind"]) == (SESSION, "permission", "Bash")
    assert len(waiting.call("sessions", "--json").json) == 2
    assert "permission (Bash)" in waiting.call("sessions").out


def test_status_names_who_waits(waiting: Shell) -> None:
    (line,) = [line for line in waiting.call("status").out.splitlines() if line.startswith("waiting ")]
    (session,) = waiting.call("sessions", "--waiting", "--json").json
    assert f"{session['name']} (claude): permission (Bash)" in line
    (one,) = waiting.call("status", "--json").json["waiting"]
    assert (one["adapter_id"], one["waiting"][0]["waiting_for"]) == ("claude", "permission")


@pytest.mark.parametrize("command", [("tail", "--no-follow"), ("receipts", "list")])
def test_receipts_about_it_are_selected(waiting: Shell, command: tuple[str, ...]) -> None:
    about = ("--waiting", "--session", f"claude/{SESSION}")
    found = [line["receipt"] for line in waiting.call(*command, *about, "--json").lines]
    assert found
    assert {one["event"] for one in found} == {"supervisor.tick"}
    assert [one["telemetry_summary"]["waiting"] for one in found] == ["begun"]
    assert "waits for permission (Bash)" in waiting.call(*command, *about).out


def test_the_library_follows_a_wait_from_its_beginning_to_its_end(waiting: Shell) -> None:
    async def follow() -> list[tuple[object, ...]]:
        told: list[tuple[object, ...]] = []
        async with lifebus.connect("watcher", runtime_dir=waiting.directory / "run") as bus:
            receipts = bus.receipts(waiting=True)
            await receipts.join()
            for payload in (PROMPT, PERMISSION, STOP):
                await anyio.to_thread.run_sync(hook, waiting, payload, "s2")
            async for item in receipts:
                assert isinstance(item, Receipt)
                facts = item.telemetry_summary
                told.append((item.harness_session_id, *(facts.get(name) for name in names)))
                if facts["waiting"] == "ended":
                    return told
        return told

    names = ("waiting", "waiting_for", "waiting_ended_by")
    assert anyio.run(follow) == [("s2", "begun", "permission", None), ("s2", "ended", "permission", "turn_ended")]
