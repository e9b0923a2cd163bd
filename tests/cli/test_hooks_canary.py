"""`lifebus hooks test` and the manual skill against a broker that runs."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.harness_assets import skill_file
from support.command_line import Shell, broker_up
from support.patience import PATIENCE, PATIENCE_S
from support.running import short_directory

PATIENT = ("--timeout", PATIENCE)
"""The time of the canaries that are lost, where none is."""


@pytest.fixture(scope="module")
def home() -> Iterator[Shell]:
    """A home with every harness's hooks, beside a running broker."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            assert shell.call("hooks", "install", *ADAPTERS, "--yes").code == 0
            yield shell


def test_a_canary_arrives_through_every_installed_hook(home: Shell) -> None:
    ran = home.call("hooks", "test", "--json", *PATIENT)
    found = {(one["harness"], one["hook"]): one for one in ran.json}
    for name in ("claude", "codex", "gemini", "hermes"):
        for event in ADAPTERS[name].assets.events:
            one = found[name, event.name]
            assert (one["arrived"], one["exit_code"]) == (True, 0), one
    if shutil.which("node"):
        assert found["opencode", "plugin"]["arrived"] is True
        assert found["openclaw", "plugin"]["arrived"] is True
    assert ran.code == 0
    lines = home.call("receipts", "list", "--event", "supervisor.tick", "--canaries", "--json", "-n", "100").lines
    receipts = [one["receipt"] for one in lines]
    assert {one["telemetry_summary"]["source_hook"] for one in receipts} == {"lifebus.canary"}
    assert {one["harness_session_id"] for one in receipts} == {None}


def test_a_wrapper_is_tried_without_starting_the_harness(home: Shell) -> None:
    home.call("hooks", "install", "codex", "--mode", "launcher_wrapper", "--yes")
    home.call("hooks", "install", "codex", "--mode", "manual_skill", "--yes")
    ran = home.call("hooks", "test", "codex", *PATIENT)
    assert ran.code == 0
    assert "launcher_wrapper  wrapper_start" in ran.out
    assert "instructions; there is nothing to run" in ran.out


def test_a_command_that_was_spoilt_is_found_out(home: Shell) -> None:
    path = home.directory / ".gemini" / "settings.json"
    intact = path.read_text()
    spoilt = json.loads(intact)
    handler = spoilt["hooks"]["AfterAgent"][0]["hooks"][0]
    handler["command"] = handler["command"].replace("lifebus-hook", "gone/lifebus-hook")
    path.write_text(json.dumps(spoilt))
    until, lost = time.monotonic() + PATIENCE_S, [""] * 2
    while len(lost) > 1 and time.monotonic() < until:  # on a busy machine others may be late, too
        ran = home.call("hooks", "test", "gemini", "--timeout", "1s")
        lost = [" ".join(line.split()[2:5]) for line in ran.out.splitlines() if "LOST" in line]
        assert (ran.code, "AfterAgent LOST 0" in lost) == (1, True), ran.out
    path.write_text(intact)
    assert len(lost) == 1


def test_without_a_broker_it_says_how_to_start_one(home: Shell) -> None:
    ran = home.call("hooks", "test", "--runtime-dir", str(home.directory / "nowhere"))
    assert (ran.code, "lifebus up" in ran.err) == (69, True)


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_the_commands_of_the_skill_work(home: Shell, adapter_id: str) -> None:
    lines = skill_file("/skills", adapter_id).contents.splitlines()
    commands = [line.split()[1:] for line in lines if line.startswith("    lifebus ")]
    assert len(commands) == 5
    for words in commands:
        ran = home.call(*[word.replace("SESSION", f"skill-{adapter_id}") for word in words])
        assert ran.code == 0, ran.err
    shown = home.call("receipts", "list", "--session", f"{adapter_id}/skill-{adapter_id}", "--json").lines
    events = [one["receipt"]["event"] for one in shown]
    assert events == ["session.started", "frame.opened", "frame.ended", "session.ended"]


def test_hooks_survive_the_launchers_end(home: Shell) -> None:
    """The command in the settings ends with 0 when lifebus is gone: harnesses read 2 as a refusal."""
    settings = json.loads((home.directory / ".codex" / "hooks.json").read_text())
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    folder = home.directory / ".local/share/lifebus"
    for name in ("hook.py", "lifebus-hook"):
        (folder / name).rename(folder / f"{name}.away")
        ran = subprocess.run(
            ["/bin/sh", "-c", command], input=b"{}", capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    for name in ("hook.py", "lifebus-hook"):
        (folder / f"{name}.away").rename(folder / name)
