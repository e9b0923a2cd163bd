"""What lifebus would install for each harness, against reviewed lists; and what it would refuse to write."""

import json
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import Asset, InstallRequest, OwnedFile, SettingsFile, hook_command, is_hook_command
from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode

FOLDER = Path(__file__).parent / "assets"
DATA = "/home/dev/.local/share/lifebus"
NATIVE = IntegrationMode.NATIVE_HOOK
OURS = hook_command(f"{DATA}/lifebus-hook", "claude", "Stop")


def request(mode: IntegrationMode = NATIVE, project: str | None = None, **changes: Any) -> InstallRequest:
    settings: dict[str, Any] = {
        "surroundings": Surroundings(home="/home/dev", environ=changes.pop("environ", {})),
        "launcher": launcher_path(DATA),
        "python": "/usr/bin/python3.11",
        "scope": "user" if project is None else "project",
    }
    return InstallRequest(mode=mode, project=project, **settings, **changes)


def settings_of(adapter_id: str, **changes: Any) -> SettingsFile:
    (found,) = [item for item in ADAPTERS[adapter_id].assets.make(request(**changes)) if isinstance(item, SettingsFile)]
    return found


def described(asset: Asset) -> dict[str, Any]:
    if isinstance(asset, OwnedFile):
        return {"path": asset.path, "mode": f"{asset.mode:o}", "lines": asset.contents.count("\n")}
    entries = [{"kind": one.kind, "where": "/".join(one.where), "value": one.value} for one in asset.entries]
    return {"path": asset.path, "dialect": asset.dialect, "entries": entries}


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_the_assets_are_the_reviewed_ones(adapter_id: str) -> None:
    assets = ADAPTERS[adapter_id].assets
    made = {
        f"{mode.value}, {scope}": [
            described(item) for item in assets.make(request(mode, "/home/dev/project" if scope == "project" else None))
        ]
        for mode in assets.modes
        for scope in assets.scopes
    }
    assert made == json.loads((FOLDER / f"{adapter_id}.json").read_text())


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_every_registered_hook_is_known_to_its_adapter(adapter_id: str) -> None:
    assert {event.name for event in ADAPTERS[adapter_id].assets.events} <= ADAPTERS[adapter_id].hooks.known


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_hooks_can_be_left_out(adapter_id: str) -> None:
    first = ADAPTERS[adapter_id].assets.events[0].name
    made = ADAPTERS[adapter_id].assets.make(request(events=(first,)))
    text = "".join(item.contents if isinstance(item, OwnedFile) else str(item.entries) for item in made)
    assert first in text
    if adapter_id not in {"opencode", "openclaw"}:
        assert ADAPTERS[adapter_id].assets.events[1].name not in text


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_an_entry_is_known_as_ours_again_and_passes_the_check(adapter_id: str) -> None:
    for item in ADAPTERS[adapter_id].assets.make(request(status_line=True)):
        if isinstance(item, SettingsFile):
            assert all(item.owns(entry.value) for entry in item.entries)
            assert item.check({}) == ()


def test_files_follow_the_variables_that_the_harnesses_read() -> None:
    assert settings_of("claude", environ={"CLAUDE_CONFIG_DIR": "/c/"}).path == "/c/settings.json"
    assert settings_of("codex", environ={"CODEX_HOME": "/x"}).path == "/x/hooks.json"
    assert settings_of("gemini", environ={"GEMINI_CLI_HOME": "/g"}).path == "/g/.gemini/settings.json"
    assert settings_of("hermes", environ={"HERMES_HOME": "/h"}).path == "/h/config.yaml"
    assert settings_of("openclaw", environ={"OPENCLAW_CONFIG_PATH": "/o/c.json"}).path == "/o/c.json"
    assert settings_of("openclaw", environ={"OPENCLAW_STATE_DIR": "/s"}).path == "/s/openclaw.json"
    (plugin,) = ADAPTERS["opencode"].assets.make(request(environ={"XDG_CONFIG_HOME": "/xdg"}))
    assert plugin.path == "/xdg/opencode/plugin/lifebus.js"
    (plugin,) = ADAPTERS["opencode"].assets.make(
        request(environ={"XDG_CONFIG_HOME": "/xdg", "OPENCODE_CONFIG_DIR": "/oc"})
    )
    assert plugin.path == "/oc/plugin/lifebus.js"


def test_the_status_line_is_a_member_that_only_a_wish_adds() -> None:
    assert not [entry for entry in settings_of("claude").entries if entry.where == ("statusLine",)]
    (line,) = [entry for entry in settings_of("claude", status_line=True).entries if entry.where == ("statusLine",)]
    assert line.kind == "member"
    assert line.value["command"].endswith(" claude statusLine")


def test_a_group_with_somebody_elses_hook_in_it_is_not_ours() -> None:
    owns = settings_of("claude").owns
    theirs = {"type": "command", "command": "echo hi"}
    ours = {"type": "command", "command": OURS}
    assert owns({"hooks": [ours]})
    assert owns(ours)
    assert not owns(theirs)
    assert not owns({"hooks": [ours, theirs]})
    assert not owns({"hooks": []})
    assert not owns({"hooks": "x"})
    assert not owns("lifebus")
    assert not is_hook_command(f"{DATA}/lifebus-hook claude Stop; rm -r /")


@pytest.mark.parametrize(
    ("adapter_id", "document", "fault"),
    [
        ("claude", [], "the file does not hold an object"),
        ("claude", {"hooks": []}, "hooks: must be an object"),
        ("claude", {"hooks": {"Stop": {}}}, "hooks.Stop: must be a list"),
        ("claude", {"hooks": {"Stop": ["x"]}}, "hooks.Stop[0]: must be an object"),
        ("claude", {"hooks": {"Stop": [{}]}}, "hooks.Stop[0].hooks: must be a list"),
        ("claude", {"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}}, "hooks.Stop[0].matcher: must be text"),
        ("claude", {"hooks": {"Stop": [{"hooks": [1]}]}}, "hooks.Stop[0].hooks[0]: must be an object"),
        (
            "claude",
            {"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}},
            "hooks.Stop[0].hooks[0]: command: must be text",
        ),
        (
            "claude",
            {"hooks": {"Stop": [{"hooks": [{"type": "x"}]}]}},
            "hooks.Stop[0].hooks[0]: type: must be one of command, http, mcp_tool, prompt, agent",
        ),
        (
            "codex",
            {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": "5"}]}]}},
            "hooks.Stop[0].hooks[0]: timeout: must be a positive number",
        ),
        ("claude", {"disableAllHooks": True}, "disableAllHooks: Claude Code runs no hooks while this is set"),
        (
            "gemini",
            {"hooksConfig": {"enabled": False}},
            "hooksConfig.enabled: Gemini CLI runs no hooks while this is false",
        ),
        (
            "gemini",
            {"hooksConfig": {"disabled": ["other", "lifebus"]}},
            "hooksConfig.disabled: Gemini CLI runs no hook of the name lifebus while that is in it",
        ),
        ("hermes", {"hooks": {"post_llm_call": [{"timeout": 5}]}}, "hooks.post_llm_call[0]: command: must be text"),
        (
            "hermes",
            {"hooks": {"post_llm_call": [{"command": "x", "timeout": 301}]}},
            "hooks.post_llm_call[0]: timeout: at most 300",
        ),
        (
            "openclaw",
            {"plugins": {"allow": ["other"]}},
            "plugins.allow: does not name lifebus, so that OpenClaw would not load it",
        ),
        ("openclaw", {"plugins": {"load": {"paths": [1]}}}, "plugins.load.paths: must be a list of paths"),
    ],
)
def test_a_result_that_the_harness_would_drop_is_refused(adapter_id: str, document: Any, fault: str) -> None:
    assert settings_of(adapter_id).check(document) == (fault,)


def test_settings_of_others_are_left_in_peace() -> None:
    theirs = {"type": "http", "url": "http://127.0.0.1:1/"}
    assert settings_of("claude").check({"hooks": {"NewEvent": [{"matcher": "x", "hooks": [theirs]}]}}) == ()
    assert settings_of("gemini").check({"hooks": {"enabled": True, "disabled": ["x"]}}) == ()
    assert settings_of("hermes").check(None) == ()


def test_the_shared_files_are_a_launcher_and_two_copies() -> None:
    files = launcher_files(DATA, python="/opt/a b/python3", hook="HOOK", wrapper="WRAPPER")
    assert {item.path.removeprefix(DATA): item.mode for item in files} == {
        "/hook.py": 0o600,
        "/wrapper.py": 0o600,
        "/lifebus-hook": 0o700,
    }
    assert "python='/opt/a b/python3'" in files[-1].contents
    assert "@" not in files[-1].contents.replace('"$@"', "")
