"""The texts that guards look at: our sources, all that is committed, and what a look at each of them finds."""

import ast
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from support.layering import ROOTS
from support.paths import REPOSITORY

T = TypeVar("T")

SOURCES = [path for root in (*ROOTS, "tests", "bench") for path in sorted((REPOSITORY / root).rglob("*.py"))]
PRODUCT = [path for path in SOURCES if path.relative_to(REPOSITORY).parts[0] in ROOTS]
DOCUMENTS = [
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
]
BINARY = {".png", ".svg", ".gz"}


def name_of(path: Path) -> str:
    """Return the path within the repository."""
    return path.relative_to(REPOSITORY).as_posix()


@cache
def text_of(path: Path) -> str:
    """Return a file's text, read once for all guards."""
    return path.read_text(errors="replace")


@cache
def committed() -> list[Path]:
    """Return the files that git knows; in a copy without git, the sources and documents."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    paths = [REPOSITORY / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths or [*SOURCES, *DOCUMENTS] if path.is_file() and path.suffix not in BINARY]


def offenders(paths: Iterable[Path], check: Callable[[str], list[T]]) -> dict[str, list[T]]:
    """Return what a look at each file's text found, where it found anything."""
    found = {name_of(path): check(text_of(path)) for path in paths}
    return {name: faults for name, faults in found.items() if faults}


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """Return what the guards look at; to walk through all sources costs seconds, so it is done once."""
    looked_at = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assert, ast.Call)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, looked_at)]
