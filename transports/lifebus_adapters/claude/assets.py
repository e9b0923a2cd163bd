"""What lifebus installs for Claude Code: hooks in its settings, a launcher wrapper, or a skill.

In a project the hooks go to ``.claude/settings.local.json``, which is personal and not committed: the command holds the
path of the user's own launcher.  One invalid hook makes Claude Code drop the whole file, so the result is checked.

`since` names the versions whose release notes brought the hooks.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from lifebus_adapters.shared.assets import (
    Asset,
    HookEvent,
    InstallRequest,
    SettingsEntry,
    SettingsFile,
    hook_command,
)
from lifebus_adapters.shared.handlers import bad_timeout, wrong_type
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.hook_groups import check_groups, group_entries, is_ours

# StopFailure and SessionEnd too: a turn that fails fires no Stop.
_EVENTS: Final = (
    HookEvent(name="SessionStart", since=(1, 0, 62)),
    HookEvent(name="UserPromptSubmit", since=(1, 0, 54)),
    HookEvent(name="SubagentStart", since=(2, 0, 43)),
    HookEvent(name="SubagentStop", since=(1, 0, 41)),
    HookEvent(name="PreCompact", since=(1, 0, 48)),
    HookEvent(name="PostCompact", since=(2, 1, 76)),
    HookEvent(name="Stop", since=(1, 0, 38)),
    HookEvent(name="StopFailure", since=(2, 1, 78)),
    HookEvent(name="SessionEnd", since=(1, 0, 85)),
    HookEvent(name="PermissionRequest", since=(2, 0, 45)),
    HookEvent(name="Notification", since=(2, 0, 37)),
    HookEvent(name="Elicitation", since=(2, 1, 76)),
    HookEvent(name="ElicitationResult", since=(2, 1, 76)),
)
"""SessionEnd hooks get 1.5 s unless they set a timeout; ours do."""

_TYPES: Final = {"command": "command", "http": "url", "mcp_tool": "tool", "prompt": "prompt", "agent": "prompt"}
"""The types of handlers, and what each must have."""


def _home(request: InstallRequest) -> str:
    """Return the directory of the user's settings."""
    found = request.surroundings.first("CLAUDE_CONFIG_DIR")
    return found[1].rstrip("/") if found else f"{request.surroundings.home}/.claude"


def _directory(request: InstallRequest) -> str:
    return _home(request) if request.project is None else f"{request.project}/.claude"


def _handler(handler: Mapping[str, Any]) -> str | None:
    return wrong_type(handler, _TYPES) or bad_timeout(handler)


def _check(document: object) -> tuple[str, ...]:
    faults = check_groups(document, _handler)
    if isinstance(document, dict) and cast("dict[str, Any]", document).get("disableAllHooks") is True:
        return ("disableAllHooks: Claude Code runs no hooks while this is set", *faults)
    return faults


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    # The local settings are not committed: they hold the path of one user's launcher.
    name = "settings.json" if request.project is None else "settings.local.json"
    line = {"type": "command", "command": hook_command(request.launcher, "claude", "statusLine")}
    status_line = (SettingsEntry(kind="member", where=("statusLine",), value=line),) if request.status_line else ()
    settings = SettingsFile(
        path=f"{_directory(request)}/{name}",
        dialect="json",
        entries=(*group_entries(request, "claude", _EVENTS), *status_line),
        owns=is_ours,
        check=_check,
    )
    return (settings,)


def _advice(request: InstallRequest) -> tuple[str, ...]:  # noqa: ARG001  the same everywhere
    return ("Sessions that are running take the hooks up when they are started again.",)


ASSETS: Final = HarnessAssets(
    adapter_id="claude",
    name="Claude Code",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_directory(request)}/skills",
    hook_advice=_advice,
)
"""The assets of Claude Code."""
