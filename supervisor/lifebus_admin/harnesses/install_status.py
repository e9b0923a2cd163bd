"""The status of an installation: its files, the hooks in the settings, the launcher, and what the harness trusts.

Nothing here writes, and nothing raises: what cannot be read is part of the answer.
"""

import os
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import OwnedFile, SettingsFile
from lifebus_adapters.shared.hook_trust import HookTrust, TrustRules
from lifebus_adapters.shared.launcher import launcher_path
from lifebus_admin.harnesses.target import HostEnvironment, Target, install_request, own_assets, shared_assets
from lifebus_admin.installer.file_state import read_target
from lifebus_admin.installer.formats.edit import parsed_settings, text_of
from lifebus_admin.installer.formats.settings_diff import ours
from lifebus_admin.installer.refusals import InstallRefused
from lifebus_admin.installer.status import Status, inspect
from lifebus_contract import IntegrationMode

_TIMEOUT_S: Final = 5.0


class LauncherStatus(Struct, frozen=True, kw_only=True):
    """Whether the shared files are there and the launcher runs; `seconds` it took, None where it did not."""

    files: Status
    seconds: float | None = None
    problem: str | None = None


class InstallStatus(Struct, frozen=True, kw_only=True):
    """One installation.

    `hooks` are those of ours that the settings hold.  `trust` is the harness's, None where it does not apply or is
    not known; `trust_problem` says why, or that hooks are turned off altogether.
    """

    target: Target
    files: Status
    hooks: tuple[str, ...]
    trust: tuple[HookTrust, ...] | None = None
    trust_problem: str | None = None


def our_values(settings: SettingsFile) -> list[tuple[str, Any]]:
    """Return what is ours in a settings file: the hook's name and the value.

    Raises:
        InstallRefused: the file cannot be read.
    """
    file = read_target(settings.path)
    if file.contents is None:
        return []
    parsed = parsed_settings(text_of(file.contents, file.path), settings)
    return [(str(path[1] if path[0] == "hooks" else path[-1]), value) for path, value in ours(parsed, settings)]


def install_status(place: HostEnvironment, target: Target) -> InstallStatus:
    """Return the status of an installation; a hook that was left out on purpose is no fault."""
    wide = msgspec.structs.replace(target, events=None, status_line=True)
    # All hooks that could be installed are looked for, whichever were requested.
    names: list[str] = []
    settings = [asset for asset in own_assets(place, wide) if isinstance(asset, SettingsFile)]
    for asset in settings:
        try:
            names += [name for name, _ in our_values(asset)]
        except InstallRefused:
            continue  # the inspection says it
    narrowed = target
    lists_hooks = ADAPTERS[target.adapter_id].assets.lists_hooks
    if names and lists_hooks:
        line = "statusLine" in names
        narrowed = msgspec.structs.replace(target, events=tuple(names), status_line=line)
    rules = ADAPTERS[target.adapter_id].trust if target.mode is IntegrationMode.NATIVE_HOOK else None
    trust, problem = (None, None) if rules is None else _trust(place, target, rules)
    return InstallStatus(
        target=target,
        files=inspect(own_assets(place, narrowed), state_dir=place.state_dir),
        hooks=tuple(dict.fromkeys(names)) if lists_hooks else (),
        trust=trust,
        trust_problem=problem,
    )


def launcher_health(place: HostEnvironment) -> LauncherStatus:
    """Return whether the launcher is there and runs; it is run without arguments, which does nothing."""
    shared = inspect(shared_assets(place), state_dir=place.state_dir)
    path = launcher_path(str(place.data_dir))
    if not os.access(path, os.X_OK):
        return LauncherStatus(files=shared, problem=f"{path} is not there, or cannot be run")
    began = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S603  our own launcher
            [path], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return LauncherStatus(files=shared, problem=f"{path} does not run: {type(fault).__name__}")
    if ran.returncode or not ran.stderr.startswith(b"usage: hook.py"):
        return LauncherStatus(files=shared, problem=f"{path} ends with {ran.returncode} and does not reach hook.py")
    return LauncherStatus(files=shared, seconds=time.monotonic() - began)


def _trust(
    place: HostEnvironment, target: Target, rules: TrustRules
) -> tuple[tuple[HookTrust, ...] | None, str | None]:
    """Return the harness's trust in our hooks, or why it is not known."""
    (settings,) = [asset for asset in own_assets(place, target) if not isinstance(asset, OwnedFile)]
    config_path = Path(rules.config_path(install_request(place, target)))
    try:
        hooks = msgspec.json.decode(Path(settings.path).read_bytes())
        config = tomllib.loads(config_path.read_text("utf-8")) if config_path.exists() else {}
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as fault:  # every parser's error is a ValueError
        return None, f"cannot be told: {fault}"
    # The harness may know the file by its own name or by the one that links lead to.
    paths = tuple(dict.fromkeys((settings.path, os.path.realpath(settings.path))))
    off = f"hooks are turned off in {config_path}" if rules.hooks_off(config) else None
    return rules.states(paths, hooks, config), off
