"""Where the roots of extensions lie, by the settings alone."""

import os
from pathlib import Path

from lifebus_supervisor.extensions.settings import AUTO, ExtensionSettings
from lifebus_transports.directories import default_config_path

COPIES = "extensions"
"""The folder of the copies that are run, in the runtime directory."""


def absolute_root(path: str) -> str:
    """Return the path of a root as the settings name it."""
    if path == AUTO:
        return str(default_config_path(os.environ).parent / "agents")
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  as text, and without following links


def has_any(settings: ExtensionSettings, runtime_dir: Path) -> bool:
    """Whether there is a root, or a copy that a broker before has left; blocks."""
    named = (*settings.roots, *settings.package_roots, *settings.configured_roots)
    return any(Path(absolute_root(one)).is_dir() for one in named) or (runtime_dir / COPIES).exists()
