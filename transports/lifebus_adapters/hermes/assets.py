"""What lifebus installs for Hermes: hooks in its config.yaml, a launcher wrapper, or a skill.

Hermes splits a command into words itself, without a shell; ours survives that.  It asks the user once about each new
hook.  Projects have no settings of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from lifebus_adapters.shared.assets import (
    Asset,
    HookEvent,
    InstallRequest,
    SettingsEntry,
    SettingsFile,
    hook_command,
    is_hook_command,
)
from lifebus_adapters.shared.handlers import bad_timeout, missing_text
from lifebus_adapters.shared.harness_assets import HarnessAssets

_MEASURED: Final = (0, 19, 0)
_EVENTS: Final = tuple(
    HookEvent(name=name, since=_MEASURED)
    for name in (
        "on_session_start",
        "pre_llm_call",
        "post_api_request",
        "api_request_error",
        "post_llm_call",
        "on_session_end",
        "on_session_finalize",
    )
)
_MAX_TIMEOUT_S: Final = 300


def _home(request: InstallRequest) -> str:
    found = request.surroundings.first("HERMES_HOME")
    return found[1].rstrip("/") if found else f"{request.surroundings.home}/.hermes"


def _is_ours(value: object) -> bool:
    return isinstance(value, dict) and is_hook_command(cast("dict[str, Any]", value).get("command"))


def _check(document: object) -> tuple[str, ...]:
    # An empty YAML file.
    if document is None:
        return ()
    if not isinstance(document, dict):
        return ("the file does not hold a mapping",)
    hooks: Any = cast("dict[str, Any]", document).get("hooks")
    if hooks is None:
        return ()
    if not isinstance(hooks, dict):
        return ("hooks: must be a mapping",)
    events = cast("dict[str, Any]", hooks)
    return tuple(fault for name in events for fault in _event_faults(name, events[name]))


def _event_faults(name: str, handlers: Any) -> Iterator[str]:
    if not isinstance(handlers, list):
        yield f"hooks.{name}: must be a list"
        return
    for index, handler in enumerate(cast("Sequence[Any]", handlers)):
        fault = "must be a mapping"
        if isinstance(handler, dict):
            members = cast("dict[str, Any]", handler)
            fault = missing_text(members, "command") or bad_timeout(members, most=_MAX_TIMEOUT_S) or ""
        if fault:
            yield f"hooks.{name}[{index}]: {fault}"


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    entries = tuple(
        SettingsEntry(
            kind="element",
            where=("hooks", event.name),
            value={"command": hook_command(request.launcher, "hermes", event.name), "timeout": event.timeout_s},
        )
        for event in _EVENTS
        if request.wants(event.name)
    )
    path = f"{_home(request)}/config.yaml"
    return (SettingsFile(path=path, dialect="yaml", entries=entries, owns=_is_ours, check=_check),)


def _advice(request: InstallRequest) -> tuple[str, ...]:  # noqa: ARG001  the same everywhere
    return (
        "Hermes asks about each new hook at its next start in a terminal; `hermes --accept-hooks` says yes to all.",
    )


ASSETS: Final = HarnessAssets(
    adapter_id="hermes",
    name="Hermes",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_home(request)}/skills",
    hook_advice=_advice,
    scopes=("user",),
)
"""The assets of Hermes."""
