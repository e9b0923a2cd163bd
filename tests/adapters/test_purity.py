"""Adapters touch nothing but their arguments: no clock, randomness, files, sockets, processes or environment."""

import ast
from pathlib import Path

import pytest

import lifebus_adapters

SOURCES = sorted(Path(lifebus_adapters.__file__).parent.rglob("*.py"))
ALLOWED = {
    "collections",
    "datetime",  # to write down times that are passed in; tests/support/layering.py sees to it that none is asked for
    "functools",
    "hashlib",
    "importlib",
    "pkgutil",
    "re",
    "shlex",
    "lifebus_adapters",
    "lifebus_contract",
    "msgspec",
    "typing",
}
FORBIDDEN_CALLS = {"open", "print", "input", "eval", "exec", "__import__"}


def _imports(tree: ast.Module) -> set[str]:
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in found}


def test_an_adapter_module_imports_nothing_that_can_touch_the_world(subtests: pytest.Subtests) -> None:
    for source in SOURCES:
        with subtests.test(module=f"{source.parent.name}/{source.name}"):
            tree = ast.parse(source.read_text())
            calls = {
                node.func.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert _imports(tree) <= ALLOWED
            assert not calls & FORBIDDEN_CALLS


def test_only_manifests_and_texts_are_read_from_the_package() -> None:
    readers = [path.name for path in SOURCES if {"importlib", "pkgutil"} & _imports(ast.parse(path.read_text()))]
    assert readers == ["__init__.py", "harness.py", "manifests.py"]
    # Two of them import modules, and read nothing.
    for name in readers[:2]:
        assert "from importlib import import_module\n" in (SOURCES[0].parent / name).read_text()
