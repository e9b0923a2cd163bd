"""What lifebus installs for OpenClaw: a plugin folder and two entries in openclaw.json, a launcher wrapper, or a skill.

A plugin sees prompts only where `allowConversationAccess` is set; without it the frame hooks do not come.  Projects
have no settings of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, OwnedFile, SettingsEntry, SettingsFile
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.launcher import data_directory
from lifebus_adapters.shared.templates import fill, for_javascript, template

_MEASURED: Final = (2026, 9, 6)
_EVENTS: Final = tuple(
    HookEvent(name=name, since=_MEASURED)
    for name in (
        "session_start",
        "before_prompt_build",
        "llm_output",
        "before_compaction",
        "after_compaction",
        "before_agent_finalize",
        "agent_end",
        "session_end",
    )
)
_FOLDER: Final = "lifebus-openclaw"
"""The plugin's folder in the data directory; by this name its path is ours."""


def _state(request: InstallRequest) -> str:
    """Return the directory of OpenClaw's state."""
    own = request.surroundings.first("OPENCLAW_STATE_DIR")
    if own:
        return own[1].rstrip("/")
    home = request.surroundings.first("OPENCLAW_HOME")
    return f"{home[1].rstrip('/') if home else request.surroundings.home}/.openclaw"


def _settings_path(request: InstallRequest) -> str:
    own = request.surroundings.first("OPENCLAW_CONFIG_PATH")
    return own[1] if own else f"{_state(request)}/openclaw.json"


def _is_ours(value: object) -> bool:
    """Whether a value is our plugin's path, or its entry, which has our name."""
    if isinstance(value, str):
        return value.rstrip("/").endswith(f"/{_FOLDER}")
    # An entry with other keys was changed by hand: it is somebody else's now.
    return isinstance(value, dict) and set(cast("dict[str, Any]", value)) <= {"enabled", "hooks"}


def _check(document: object) -> tuple[str, ...]:
    if not isinstance(document, dict):
        return ("the file does not hold an object",)
    plugins: Any = cast("dict[str, Any]", document).get("plugins")
    if plugins is None:
        return ()
    if not isinstance(plugins, dict):
        return ("plugins: must be an object",)
    return tuple(_plugin_faults(cast("dict[str, Any]", plugins)))


def _plugin_faults(plugins: dict[str, Any]) -> Iterator[str]:
    if plugins.get("enabled") is False:
        yield "plugins.enabled: OpenClaw loads no plugins while this is false"
    allowed, denied = plugins.get("allow"), plugins.get("deny")
    # An empty list allows every plugin.
    if isinstance(allowed, list) and allowed and "lifebus" not in cast("Sequence[Any]", allowed):
        yield "plugins.allow: does not name lifebus, so that OpenClaw would not load it"
    if isinstance(denied, list) and "lifebus" in cast("Sequence[Any]", denied):
        yield "plugins.deny: names lifebus"
    load: Any = plugins.get("load")
    paths: Any = cast("dict[str, Any]", load).get("paths") if isinstance(load, dict) else None
    if paths is not None and not (
        isinstance(paths, list) and all(isinstance(path, str) for path in cast("Sequence[Any]", paths))
    ):
        yield "plugins.load.paths: must be a list of paths"


def _plugin_files(request: InstallRequest, folder: str) -> tuple[OwnedFile, ...]:
    text = fill(
        template("texts", "hook_client.js") + template("openclaw", "plugin.js"),
        adapter=for_javascript("openclaw"),
        launcher=for_javascript(request.launcher),
        hooks=for_javascript([event.name for event in _EVENTS if request.wants(event.name)]),
    )
    return (
        OwnedFile(path=f"{folder}/index.js", contents=text),
        OwnedFile(path=f"{folder}/openclaw.plugin.json", contents=template("openclaw", "openclaw.plugin.json")),
        OwnedFile(path=f"{folder}/package.json", contents=template("openclaw", "package.json")),
    )


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    # In our own data directory, because OpenClaw loads plugins from any path that its settings name.
    folder = f"{data_directory(request)}/{_FOLDER}"
    entries = (
        SettingsEntry(kind="element", where=("plugins", "load", "paths"), value=folder),
        SettingsEntry(
            kind="member",
            where=("plugins", "entries", "lifebus"),
            value={"enabled": True, "hooks": {"allowConversationAccess": True}},
        ),
    )
    settings = SettingsFile(path=_settings_path(request), dialect="json5", entries=entries, owns=_is_ours, check=_check)
    return (*_plugin_files(request, folder), settings)


def _advice(request: InstallRequest) -> tuple[str, ...]:  # noqa: ARG001  the same everywhere
    return ("A running OpenClaw Gateway loads the plugin when it is started again: openclaw gateway restart.",)


ASSETS: Final = HarnessAssets(
    adapter_id="openclaw",
    name="OpenClaw",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_state(request)}/skills",
    hook_advice=_advice,
    scopes=("user",),
    lists_hooks=False,
)
"""The assets of OpenClaw."""
