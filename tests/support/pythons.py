"""Which Pythons that we support are on this machine: `.ci/run` tests every one.  The standard library alone.

    python3 tests/support/pythons.py

prints a line for each, the oldest first: its version, a tab, and its path.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

MINORS: Final = range(11, 15)
"""The Pythons 3.x that `requires-python` allows and that exist."""

_FOLDERS: Final = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "/opt/python/*/bin")
"""Where installers keep Pythons that are on no path."""

_ASK: Final = """
import importlib.util, sys
pip = all(map(importlib.util.find_spec, ("ensurepip", "venv")))
print("%d.%d.%d" % sys.version_info[:3], sys.implementation.name, "venv" if pip else "no-venv")
"""
_PATIENCE_S: Final = 60


def candidates(environment: Mapping[str, str]) -> list[Path]:
    """Return what may be one of them: in the system's folders, on the path and where installers keep theirs."""
    home = environment.get("HOME", "/nonexistent")
    path = (Path(folder) for folder in environment.get("PATH", os.defpath).split(os.pathsep) if folder)
    kept = (place for folder in _FOLDERS for place in _matching(folder.replace("~", home)))
    names = ("python3", *(f"python3.{minor}" for minor in MINORS))
    found = (folder / name for folder in (Path("/usr/bin"), *path, *kept) for name in names)
    return [one for one in dict.fromkeys(found) if os.access(one, os.X_OK)]


def _matching(pattern: str) -> list[Path]:
    return sorted(Path("/").glob(pattern.lstrip("/")))


def version_of(python: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return its version, empty where it does not run, is none that we support, or cannot make environments.

    The last is said on stderr: Debian's own has `ensurepip` in the package python3-venv.
    What pyenv has on the path for each version that it knows runs only while that version is chosen.
    """
    ran = subprocess.run(
        [python, "-I", "-c", _ASK],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
    )
    if ran.returncode or len(words := ran.stdout.split()) != 3 or words[1] != "cpython":
        return ()
    found = tuple(int(part) for part in words[0].split("."))
    if found[:2] not in {(3, minor) for minor in MINORS}:
        return ()
    if words[2] != "venv":
        sys.stderr.write(f"{python} has no ensurepip: left out\n")
        return ()
    return found


def oldest_first(pythons: Iterable[Path], environment: Mapping[str, str]) -> dict[str, Path]:
    """Return one Python of each version, by the version."""
    found: dict[tuple[int, ...], Path] = {}
    for python in pythons:
        version = version_of(python, environment)
        if version:
            found.setdefault(version, python)
    return {".".join(map(str, version)): found[version] for version in sorted(found)}


if __name__ == "__main__":
    for version, python in oldest_first(candidates(os.environ), os.environ).items():
        sys.stdout.write(f"{version}\t{python}\n")
