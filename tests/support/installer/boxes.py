"""What the tests of the installer share: settings like Claude Code's, a box of directories, an installation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lifebus_adapters.shared.assets import (
    Asset,
    Dialect,
    InstallRequest,
    OwnedFile,
    SettingsEntry,
    SettingsFile,
    hook_command,
    is_hook_command,
)
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_admin.installer.installer import Report, apply, plan_install, plan_removal
from lifebus_admin.installer.plan import InstallPlan
from lifebus_admin.installer.status import Status, inspect
from lifebus_broker.disk import Disk
from lifebus_contract import IntegrationMode

LAUNCHER = "/home/dev/.local/share/lifebus/lifebus-hook"
EVENTS = ("SessionStart", "Stop")


def handler(event: str, launcher: str = LAUNCHER) -> dict[str, Any]:
    return {"type": "command", "command": hook_command(launcher, "claude", event), "timeout": 5}


def group(event: str, launcher: str = LAUNCHER) -> dict[str, Any]:
    return {"hooks": [handler(event, launcher)]}


def owns(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    inner = value.get("hooks")
    if isinstance(inner, list):
        return bool(inner) and all(owns(hook) for hook in inner)
    return is_hook_command(value.get("command"))


def fine(value: Any) -> tuple[str, ...]:
    return ()


def settings(
    path: str | Path = "/home/dev/.claude/settings.json",
    dialect: Dialect = "json",
    events: Sequence[str] = EVENTS,
    more: Sequence[SettingsEntry] = (),
) -> SettingsFile:
    entries = (*(SettingsEntry(kind="element", where=("hooks", event), value=group(event)) for event in events), *more)
    return SettingsFile(path=str(path), dialect=dialect, entries=entries, owns=owns, check=fine)


@dataclass
class Box:
    """A home, a state directory, and an installation of a launcher and of settings in it."""

    root: Path

    @property
    def settings_path(self) -> Path:
        return self.root / "home" / ".claude" / "settings.json"

    @property
    def launcher_path(self) -> Path:
        return self.root / "data" / "lifebus" / "lifebus-hook"

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def own(self) -> OwnedFile:
        return OwnedFile(path=str(self.launcher_path), contents="#!/bin/sh\nexit 0\n", mode=0o700)

    def assets(self) -> tuple[Asset, ...]:
        return (settings(self.settings_path), self.own)

    def write(self, contents: bytes, mode: int = 0o600) -> Path:
        self.settings_path.parent.mkdir(parents=True, exist_ok=True)
        self.settings_path.write_bytes(contents)
        self.settings_path.chmod(mode)
        return self.settings_path

    def plan(
        self, assets: Sequence[Asset] | None = None, *, removal: bool = False, adapter_id: str = "claude"
    ) -> InstallPlan:
        request = InstallRequest(
            mode=IntegrationMode.NATIVE_HOOK,
            scope="user",
            surroundings=Surroundings(home=str(self.root / "home"), environ={}),
            launcher=str(self.launcher_path),
        )
        planned = plan_removal if removal else plan_install
        chosen = self.assets() if assets is None else assets
        return planned(chosen, adapter_id=adapter_id, request=request, state_dir=self.state_dir)

    def install(
        self,
        assets: Sequence[Asset] | None = None,
        *,
        stamp: str = "20261122T120000Z",
        disk: Disk | None = None,
        adapter_id: str = "claude",
    ) -> Report:
        return apply(self.plan(assets, adapter_id=adapter_id), state_dir=self.state_dir, stamp=stamp, disk=disk)

    def remove(
        self,
        assets: Sequence[Asset] | None = None,
        *,
        stamp: str = "20261122T130000Z",
        disk: Disk | None = None,
        adapter_id: str = "claude",
    ) -> Report:
        plan = self.plan(assets, removal=True, adapter_id=adapter_id)
        return apply(plan, state_dir=self.state_dir, stamp=stamp, disk=disk)

    def status(self, assets: Sequence[Asset] | None = None) -> Status:
        return inspect(self.assets() if assets is None else assets, state_dir=self.state_dir)

    def forget_records(self) -> None:
        for path in (self.state_dir / "hooks" / "records").glob("*"):
            path.unlink()

    def files(self) -> dict[str, bytes]:
        """Return everything below the box, but the state directory."""
        found = (path for path in sorted(self.root.rglob("*")) if self.state_dir not in (path, *path.parents))
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else b"<directory>" for path in found
        }
