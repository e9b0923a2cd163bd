"""`lifebus hooks`: plan, install, status and remove in a home of its own."""

import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.codex.trust import hook_hash
from support.command_line import Ran, Shell

CLAUDE = """{
  "model": "opus",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "echo hi"}]}
    ]
  }
}
"""


def program(shell: Shell, name: str, version: str) -> str:
    """Put a program on a PATH of its own that says a version; return the PATH."""
    folder = shell.directory / "programs"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}"\n')
    path.chmod(0o755)
    return f"{folder}:{os.defpath}"


def files(directory: Path) -> dict[str, str]:
    """Return every file and directory in the home but the records and backups."""
    return {
        str(path.relative_to(directory)): path.read_text() if path.is_file() else "a directory"
        for path in sorted(directory.rglob("*"))
        if directory / "state" not in (path, *path.parents)
    }


def settings(shell: Shell, name: str) -> Any:
    return json.loads((shell.directory / name).read_text())


def installed(shell: Shell, *arguments: str, **variables: str) -> Ran:
    ran = shell.call("hooks", "install", *arguments, "--yes", stdin=b"", **variables)
    assert ran.code == 0, ran.err
    return ran


def test_a_plan_shows_a_diff_of_the_settings_and_writes_nothing(alone: Shell) -> None:
    (alone.directory / ".claude").mkdir()
    (alone.directory / ".claude" / "settings.json").write_text(CLAUDE)
    before = files(alone.directory)
    ran = alone.call("hooks", "plan", "claude")
    assert ran.code == 0
    assert f"--- {alone.directory}/.claude/settings.json" in ran.out
    assert '+    "SessionStart": [' in ran.out
    assert "lifebus-hook (19 lines, lifebus's own, mode 0700)" in ran.out
    assert "claude is not on PATH" in ran.out
    # What of the user's own goes is told in the last line, beside the question.
    assert re.fullmatch(
        f"{alone.directory}/.claude/settings.json: [0-9]+ lines added, [01] removed", ran.out.splitlines()[-1]
    )
    assert files(alone.directory) == before


def test_install_and_remove_leave_every_byte_as_it_was(alone: Shell) -> None:
    (alone.directory / ".claude").mkdir()
    (alone.directory / ".claude" / "settings.json").write_text(CLAUDE)
    before = files(alone.directory)
    for arguments in (ADAPTERS, ["claude", "--mode", "manual_skill"], ["codex", "--mode", "launcher_wrapper"]):
        installed(alone, *arguments)
    installed(alone, "claude", "--status-line")
    assert len(settings(alone, ".claude/settings.json")["hooks"]["Stop"]) == 2
    removed = alone.call("hooks", "remove", "--yes")
    assert removed.code == 0, removed.err
    assert files(alone.directory) == before
    assert alone.call("hooks", "status").err == "nothing is installed; `lifebus hooks install HARNESS` does it\n"


def test_the_shared_launcher_goes_with_the_last_harness(alone: Shell) -> None:
    installed(alone, "codex", "gemini")
    launcher = alone.directory / ".local/share/lifebus/lifebus-hook"
    assert launcher.stat().st_mode & 0o777 == 0o700
    alone.call("hooks", "remove", "codex", "--yes")
    assert launcher.exists()
    alone.call("hooks", "remove", "gemini", "--yes")
    assert not launcher.parent.exists()


def test_what_python_kept_of_the_hook_goes_with_it(alone: Shell) -> None:
    installed(alone, "claude")
    kept = alone.directory / ".local/share/lifebus/__pycache__"
    alone.hook("claude", {"hook_event_name": "Stop"})
    assert [path.name.partition(".")[0] for path in kept.iterdir()] == ["hook"]
    alone.call("hooks", "remove", "claude", "--yes")
    assert not kept.parent.exists()


def test_a_file_of_ours_that_somebody_edited_stays_and_that_is_said(alone: Shell) -> None:
    installed(alone, "opencode", "codex")
    plugin = alone.directory / ".config/opencode/plugin/lifebus.js"
    plugin.write_text(plugin.read_text() + "// mine\n")
    removed = alone.call("hooks", "remove", "opencode", "--yes")
    assert (removed.code, f"{plugin}: kept: it was edited" in removed.out) == (0, True)
    assert "still needed" not in removed.out
    assert plugin.exists()


def test_a_removal_takes_all_of_a_harness_or_what_the_flags_leave(alone: Shell) -> None:
    installed(alone, "gemini", "codex")
    before = files(alone.directory)
    installed(alone, "codex", "--mode", "manual_skill")
    removed = alone.call("hooks", "remove", "--mode", "manual_skill", "--yes")
    assert (removed.code, files(alone.directory)) == (0, before)
    installed(alone, "codex", "--mode", "manual_skill")
    assert alone.call("hooks", "remove", "codex", "--dry-run", "--scope", "project").out.endswith("nothing to remove\n")
    alone.call("hooks", "remove", "codex", "--yes")
    assert {target["adapter_id"] for target in alone.call("hooks", "remove", "--dry-run", "--json").json} == {"gemini"}
    assert alone.call("hooks", "remove", "--mode", "nativ").code == 2
    assert alone.call("hooks", "remove", "--events", "Stop").code == 2


def test_hooks_in_two_places_that_would_report_twice_are_said(alone: Shell) -> None:
    project = alone.directory / "project"
    project.mkdir()
    installed(alone, "gemini")
    note = "installed already: gemini (native_hook, user); where both apply, every event is reported twice"
    assert note in alone.call("hooks", "plan", "gemini", "--project", str(project)).out
    assert "reported twice" not in alone.call("hooks", "plan", "gemini").out
    assert "reported twice" not in alone.call("hooks", "plan", "codex", "--project", str(project)).out


def test_a_home_that_is_no_absolute_path_is_the_accounts_own(alone: Shell) -> None:
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    for home in ("", "here"):
        ran = alone.call("hooks", "plan", "gemini", HOME=home)
        assert f"{own}/.local/share/lifebus/hook.py" in ran.out


def test_the_diff_of_settings_with_tabs_keeps_them(alone: Shell) -> None:
    (alone.directory / ".gemini").mkdir()
    (alone.directory / ".gemini" / "settings.json").write_text('{\n\t"theme": "x"\n}\n')
    assert '\n  +\t"hooks": {\n' in alone.call("hooks", "plan", "gemini").out


def test_what_is_installed_already_is_said_and_no_error(alone: Shell) -> None:
    assert "next: Start the broker: lifebus up" in installed(alone, "gemini").out
    before = files(alone.directory)
    again = alone.call("hooks", "install", "gemini")
    assert (again.code, "already installed" in again.out, "lifebus up" in again.out) == (0, True, False)
    assert files(alone.directory) == before


def test_without_a_terminal_nothing_is_done_unasked(alone: Shell) -> None:
    ran = alone.call("hooks", "install", "gemini")
    assert ran.code == 2
    assert "stdin is no terminal to ask at; --yes does it without asking" in ran.err
    assert files(alone.directory) == {}


def test_json_is_not_mixed_with_a_question(alone: Shell) -> None:
    ran = alone.on_terminal("hooks", "install", "gemini", "--json")
    assert (ran.code, "--json shows nothing to agree to" in ran.out) == (2, True)


def test_on_a_terminal_it_asks(alone: Shell) -> None:
    for answer in (b"\n", b"n\n", b"what\n", b"\x04"):
        ran = alone.on_terminal("hooks", "install", "gemini", types=answer)
        assert (ran.code, "\x1b[32m+" in ran.out, "nothing was changed" in ran.out) == (1, True, True)
        assert files(alone.directory) == {}
    assert alone.on_terminal("hooks", "install", "gemini", types=b"yes\n").code == 0
    assert "hooks" in settings(alone, ".gemini/settings.json")


def test_json_has_plan_and_outcome(alone: Shell) -> None:
    (planned,) = alone.call("hooks", "plan", "gemini", "--json").json
    assert (planned["adapter_id"], planned["already"], planned["done"]) == ("gemini", False, None)
    assert [item["action"] for item in planned["files"]] == ["create"] * 4
    (done,) = alone.call("hooks", "install", "gemini", "--json", "--yes").json
    assert [item["action"] for item in done["done"]] == ["create"] * 4
    report = alone.call("hooks", "status", "--json").json
    assert report["installations"][0]["sound"] is True
    assert report["launcher"]["state"] == "present"


def test_only_the_named_hooks_are_installed_and_that_is_no_fault(alone: Shell) -> None:
    installed(alone, "gemini", "--events", "BeforeAgent", "--events", "AfterAgent")
    assert list(settings(alone, ".gemini/settings.json")["hooks"]) == ["BeforeAgent", "AfterAgent"]
    status = alone.call("hooks", "status")
    assert (status.code, "hooks: BeforeAgent, AfterAgent" in status.out) == (0, True)


def test_a_hook_that_the_installed_version_does_not_know_is_refused(alone: Shell) -> None:
    path = program(alone, "claude", "2.0.50 (Claude Code)")
    refused = alone.call("hooks", "install", "claude", "--yes", PATH=path)
    assert refused.code == 1
    assert "claude is 2.0.50" in refused.err
    assert "PostCompact (2.1.76), StopFailure (2.1.78)" in refused.err
    assert not (alone.directory / ".claude").exists()
    left_out = alone.call("hooks", "install", "claude", "--yes", "--skip-unknown", PATH=path)
    assert (left_out.code, "do not know them" in left_out.out or "does not know them" in left_out.out) == (0, True)
    hooks = settings(alone, ".claude/settings.json")["hooks"]
    assert "Stop" in hooks
    assert "StopFailure" not in hooks


def test_a_version_that_is_new_enough_is_named(alone: Shell) -> None:
    ran = alone.call("hooks", "plan", "codex", PATH=program(alone, "codex", "codex-cli 0.169.0"))
    assert (ran.code, "codex is 0.169.0" in ran.out) == (0, True)


def test_codex_trust_is_shown_hook_by_hook(alone: Shell) -> None:
    ran = installed(alone, "codex")
    assert "Codex runs no hook that you have not trusted" in ran.out
    status = alone.call("hooks", "status", "codex")
    assert (status.code, "trust: all 10: NOT TRUSTED" in status.out) == (1, True)
    hooks_path = alone.directory / ".codex" / "hooks.json"
    lines = [
        f'[hooks.state."{hooks_path}:{re.sub("(?<!^)(?=[A-Z])", "_", event).lower()}:0:0"]\n'
        f'trusted_hash = "{hook_hash(event, None, groups[0]["hooks"][0])}"\n'
        for event, groups in settings(alone, ".codex/hooks.json")["hooks"].items()
    ]
    config = alone.directory / ".codex" / "config.toml"
    config.write_text("".join(lines))
    trusted = alone.call("hooks", "status", "codex")
    assert (trusted.code, "trust: all 10: trusted" in trusted.out) == (0, True)
    config.write_text("[features]\nhooks = false\n" + "".join(lines))
    assert "hooks are turned off" in alone.call("hooks", "status", "codex").out
    config.write_text("not toml")
    assert "cannot be told" in alone.call("hooks", "status", "codex").out


def test_status_names_what_is_wrong(alone: Shell) -> None:
    installed(alone, "gemini")
    path = alone.directory / ".gemini" / "settings.json"
    changed = settings(alone, ".gemini/settings.json")
    changed["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] = 1
    changed["hooks"]["Notification"] = [{"hooks": [{"type": "command", "command": "mine"}]}]
    path.write_text(json.dumps(changed))
    drifted = alone.call("hooks", "status")
    assert drifted.code == 1
    assert "not as this version would install it" in drifted.out
    assert "hooks of others: Notification 1" in drifted.out
    (alone.directory / ".local/share/lifebus/hook.py").unlink()
    assert "does not reach hook.py" in alone.call("hooks", "status").out
    path.write_text("{")
    broken = alone.call("hooks", "status")
    assert (broken.code, "cannot be read" in broken.out) == (1, True)


def test_hooks_that_are_there_but_switched_off_are_no_good_news(alone: Shell) -> None:
    installed(alone, "claude")
    path = alone.directory / ".claude" / "settings.json"
    path.write_text(json.dumps({**settings(alone, ".claude/settings.json"), "disableAllHooks": True}))
    status = alone.call("hooks", "status")
    assert (status.code, "disableAllHooks: Claude Code runs no hooks while this is set" in status.out) == (1, True)
    found = [one for one in alone.call("doctor", "--json").json if one["check"] == "hooks"]
    assert [(one["state"], "disableAllHooks" in one["evidence"]) for one in found] == [("bad", True)]


def test_settings_that_cannot_be_read_are_left_as_they_are(alone: Shell) -> None:
    (alone.directory / ".claude").mkdir()
    (alone.directory / ".claude" / "settings.json").write_text('{"hooks": ')
    before = files(alone.directory)
    ran = alone.call("hooks", "install", "claude", "--yes")
    assert (ran.code, "cannot read the settings" in ran.err) == (1, True)
    assert files(alone.directory) == before


def test_a_project_has_hooks_of_its_own(alone: Shell) -> None:
    project = alone.directory / "project"
    project.mkdir()
    installed(alone, "claude", "--project", str(project))
    assert "hooks" in settings(alone, "project/.claude/settings.local.json")
    assert f"claude (native_hook, {project})" in alone.call("hooks", "status").out
    alone.call("hooks", "remove", "--yes")
    assert list(files(alone.directory)) == ["project"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "name a harness: codex, claude"),
        (("cloude",), "there is no `cloude`; did you mean claude?"),
        (("hermes", "--scope", "project"), "hermes reads no settings in projects"),
        (("codex", "--mode", "launcher_wrapper", "--scope", "project"), "is the user's, not a project's"),
        (("codex", "--status-line"), "only claude has one"),
        (("codex", "--events", "Stopp"), "did you mean Stop?"),
        (("codex", "--project", "/no/such/place"), "/no/such/place is no directory"),
    ],
)
def test_what_cannot_be_wished_is_said(alone: Shell, arguments: tuple[str, ...], text: str) -> None:
    ran = alone.call("hooks", "install", *arguments)
    assert (ran.code, text in ran.err) == (2, True), ran.err


def test_somebody_elses_status_line_stays(alone: Shell) -> None:
    (alone.directory / ".claude").mkdir()
    (alone.directory / ".claude" / "settings.json").write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    ran = alone.call("hooks", "install", "claude", "--status-line", "--yes")
    assert (ran.code, "statusLine" in ran.err) == (1, True)


def test_the_data_directory_can_be_chosen(alone: Shell) -> None:
    installed(alone, "gemini", LIFEBUS_DATA_DIR=str(alone.directory / "elsewhere"))
    assert (alone.directory / "elsewhere" / "lifebus-hook").exists()
    assert f"{alone.directory}/elsewhere/lifebus-hook" in (alone.directory / ".gemini/settings.json").read_text()
