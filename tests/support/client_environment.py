"""An environment with `lifebus-client` and what it declares, and nothing else that is installed here."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from support.paths import REPOSITORY
from support.patience import PATIENCE_S

CLIENT = REPOSITORY / "distributions" / "client"


def build(source: Path, target: Path, kind: str = "wheel") -> Path:
    """Build a distribution as an installer does, and return the one file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=PATIENCE_S)
    (built,) = target.iterdir()
    return built


def installed(wheel: Path, site: Path) -> Path:
    """Unpack a wheel into a directory of its own, beside links to what it declares, and return the directory."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (metadata,) = site.glob("*.dist-info")
    for needed in _needs(Distribution.at(metadata), set()).values():
        for name in {path.parts[0] for path in needed.files or ()} - {"..", "__pycache__"}:
            (site / name).symlink_to(Path(str(needed.locate_file(name))))
    return site


def _needs(of: Distribution, known: set[str]) -> dict[str, Distribution]:
    """Return what a distribution needs on this Python, and what that needs."""
    found: dict[str, Distribution] = {}
    for requirement in map(Requirement, of.requires or ()):
        if requirement.name in known or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        known.add(requirement.name)
        found[requirement.name] = distribution(requirement.name)
        found |= _needs(found[requirement.name], known)
    return found


def run_in(
    site: Path, *arguments: str, variables: dict[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run Python with the environment's packages alone."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(site), "PYTHONWARNINGS": "error"} | (variables or {})
    # `-S`: no site-packages of the Python that runs the tests.
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(
        command, input=stdin, env=environment, cwd=site, capture_output=True, check=False, timeout=PATIENCE_S
    )
