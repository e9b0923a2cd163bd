"""What can be installed where: a harness, an integration mode and a scope, and the files that this means."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import Asset, InstallRequest, Scope
from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_admin.installer.installer import plan_install, plan_removal
from lifebus_admin.installer.plan import InstallPlan
from lifebus_admin.installer.status import FileState, inspect
from lifebus_contract import IntegrationMode
from lifebus_supervisor.supervision.installed_hooks import recorded_users

_INSTALLED: Final = {"present", "drifted"}
SYSTEM_PYTHON: Final = "/usr/bin/python3"


class HostEnvironment(Struct, frozen=True, kw_only=True):
    """This user's directories, and the texts that are copied there.

    `python` is the interpreter that the launcher runs; `hook` and `wrapper` are the texts of lifebus/hook.py and
    lifebus/wrapper.py.
    """

    surroundings: Surroundings
    data_dir: Path
    state_dir: Path
    python: str
    hook: str
    wrapper: str


class Target(Struct, frozen=True, kw_only=True):
    """One installation: of what, how and where; `events` and `status_line` are what an install request has."""

    adapter_id: str
    mode: IntegrationMode = IntegrationMode.NATIVE_HOOK
    scope: Scope = "user"
    project: str | None = None
    events: tuple[str, ...] | None = None
    status_line: bool = False

    @property
    def label(self) -> str:
        """A few words for people."""
        where = self.project if self.project is not None else self.scope
        return f"{self.adapter_id} ({self.mode.value}, {where})"


def real_python() -> str:
    """Return an interpreter that is there when a virtual environment is gone: the system's own, if it is new enough.

    It outlives what was installed beside it, and starts sooner than one with shared libraries of its own.
    """
    if sys.platform == "linux" and _is_new_enough(SYSTEM_PYTHON):  # elsewhere it may be a stub that asks questions
        return os.path.realpath(SYSTEM_PYTHON)
    # The interpreter that a virtual environment was made from, which outlives it.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


def _is_new_enough(python: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([python, "-I", "-S", "-c", check], timeout=5, check=False).returncode == 0  # noqa: S603  our own words
    except (OSError, subprocess.TimeoutExpired):
        return False


def install_request(place: HostEnvironment, target: Target) -> InstallRequest:
    """Return the install request that a target is."""
    return InstallRequest(
        mode=target.mode,
        scope=target.scope,
        surroundings=place.surroundings,
        launcher=launcher_path(str(place.data_dir)),
        project=target.project,
        events=target.events,
        python=place.python,
        status_line=target.status_line,
    )


def shared_assets(place: HostEnvironment) -> tuple[Asset, ...]:
    """Return the files that all installations but the manual ones share."""
    return launcher_files(str(place.data_dir), python=place.python, hook=place.hook, wrapper=place.wrapper)


def own_assets(place: HostEnvironment, target: Target) -> tuple[Asset, ...]:
    """Return a target's files without the shared ones."""
    return ADAPTERS[target.adapter_id].assets.make(install_request(place, target))


def assets_of(place: HostEnvironment, target: Target) -> tuple[Asset, ...]:
    """Return all files of a target."""
    # A manual skill is text that a person reads; it needs no launcher.
    shared = () if target.mode is IntegrationMode.MANUAL_SKILL else shared_assets(place)
    return (*shared, *own_assets(place, target))


def plan_target(place: HostEnvironment, target: Target, *, installs: bool) -> InstallPlan:
    """Return what installing or removing a target would do; a removal takes the status line along.

    Raises:
        InstallRefused: a file cannot be read, or is not ours to change.
    """
    # A removal covers every event, also those that an older request had.
    wanted = target if installs else msgspec.structs.replace(target, events=None, status_line=True)
    request = install_request(place, wanted)
    plan = plan_install if installs else plan_removal
    advice = ADAPTERS[target.adapter_id].assets.advice(request) if installs else ()
    assets = assets_of(place, wanted)
    if not installs:
        assets = assets[::-1]  # the file for which a directory was made goes last, and takes the directory along
    return plan(assets, adapter_id=target.adapter_id, request=request, state_dir=place.state_dir, advice=advice)


def installed_targets(place: HostEnvironment, project: str | None = None) -> list[Target]:
    """Return what is installed: what is on record, and what stands in the user's or the project's settings."""
    seen = [target for target, state in _visible(place, project) if state in _INSTALLED]
    return _sorted([*recorded_targets(place), *seen])


def unreadable_targets(place: HostEnvironment, project: str | None = None) -> list[Target]:
    """Return what may be installed: there is no record of it, and its files cannot be read."""
    unreadable = [target for target, state in _visible(place, project) if state == "unreadable"]
    known = {_key(one) for one in recorded_targets(place)}
    return _sorted([one for one in unreadable if _key(one) not in known])


def _key(target: Target) -> tuple[str, str, str]:
    return target.adapter_id, target.mode.value, target.project or ""


def _sorted(targets: list[Target]) -> list[Target]:
    """Return each target once, in the order of its names."""
    return [one for _, one in sorted({_key(one): one for one in targets}.items())]


def recorded_targets(place: HostEnvironment) -> Iterator[Target]:
    """Yield what is on record as installed, some of it often."""
    yield from (target for user in recorded_users(place.state_dir) if (target := _target_of(user)) is not None)


def _target_of(user: str) -> Target | None:
    """Return the target that a record's user names."""
    adapter_id, _, rest = user.partition(":")
    mode, _, rest = rest.partition(":")
    scope, _, project = rest.partition(":")
    if adapter_id not in ADAPTERS or mode not in set(IntegrationMode) or scope not in {"user", "project"}:
        return None
    return Target(
        adapter_id=adapter_id, mode=IntegrationMode(mode), scope=cast("Scope", scope), project=project or None
    )


def _visible(place: HostEnvironment, project: str | None) -> Iterator[tuple[Target, FileState]]:
    """Yield every target that can be looked at without any record, and how its files are."""
    for adapter_id, harness in ADAPTERS.items():
        assets = harness.assets
        for mode in assets.modes:
            user = Target(adapter_id=adapter_id, mode=mode)
            there = Target(adapter_id=adapter_id, mode=mode, scope="project", project=project)
            in_project = (
                project is not None and "project" in assets.scopes and mode is not IntegrationMode.LAUNCHER_WRAPPER
            )
            for target in (user, there) if in_project else (user,):
                yield target, inspect(own_assets(place, target), state_dir=place.state_dir).state
