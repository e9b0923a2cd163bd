"""What lifebus installs for OpenCode: a plugin of one file, a launcher wrapper, or a skill.

OpenCode takes every file in its `plugin` folder as a plugin, so that all of ours is in one.
"""

from typing import Final

from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, OwnedFile
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.templates import fill, for_javascript, template

_MEASURED: Final = (1, 18, 33)
_EVENTS: Final = tuple(
    HookEvent(name=name, since=_MEASURED)
    for name in (
        "session.created",
        "chat.message",
        "message.updated",
        "experimental.session.compacting",
        "session.compacted",
        "session.idle",
        "session.error",
        "session.deleted",
        "dispose",
        "permission.asked",
        "permission.replied",
        "question.asked",
        "question.replied",
        "question.rejected",
    )
)


def _directory(request: InstallRequest) -> str:
    if request.project is not None:
        return f"{request.project}/.opencode"
    own = request.surroundings.first("OPENCODE_CONFIG_DIR")
    if own:
        return own[1].rstrip("/")
    xdg = request.surroundings.environ.get("XDG_CONFIG_HOME", "")
    base = xdg.rstrip("/") if xdg.startswith("/") else f"{request.surroundings.home}/.config"
    return f"{base}/opencode"


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    text = fill(
        template("texts", "hook_client.js") + template("opencode", "plugin.js"),
        adapter=for_javascript("opencode"),
        launcher=for_javascript(request.launcher),
        hooks=for_javascript([event.name for event in _EVENTS if request.wants(event.name)]),
    )
    return (OwnedFile(path=f"{_directory(request)}/plugin/lifebus.js", contents=text),)


ASSETS: Final = HarnessAssets(
    adapter_id="opencode",
    name="OpenCode",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{_directory(request)}/skills",
)
"""The assets of OpenCode."""
