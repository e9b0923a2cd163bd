"""The imagined harness `tiny` as a built-in one: the `__init__.py` of its folder, beside its manifest and examples."""

from typing import Any, Final

from lifebus_adapters.harness import Harness
from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, SettingsFile
from lifebus_adapters.shared.handlers import wrong_type
from lifebus_adapters.shared.harness_assets import HarnessAssets
from lifebus_adapters.shared.hook_groups import check_groups, group_entries, is_ours
from lifebus_adapters.shared.rules import FRAME_CLOSE, FRAME_OPEN, SESSION_OPEN, HookRule, HookTable, IdentityPaths
from lifebus_contract import ManifestPlacementClass

_EVENTS: Final = tuple(HookEvent(name=name, since=(1, 0, 0)) for name in ("start", "prompt", "done"))


def _answer(hook: str, context: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    return {"context": context}


def _check(document: object) -> tuple[str, ...]:
    return check_groups(document, lambda handler: wrong_type(handler, {"command": "command"}))


def _hooks(request: InstallRequest) -> tuple[Asset, ...]:
    path = f"{request.surroundings.home}/.tiny/settings.json"
    entries = group_entries(request, "tiny", _EVENTS)
    return (SettingsFile(path=path, dialect="json", entries=entries, owns=is_ours, check=_check),)


ASSETS: Final = HarnessAssets(
    adapter_id="tiny",
    name="Tiny",
    events=_EVENTS,
    hooks=_hooks,
    skills=lambda request: f"{request.surroundings.home}/.tiny/skills",
    scopes=("user",),
)

HARNESS: Final = Harness(
    package=__name__,
    hooks=HookTable(
        name=("hook",),
        identity=IdentityPaths(session=("session",), task=("turn",)),
        rules={
            "start": HookRule(events=SESSION_OPEN),
            "prompt": HookRule(events=FRAME_OPEN, once=True, takes=ManifestPlacementClass.PRE_FRAME_TRAILING),
            "done": HookRule(events=FRAME_CLOSE),
        },
        silent=frozenset({"tool"}),
        answer=_answer,
    ),
    assets_in=__name__,
)
