"""Canaries: every installed hook is run once, exactly as the settings have it, with a payload that can be recognised.

Who reads the receipts sees whether a canary arrived.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from lifebus_adapters.shared.assets import OwnedFile, SettingsFile
from lifebus_adapters.shared.launcher import launcher_path
from lifebus_adapters.shared.own_hooks import CANARY, WRAPPER_START
from lifebus_adapters.shared.templates import template
from lifebus_admin.harnesses.install_status import our_values
from lifebus_admin.harnesses.target import HostEnvironment, Target, own_assets
from lifebus_contract import IntegrationMode

_TIMEOUT_S: Final = 10.0


class Trial(Struct, frozen=True, kw_only=True):
    """One thing to try: a command (`argv`, without the canary), or a reason why it cannot be tried."""

    target: Target
    hook: str
    argv: tuple[str, ...] | None = None
    takes_argument: bool = False
    reason: str | None = None


class TrialOutcome(Struct, frozen=True, kw_only=True):
    """What the harness would have seen: exit code, stdout and seconds; no exit code where it did not end."""

    exit_code: int | None
    stdout: bytes
    seconds: float


def trials_of(place: HostEnvironment, target: Target) -> list[Trial]:
    """Return what there is to try of an installation.

    Raises:
        InstallRefused: the settings cannot be read.
    """
    if target.mode is IntegrationMode.MANUAL_SKILL:
        return [Trial(target=target, hook="skill", reason="instructions; there is nothing to run")]
    if target.mode is IntegrationMode.LAUNCHER_WRAPPER:
        launcher = launcher_path(str(place.data_dir))
        return [Trial(target=target, hook=WRAPPER_START, argv=(launcher, target.adapter_id, WRAPPER_START))]
    assets = own_assets(place, msgspec.structs.replace(target, events=None, status_line=True))
    plugins = [item for item in assets if isinstance(item, OwnedFile) and item.path.endswith(".js")]
    if plugins:
        return [_plugin_trial(target, item.path) for item in plugins]
    return [
        Trial(target=target, hook=hook, argv=("/bin/sh", "-c", command))
        for item in assets
        if isinstance(item, SettingsFile)
        for hook, value in our_values(item)
        for command in _commands(value)
    ]


def run_trial(trial: Trial, canary: str, environ: Mapping[str, str]) -> TrialOutcome:
    """Run a trial with its canary and return what became of it."""
    if trial.argv is None:
        raise ValueError("this trial has nothing to run")
    argv = (*trial.argv, canary) if trial.takes_argument else trial.argv
    # Every harness passes JSON on stdin; the hook knows this one by its event name.
    payload = msgspec.json.encode({"hook_event_name": CANARY, "canary": canary})
    # As the harness would see it: the launcher's own start counts.
    began = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S603  a command that lifebus has installed
            argv, input=payload, capture_output=True, timeout=_TIMEOUT_S, check=False, env=dict(environ)
        )
    except (OSError, subprocess.TimeoutExpired):
        return TrialOutcome(exit_code=None, stdout=b"", seconds=time.monotonic() - began)
    return TrialOutcome(exit_code=ran.returncode, stdout=ran.stdout, seconds=time.monotonic() - began)


def _plugin_trial(target: Target, path: str) -> Trial:
    node = shutil.which("node")
    if node is None:
        return Trial(target=target, hook="plugin", reason="node is not on PATH to run the plugin with")
    script = template("texts", "canary.mjs")
    argv = (node, "--input-type=module", "-e", script, path, target.adapter_id)
    return Trial(target=target, hook="plugin", argv=argv, takes_argument=True)


def _commands(value: Any) -> Iterator[str]:
    """Yield the commands in a value of ours: a handler's own, or those of a group's handlers."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if isinstance(members.get("command"), str):
            yield members["command"]
        for handler in members.get("hooks", ()):
            yield from _commands(handler)
