"""What the assets of all harnesses have in common: the launcher wrapper, the skill of the manual mode, their advice."""

from collections.abc import Callable
from typing import Final

from lifebus_adapters.shared.assets import Asset, HookEvent, HostAssets, InstallRequest, OwnedFile, Scope
from lifebus_adapters.shared.launcher import wrapper_file, wrapper_path
from lifebus_adapters.shared.templates import fill, template
from lifebus_contract import IntegrationMode

_MODES: Final = (IntegrationMode.NATIVE_HOOK, IntegrationMode.LAUNCHER_WRAPPER, IntegrationMode.MANUAL_SKILL)

only_user_scope: Final[tuple[Scope, ...]] = ("user",)
"""The scopes of a harness without settings in projects."""


def with_common_modes(
    adapter_id: str,
    name: str,
    *,
    events: tuple[HookEvent, ...],
    hooks: Callable[[InstallRequest], tuple[Asset, ...]],
    skills: Callable[[InstallRequest], str],
    advice: Callable[[InstallRequest], tuple[str, ...]],
    scopes: tuple[Scope, ...] = ("user", "project"),
) -> HostAssets:
    """Return the assets of a harness whose command has its adapter's id.

    Args:
        adapter_id: The adapter's id.
        name: What people call the harness.
        events: The hooks that are registered.
        hooks: The files of the native hooks.
        skills: The harness's directory of skills.
        advice: What to do beside once the native hooks are there.
        scopes: Where the harness reads settings.
    """

    def make(wish: InstallRequest) -> tuple[Asset, ...]:
        if wish.mode is IntegrationMode.LAUNCHER_WRAPPER:
            return (wrapper_file(wish, adapter_id, adapter_id),)
        if wish.mode is IntegrationMode.MANUAL_SKILL:
            return (skill_file(skills(wish), adapter_id),)
        return hooks(wish)

    def advise(wish: InstallRequest) -> tuple[str, ...]:
        if wish.mode is IntegrationMode.LAUNCHER_WRAPPER:
            return (f"Start {name} with {wrapper_path(wish, adapter_id)} instead of {adapter_id}.",)
        if wish.mode is IntegrationMode.MANUAL_SKILL:
            return (f"In {name}, ask for the skill `lifebus`.",)
        return advice(wish)

    return HostAssets(
        adapter_id=adapter_id,
        program=adapter_id,
        version_arguments=("--version",),
        modes=_MODES,
        scopes=scopes,
        events=events,
        make=make,
        advice=advise,
    )


def no_advice(wish: InstallRequest) -> tuple[str, ...]:  # noqa: ARG001  some harnesses need nothing
    """Return nothing: the hooks work as they are."""
    return ()


def skill_file(directory: str, adapter_id: str) -> OwnedFile:
    """Return the skill, in a folder of its own below a directory of skills."""
    text = fill(template("texts", "skill.md"), adapter=adapter_id)
    return OwnedFile(path=f"{directory}/lifebus/SKILL.md", contents=text)
