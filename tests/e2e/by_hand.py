"""Hooks put into a harness's settings without the installer: its assets, written plainly."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

import lifebus
from e2e.sandbox import Sandbox
from lifebus_adapters import HOST_ASSETS
from lifebus_adapters.assets import OwnedFile, SettingsFile, Wish
from lifebus_adapters.launcher import launcher_files, launcher_path
from lifebus_adapters.telemetry import Surroundings
from lifebus_contract import IntegrationMode


def install(adapter_id: str, box: Sandbox) -> None:
    directory = str(box.home / ".local/share/lifebus")
    hook = Path(lifebus.__file__).with_name("hook.py").read_text()
    for file in launcher_files(directory, python=sys.executable, hook=hook, wrapper=""):
        _write(file)
    wish = Wish(
        mode=IntegrationMode.NATIVE_HOOK,
        scope="user",
        surroundings=Surroundings(home=str(box.home), environ={}),
        launcher=launcher_path(directory),
        python=sys.executable,
    )
    for asset in HOST_ASSETS[adapter_id].make(wish):
        if isinstance(asset, OwnedFile):
            _write(asset)
        else:
            _merge(asset)


def _write(file: OwnedFile) -> None:
    path = Path(file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.contents)
    path.chmod(file.mode)


def _merge(settings: SettingsFile) -> None:
    path = Path(settings.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else "{}"
    document: dict[str, Any] = yaml.safe_load(text)  # JSON is YAML
    for entry in settings.entries:
        *parents, last = entry.where
        inner = document
        for key in parents:
            inner = inner.setdefault(key, {})
        if entry.kind == "member":
            inner[last] = entry.value
        else:
            inner.setdefault(last, []).append(entry.value)
    plain = json.loads(json.dumps(document))
    path.write_text(yaml.safe_dump(plain) if settings.dialect == "yaml" else json.dumps(plain))
