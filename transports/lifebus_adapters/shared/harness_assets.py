"""What lifebus installs for one harness: native hooks, a launcher wrapper, or a skill for the manual mode."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, HookEvent, InstallRequest, OwnedFile, Scope
from lifebus_adapters.shared.launcher import wrapper_file, wrapper_path
from lifebus_adapters.shared.templates import fill, template
from lifebus_contract import IntegrationMode

_MODES: Final = (IntegrationMode.NATIVE_HOOK, IntegrationMode.LAUNCHER_WRAPPER, IntegrationMode.MANUAL_SKILL)


def no_advice(request: InstallRequest) -> tuple[str, ...]:  # noqa: ARG001  some harnesses need nothing
    """Return nothing: the hooks work as they are."""
    return ()


class HarnessAssets(Struct, frozen=True, kw_only=True):
    """Everything to install for one harness, whose command has its adapter's id.

    `name` is what people call the harness.  `events` are the hooks that are registered, `hooks` returns their files,
    and `skills` the harness's directory of skills.  `hook_advice` is what the user has to do beside once the native
    hooks are there (trusting hooks, turning a plugin on), one sentence each.  `scopes` says where the harness reads
    settings, `modes` which integration modes have assets.  `version_arguments` make the command print its version.
    `lists_hooks` says that each hook stands in the harness's settings by its name, and not in a plugin of ours.
    """

    adapter_id: str
    name: str
    events: tuple[HookEvent, ...]
    hooks: Callable[[InstallRequest], tuple[Asset, ...]]
    skills: Callable[[InstallRequest], str]
    hook_advice: Callable[[InstallRequest], tuple[str, ...]] = no_advice
    scopes: tuple[Scope, ...] = ("user", "project")
    modes: tuple[IntegrationMode, ...] = _MODES
    version_arguments: tuple[str, ...] = ("--version",)
    lists_hooks: bool = True

    @property
    def program(self) -> str:
        """The harness's command."""
        return self.adapter_id

    def make(self, request: InstallRequest) -> tuple[Asset, ...]:
        """Return the files that a request means, without those that all installations share."""
        if request.mode is IntegrationMode.LAUNCHER_WRAPPER:
            return (wrapper_file(request, self.adapter_id, self.program),)
        if request.mode is IntegrationMode.MANUAL_SKILL:
            # A skill has no hooks: the user, or the model, calls lifebus.
            return (skill_file(self.skills(request), self.adapter_id),)
        return self.hooks(request)

    def advice(self, request: InstallRequest) -> tuple[str, ...]:
        """Return what the user has to do beside, one sentence each."""
        if request.mode is IntegrationMode.LAUNCHER_WRAPPER:
            return (f"Start {self.name} with {wrapper_path(request, self.adapter_id)} instead of {self.program}.",)
        if request.mode is IntegrationMode.MANUAL_SKILL:
            return (f"In {self.name}, ask for the skill `lifebus`.",)
        return self.hook_advice(request)


def skill_file(directory: str, adapter_id: str) -> OwnedFile:
    """Return the skill, in a folder of its own below a directory of skills."""
    text = fill(template("texts", "skill.md"), adapter=adapter_id)
    return OwnedFile(path=f"{directory}/lifebus/SKILL.md", contents=text)
