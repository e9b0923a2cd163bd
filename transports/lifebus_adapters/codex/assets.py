"""What lifebus installs for Codex CLI: hooks in its hooks.json, a launcher wrapper, or a skill.

Codex runs a hook only once the user has trusted it, and says nothing about those that it skips; see trust.py.

`since`: SessionStart and Stop came with 0.114, UserPromptSubmit with 0.116, SessionEnd with 0.145; the others are
known to be in 0.169, which everything here was measured with.
"""

from collections.abc import Mapping
from typing import Any, Final

from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, SettingsFile
from lifebus_adapters.shared.handlers import bad_timeout, missing_text, wrong_type
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.hook_groups import check_groups, group_entries, is_ours

_MEASURED: Final = (0, 169, 0)
_EVENTS: Final = (
    HookEvent(name="SessionStart", since=(0, 114, 0)),
    HookEvent(name="UserPromptSubmit", since=(0, 116, 0)),
    HookEvent(name="SubagentStart", since=_MEASURED),
    HookEvent(name="SubagentStop", since=_MEASURED),
    HookEvent(name="PreCompact", since=_MEASURED),
    HookEvent(name="PostCompact", since=_MEASURED),
    HookEvent(name="Stop", since=(0, 114, 0)),
    HookEvent(name="PermissionRequest", since=_MEASURED),
    HookEvent(name="Interrupt", since=_MEASURED, timeout_s=3),
    HookEvent(name="SessionEnd", since=(0, 145, 0), timeout_s=3),
)
"""Codex gives Interrupt and SessionEnd hooks 3 s at most."""

_TYPES: Final = {"command": "command", "mcp_tool": "tool", "prompt": "type", "agent": "type"}
"""The types of handlers, and what each must have, as far as it was seen."""


def home_of(request: InstallRequest) -> str:
    """Return Codex's own directory of the user: the one with config.toml."""
    found = request.surroundings.first("CODEX_HOME")
    return found[1].rstrip("/") if found else f"{request.surroundings.home}/.codex"


def _directory(request: InstallRequest) -> str:
    return home_of(request) if request.project is None else f"{request.project}/.codex"


def _handler(handler: Mapping[str, Any]) -> str | None:
    fault = wrong_type(handler, _TYPES) or bad_timeout(handler)
    return fault or (missing_text(handler, "statusMessage") if handler.get("statusMessage") is not None else None)


def _check(document: object) -> tuple[str, ...]:
    return check_groups(document, _handler)


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    return (
        SettingsFile(
            path=f"{_directory(request)}/hooks.json",
            dialect="json",
            entries=group_entries(request, "codex", _EVENTS),
            owns=is_ours,
            check=_check,
        ),
    )


_TRUST: Final = (
    "Codex runs no hook that you have not trusted, and does not say so: start codex and accept them when it asks, "
    "or review them with /hooks; `lifebus hooks status codex` shows which are trusted."
)


def _advice(request: InstallRequest) -> tuple[str, ...]:
    if request.project is None:
        return (_TRUST,)
    return (_TRUST, "Codex reads a project's hooks only once the project is trusted.")


ASSETS: Final = HarnessAssets(
    adapter_id="codex",
    name="Codex",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_directory(request)}/skills",
    hook_advice=_advice,
)
"""The assets of Codex."""
