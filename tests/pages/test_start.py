"""docs/start.md, followed from the top to the end by somebody with a new home."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from support.clients.patient_hook import patient_hook
from support.command_line import Shell
from support.pages import Page, Reader
from support.patience import PATIENCE, PATIENCE_S
from support.running import short_directory

PAGE = Page("start.md")
STEPS = [
    "up --detach",
    "hooks install claude",
    "hooks test claude",
    "tail",
    "doctor",
    "python turns.py",
    "hooks remove",
]
SESSION = "0d5c6f2e-6a53-4f0e-9f5b-3a1c5e1d7a10"


@pytest.fixture
def reader() -> Iterator[Reader]:
    with short_directory() as home:
        (home / "api").mkdir()
        yield Reader(home)
        Shell(home).call("down", "--timeout", PATIENCE)


def test_every_step_of_start_does_what_it_says(reader: Reader) -> None:
    up, install, canary, look, doctor, program, leave = PAGE.commands
    assert [step in command for step, command in zip(STEPS, PAGE.commands, strict=True)] == [True] * len(STEPS)

    shown = reader.run(up)
    assert (shown.code, "lifebus is up" in shown.text, "running, version" in shown.text) == (0, True, True), shown.text
    shown = reader.run(install, b"y\n")
    assert (shown.code, "made" in shown.text) == (0, True), shown.text
    with patient_hook(reader.folder):
        shown = reader.run(canary)
        lines = [line for line in shown.text.splitlines() if "native_hook" in line]
        assert (shown.code, len(lines) > 5, [line for line in lines if "arrived" not in line]) == (0, True, [])
        _work(reader)

    shown = reader.run(look)
    assert shown.code == 0, shown.text
    assert [one for one in ("session.started", "frame.opened", "frame.ended", "api#1") if one not in shown.text] == []
    shown = reader.run(doctor)
    assert (shown.code, re.findall("BAD.*", shown.text)) == (0, []), shown.text
    PAGE.save(reader.folder)
    assert reader.run(program).text == f"claude {SESSION} 2\n"
    shown = reader.run(leave, b"y\n")
    assert (shown.code, not (reader.folder / ".claude/settings.json").exists()) == (0, True), shown.text
    assert not (reader.folder / ".local/share/lifebus").exists()
    assert Shell(reader.folder).call("down").code == 69  # nothing is left to stop


def _work(reader: Reader) -> None:
    """Do what a harness does in a session of two turns: run the commands of its settings, each with its call."""
    hooks = json.loads((reader.folder / ".claude/settings.json").read_text())["hooks"]
    turn: list[tuple[str, dict[str, str]]] = [("UserPromptSubmit", {"prompt": "Hi"}), ("Stop", {})]
    calls = [("SessionStart", {"source": "startup"}), *turn, *turn, ("SessionEnd", {"reason": "prompt_input_exit"})]
    for hook, facts in calls:
        call = {"hook_event_name": hook, "session_id": SESSION, "cwd": str(reader.folder / "api"), **facts}
        ((entry,),) = [group["hooks"] for group in hooks[hook]]
        done = subprocess.run(
            ["sh", "-c", entry["command"]],
            input=json.dumps(call).encode(),
            env=reader.environment,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
