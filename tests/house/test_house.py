"""The house rules that a machine can read: small files, small functions, no asserts in the product, no stray words."""

import ast
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from support.layering import ROOTS
from support.paths import REPOSITORY

T = TypeVar("T")

SOURCES = [path for root in (*ROOTS, "tests", "bench") for path in sorted((REPOSITORY / root).rglob("*.py"))]
PRODUCT = [path for path in SOURCES if path.relative_to(REPOSITORY).parts[0] in ROOTS]
LONGEST_FILE = 400
LONGEST_FUNCTION = 50
VAGUE = re.compile(r"Manager|Helper|Utils?(?![a-z])")
STRAY = re.compile(
    r"(?<![\w.])/(?:root|work)/"  # paths of the machine that something was written on
    r"|\b(?:TODO|FIXME|XXX)\b"
)


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """Return what the guards look at; to walk through all sources costs seconds, so it is done once."""
    looked_at = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assert, ast.Call)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, looked_at)]


def long_functions(source: str) -> list[str]:
    return [
        node.name
        for node in nodes_of(source)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > LONGEST_FUNCTION
    ]


def asserts(source: str) -> list[int]:
    return [node.lineno for node in nodes_of(source) if isinstance(node, ast.Assert)]


def vague_names(source: str) -> list[str]:
    return [node.name for node in nodes_of(source) if isinstance(node, ast.ClassDef) and VAGUE.search(node.name)]


def sleeps(source: str) -> list[int]:
    """Return the lines that sleep for a time, which `sleep(0)` and `sleep_forever()` do not."""
    return [
        node.lineno
        for node in nodes_of(source)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", None)) == "sleep"
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def committed_texts() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    paths = [REPOSITORY / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths or SOURCES if path.is_file() and path.suffix not in {".png", ".svg", ".gz"}]


def offenders(paths: list[Path], look: Callable[[str], list[T]]) -> dict[str, list[T]]:
    """Return what a look at each file's text found, where it found anything."""
    found = {name_of(path): look(text_of(path)) for path in paths}
    return {name: faults for name, faults in found.items() if faults}


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    assert offenders(SOURCES, long_functions) == {}


def test_the_product_never_asserts() -> None:
    assert offenders(PRODUCT, asserts) == {}


def test_no_class_hides_behind_a_vague_name() -> None:
    assert offenders(PRODUCT, vague_names) == {}


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    assert offenders(sorted((REPOSITORY / "tests").rglob("test_*.py")), sleeps) == {}


def test_no_committed_text_names_a_machine_or_leaves_a_task_behind() -> None:
    found = {name_of(path): STRAY.findall(path.read_text(errors="replace")) for path in committed_texts()}
    assert {name: words for name, words in found.items() if words and name != name_of(Path(__file__))} == {}


def test_the_guards_bite() -> None:
    assert long_functions("def f():\n" + "    pass\n" * LONGEST_FUNCTION) == ["f"]
    assert asserts("def f():\n    assert True") == [2]
    assert vague_names("class JobManager: ...\nclass StringUtil: ...\nclass Utility: ...") == [
        "JobManager",
        "StringUtil",
    ]
    assert sleeps("time.sleep(1)\nawait anyio.sleep(0)\nawait asyncio.sleep(delay)") == [1, 3]
    assert STRAY.findall("see /" + "work/main, TO" + "DO") == ["/" + "work/", "TO" + "DO"]
