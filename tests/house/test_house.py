"""The house rules that a machine can read: small files, small functions, no asserts in the product, no stray words."""

import ast
import re
from pathlib import Path

from support.paths import REPOSITORY
from support.sources import PRODUCT, SOURCES, committed, name_of, nodes_of, offenders, text_of

LONGEST_FILE = 400
LONGEST_FUNCTION = 50
VAGUE = re.compile(r"Manager|Helper|Utils?(?![a-z])")
STRAY = re.compile(
    r"(?<![\w.])/(?:root|work)/"  # paths of the machine that something was written on
    r"|\b(?:TODO|FIXME|XXX)\b"
)


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
    elsewhere = [path for path in committed() if path != Path(__file__)]
    assert offenders(elsewhere, STRAY.findall) == {}


def test_the_guards_bite() -> None:
    assert long_functions("def f():\n" + "    pass\n" * LONGEST_FUNCTION) == ["f"]
    assert asserts("def f():\n    assert True") == [2]
    assert vague_names("class JobManager: ...\nclass StringUtil: ...\nclass Utility: ...") == [
        "JobManager",
        "StringUtil",
    ]
    assert sleeps("time.sleep(1)\nawait anyio.sleep(0)\nawait asyncio.sleep(delay)") == [1, 3]
    assert STRAY.findall("see /" + "work/main, TO" + "DO") == ["/" + "work/", "TO" + "DO"]
