"""What is built is what is on the disk: the packages table, the wheel's content, what an installer needs."""

import email
import tarfile
import tomllib
import zipfile
from pathlib import Path

from support.client_environment import build
from support.layering import ROOTS
from support.paths import REPOSITORY
from support.pythons import MINORS

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
    with zipfile.ZipFile(build(REPOSITORY, tmp_path)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert names == shipped_files()
        assert "lifebus = lifebus.cli:main" in archive.read(entry_points).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        said = email.message_from_bytes(archive.read(metadata))
    assert said["Author"] == "The lifebus authors"
    assert len(said["Keywords"].split(",")) > 3
    assert said.get_all("Project-URL")


def test_the_archive_of_sources_has_what_is_built_and_read_and_nothing_of_the_tests(tmp_path: Path) -> None:
    with tarfile.open(build(REPOSITORY, tmp_path, "sdist")) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    documents = {name for name in names if name.startswith(("docs/", "distributions/"))}
    built = {name for name in names if name.startswith(tuple(f"{root}/" for root in ROOTS))}
    assert {name.partition("/")[2] for name in built} == shipped_files()
    assert {"docs/start.md", "docs/examples/follow.py", "distributions/client/tree.py"} < documents
    assert names - documents - built == {
        ".gitignore",  # what is built from it leaves out the same
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "SECURITY.md",
        "pyproject.toml",
    }


def test_the_versions_of_python_that_are_named_are_those_that_are_tested() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if " :: 3." in line}
    assert named == {f"3.{minor}" for minor in MINORS}
