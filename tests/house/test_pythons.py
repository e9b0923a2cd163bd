"""What `.ci/run` finds to test on, and that `make` runs the Python that it is told."""

import os
import subprocess
import sys
from pathlib import Path

from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.pythons import candidates, oldest_first, version_of

HERE = ".".join(map(str, sys.version_info[:3]))
PLAIN = {"PATH": os.environ.get("PATH", os.defpath)}
"""Without what a `make` that runs the suite passes on to further ones."""


def program(folder: Path, name: str, *lines: str) -> Path:
    """Write a program that stands for a Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_pythons_are_found_on_the_path_and_where_installers_keep_them(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin", "python3.12")
    kept = program(tmp_path / ".pyenv/versions/3.13.0/bin", "python3")
    program(tmp_path / "bin", "python3.10")

    found = candidates({"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{tmp_path}/none"})

    assert [one for one in found if one.is_relative_to(tmp_path)] == [on_path, kept]


def test_one_of_each_version_is_taken_and_the_oldest_comes_first(tmp_path: Path) -> None:
    words = {
        "a": "3.13.0 cpython venv",
        "b": "3.11.2 cpython venv",
        "c": "3.13.0 cpython venv",
        "d": "3.11.14 cpython venv",
    }
    pythons = [program(tmp_path, name, f"echo {text}") for name, text in words.items()]
    assert list(oldest_first(pythons, os.environ)) == ["3.11.2", "3.11.14", "3.13.0"]
    assert oldest_first(pythons, os.environ)["3.13.0"] == tmp_path / "a"


def test_what_does_not_run_or_is_not_ours_to_support_is_left_out(tmp_path: Path) -> None:
    left_out = ("exit 127", "echo 3.10.13 cpython venv", "echo 3.15.0 cpython venv", "echo 3.11.9 pypy venv")
    pythons = [program(tmp_path, f"p{number}", line) for number, line in enumerate(left_out)]
    assert oldest_first(pythons, os.environ) == {}
    assert version_of(Path(sys.executable), os.environ) == sys.version_info[:3]


def test_a_python_that_cannot_make_environments_is_named(tmp_path: Path) -> None:
    asked = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    python = program(tmp_path, "python3.12", "echo 3.12.0 cpython no-venv")
    command = [sys.executable, str(REPOSITORY / "tests/support/pythons.py")]
    ran = subprocess.run(command, env=asked, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert f"{python} has no ensurepip: left out\n" in ran.stderr
    assert str(tmp_path) not in ran.stdout


def planned(**variables: str) -> str:
    """Return what `make test` would run."""
    words = ["make", "--dry-run", "--no-print-directory", "test"]
    ran = subprocess.run(words, cwd=REPOSITORY, env=PLAIN | variables, capture_output=True, text=True, check=True)
    return ran.stdout


def test_a_python_that_is_named_has_an_environment_of_its_own_and_the_usual_one_stays() -> None:
    assert f".venv-{HERE}/bin/pytest -q" in planned(PYTHON=sys.executable)
    assert "\n.venv/bin/pytest -q" in f"\n{planned()}"


def test_an_environment_that_another_python_of_the_same_version_made_is_refused(tmp_path: Path) -> None:
    program(tmp_path / f".venv-{HERE}/bin", "python", "echo -3.0.0 /elsewhere")
    words = ["make", "-f", str(REPOSITORY / "Makefile"), "test", f"PYTHON={sys.executable}"]
    ran = subprocess.run(words, cwd=tmp_path, env=PLAIN, capture_output=True, text=True, check=False)
    assert ran.returncode
    assert f"another Python of this version made .venv-{HERE}" in ran.stderr
