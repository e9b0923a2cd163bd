"""The rooms of the house: no folder is crowded, and a class name means one thing."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from support.sources import PRODUCT, name_of, text_of

MOST_MODULES = 20
MOST_REPEATED = 10


REPEATED: dict[str, str] = {}
"""Public class names that are defined more than once, each with its reason: a form on the wire beside one of the domain
may be one.  Fewer than ten."""


ALIKE = {"tail": "of one file; the tailer is that of all"}
"""Module names beside which another one has only another ending, each with its reason."""

ENDINGS = re.compile(r"(?:ings?|ed|ers?|es|s|e|ions?)$")


def crowded() -> dict[str, int]:
    """Return the folders of the product with too many modules; a package's own `__init__` is none."""
    count = Counter(name_of(path.parent) for path in PRODUCT if path.name != "__init__.py")
    return {folder: number for folder, number in count.items() if number > MOST_MODULES}


def repeated(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the public classes that more than one module defines at its top level, with those modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def alike(paths: Iterable[Path]) -> list[list[str]]:
    """Return the modules of one folder whose names differ by their endings alone: `saves`, `saved`, `saving`."""
    found: defaultdict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in paths:
        found[path.parent, ENDINGS.sub("", path.stem)].append(path.stem)
    return [names for names in found.values() if len(names) > 1]


def test_no_folder_is_crowded() -> None:
    assert crowded() == {}


def test_a_class_name_means_one_thing() -> None:
    found = repeated({name_of(path): text_of(path) for path in PRODUCT})
    assert {name: modules for name, modules in found.items() if name not in REPEATED} == {}
    assert set(REPEATED) - set(found) == set()
    assert len(REPEATED) < MOST_REPEATED


def test_module_names_beside_each_other_differ_by_more_than_their_endings() -> None:
    assert [names for names in alike(PRODUCT) if not ALIKE.keys() & set(names)] == []


def test_the_guard_bites() -> None:
    sources = {"a": "class Bus: ...\nclass _Line: ...", "b": "class Bus: ...\nclass _Line: ..."}
    assert repeated(sources) == {"Bus": ["a", "b"]}
    assert alike([Path("a/saves.py"), Path("a/saving.py"), Path("b/saved.py")]) == [["saves", "saving"]]
