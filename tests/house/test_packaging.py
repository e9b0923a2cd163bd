"""What is built is what is on the disk: the packages table, the wheel's content, what an installer needs."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from support.layering import ROOTS
from support.paths import REPOSITORY
from support.patience import PATIENCE_S

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def packages_on_disk() -> list[str]:
    return [
        str(folder.relative_to(REPOSITORY))
        for root in ROOTS
        for folder in sorted((REPOSITORY / root).iterdir())
        if (folder / "__init__.py").exists()
    ]


def shipped_files() -> set[str]:
    return {
        path.relative_to(REPOSITORY / root).as_posix()
        for root in ROOTS
        for path in (REPOSITORY / root).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def test_the_packages_table_is_what_is_on_the_disk() -> None:
    assert sorted(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(packages_on_disk())


def test_every_root_is_importable_in_an_editable_installation() -> None:
    assert sorted(PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]) == sorted(ROOTS)


def test_each_package_is_marked_as_typed() -> None:
    assert [package for package in packages_on_disk() if not (REPOSITORY / package / "py.typed").exists()] == []


def test_the_wheel_holds_every_file_of_every_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=PATIENCE_S)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert names == shipped_files()
        assert "lifebus = lifebus.cli:main" in archive.read(entry_points).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
