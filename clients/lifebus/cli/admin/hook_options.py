"""The options of `lifebus hooks`: what to install, which installations are meant, and whose directories these are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.admin.host_place import harness_names
from lifebus.cli.arguments import parse_adapter, parse_choice
from lifebus.cli.choices import Words, split_values
from lifebus.cli.exit_codes import UsageError

if TYPE_CHECKING:
    from lifebus_admin.harnesses.target import Target

_MODES: Final = ["native_hook", "launcher_wrapper", "manual_skill"]
_SCOPES: Final = ["user", "project"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """What to install, and where."""

    mode: str = "native_hook"
    "native_hook (default), launcher_wrapper (a script to start the harness with) or manual_skill (instructions)."
    scope: str = "user"
    "Whose settings: user (the default) or project."
    project: Path | None = None
    "The project's directory; it makes the scope `project`. By default the working directory."
    events: Words = ()
    "Only these of the harness's hooks."
    skip_unknown: bool = False
    "Leave out the hooks that the installed version of the harness does not know."
    status_line: bool = False
    "Claude Code: set the status line too, which shows how full the context is."

    def targets(self, harnesses: Sequence[str]) -> "list[Target]":
        """Return the targets.

        Raises:
            UsageError: there is no such harness, mode, scope or hook, or they do not go together.
        """
        # `dict.fromkeys` drops repetitions and keeps the order.
        names = [parse_choice("HARNESS", name, harness_names()) for name in map(parse_adapter, harnesses)]
        return [self._target(name) for name in dict.fromkeys(names)]

    def _target(self, name: str) -> "Target":
        from lifebus_adapters import ADAPTERS  # noqa: PLC0415
        from lifebus_admin.harnesses.target import Target  # noqa: PLC0415
        from lifebus_contract import IntegrationMode  # noqa: PLC0415

        harness, mode = ADAPTERS[name], IntegrationMode(parse_choice("--mode", self.mode, _MODES))
        scope = parse_choice("--scope", "project" if self.project is not None else self.scope, _SCOPES)
        # Settings that a harness never reads would look installed and do nothing.
        if scope not in harness.assets.scopes:
            raise UsageError(f"--scope: {name} reads no settings in projects")
        if scope == "project" and mode is IntegrationMode.LAUNCHER_WRAPPER:
            raise UsageError("--scope: a launcher wrapper is the user's, not a project's")
        if self.status_line and (not harness.hooks.displays or mode is not IntegrationMode.NATIVE_HOOK):
            having = " and ".join(other for other, one in ADAPTERS.items() if one.hooks.displays)
            raise UsageError(f"--status-line: only {having} has one, with native hooks")
        known = [event.name for event in harness.assets.events]
        return Target(
            adapter_id=name,
            mode=mode,
            scope="project" if scope == "project" else "user",
            project=project_of(self.project or Path()) if scope == "project" else None,
            events=tuple(parse_choice("--events", event, known) for event in split_values(self.events)) or None,
            status_line=self.status_line,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TargetFilter:
    """Which of the installations are meant; by default all."""

    mode: str | None = None
    "Only native_hook, launcher_wrapper or manual_skill."
    scope: str | None = None
    "Only what is in your own settings (user), or in projects' (project)."
    project: Path | None = None
    "Only what is in this project."

    def matches(self, target: "Target") -> bool:
        """Whether an installation is one of them.

        Raises:
            UsageError: the project is no directory.
        """
        asked = (self.mode, self.scope, project_of(self.project))
        found = (target.mode.value, target.scope, target.project)
        return all(one in {None, other} for one, other in zip(asked, found, strict=True))

    @property
    def install_options(self) -> InstallOptions:
        """The options that would have made such an installation."""
        return InstallOptions(mode=self.mode or "native_hook", scope=self.scope or "user", project=self.project)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Whether to ask, and what to show."""

    dry_run: bool = False
    "Show what would be done, and do nothing."
    yes: Annotated[bool, Parameter(name=("--yes", "-y"))] = False
    "Do it without asking."
    full: bool = False
    "Also show lifebus's own files in full."
    json: bool = False
    "Answer in JSON."


DEFAULT_INSTALL: Final = InstallOptions()
"""Native hooks in the user's own settings."""

ANY_TARGET: Final = TargetFilter()
"""Whatever is installed."""

DEFAULT_RUN: Final = RunOptions()
"""Show the changes and ask."""


def project_of(directory: Path | None) -> str | None:
    """Return the absolute path of a project.

    Raises:
        UsageError: it is no directory.
    """
    if directory is None:
        return None
    if not directory.is_dir():
        raise UsageError(f"--project: {directory} is no directory")
    return str(directory.resolve())
