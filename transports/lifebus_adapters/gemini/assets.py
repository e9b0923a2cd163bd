"""What lifebus installs for Gemini CLI: hooks in its settings, a launcher wrapper, or a skill.

Its timeouts are in milliseconds.  Hooks in this form are known since 0.26.  In a project, Gemini CLI warns before it
runs a hook that is new to it, and reads the settings of trusted folders only.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, SettingsFile
from lifebus_adapters.shared.handlers import bad_timeout, wrong_type
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.hook_groups import check_groups, group_entries, is_ours

_NAME: Final = "lifebus"
_SINCE: Final = (0, 26, 0)
_EVENTS: Final = tuple(
    HookEvent(name=name, since=_SINCE)
    for name in ("SessionStart", "BeforeAgent", "AfterAgent", "Notification", "SessionEnd")
)
_OLD_SETTINGS: Final = frozenset({"enabled", "disabled", "notifications"})
"""Keys beside the events that versions before `hooksConfig` had, and that newer ones pass over."""


def _directory(request: InstallRequest) -> str:
    if request.project is not None:
        return f"{request.project}/.gemini"
    found = request.surroundings.first("GEMINI_CLI_HOME")
    return f"{found[1].rstrip('/') if found else request.surroundings.home}/.gemini"


def _handler(handler: Mapping[str, Any]) -> str | None:
    return wrong_type(handler, {"command": "command"}) or bad_timeout(handler)


def _check(document: object) -> tuple[str, ...]:
    faults = check_groups(document, _handler, settings=_OLD_SETTINGS)
    switches: Any = cast("dict[str, Any]", document).get("hooksConfig") if isinstance(document, dict) else None
    return (*_switched_off(cast("dict[str, Any]", switches)), *faults) if isinstance(switches, dict) else faults


def _switched_off(switches: Mapping[str, Any]) -> Iterator[str]:
    """Yield what keeps our hooks from running."""
    if switches.get("enabled") is False:
        yield "hooksConfig.enabled: Gemini CLI runs no hooks while this is false"
    disabled: Any = switches.get("disabled")
    if isinstance(disabled, list) and _NAME in cast("Sequence[Any]", disabled):
        yield f"hooksConfig.disabled: Gemini CLI runs no hook of the name {_NAME} while that is in it"


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    return (
        SettingsFile(
            path=f"{_directory(request)}/settings.json",
            dialect="jsonc",
            # Gemini CLI turns hooks off by name, so that ours has one; its timeouts are in milliseconds.
            entries=group_entries(request, "gemini", _EVENTS, more={"name": _NAME}, per_second=1000),
            owns=is_ours,
            check=_check,
        ),
    )


def _advice(request: InstallRequest) -> tuple[str, ...]:
    if request.project is None:
        return ()
    return ("Gemini CLI reads a project's hooks only in a trusted folder, and warns about them once.",)


ASSETS: Final = HarnessAssets(
    adapter_id="gemini",
    name="Gemini CLI",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_directory(request)}/skills",
    hook_advice=_advice,
)
"""The assets of Gemini CLI."""
