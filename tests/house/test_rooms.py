"""The rooms of the house: no folder is crowded, and a class name means one thing."""

import ast
from collections import Counter, defaultdict

from support.sources import PRODUCT, name_of, text_of

MOST_MODULES = 20
MOST_REPEATED = 10
CROWDED = {"broker/lifebus_broker/ledger/sqlite"}
"""Folders that have more modules; to be emptied."""

REPEATED = {
    "Answer": "what two harnesses call so: a message of the app-server, and a line of Claude's transcript",
    "Compaction": "a view derived from the log, and what Claude's transcript calls so",
    "Delivery": "what a harness is to get, and what a consumer has got",
    "Pool": "verbs that share a bound, and children that are lent to one caller at a time",
    "Question": "what a harness asks its user, and a line of `lifebus stdio`",
    "Request": "one of an app-server's, and one of our own clients",
    "Snapshots": "the verbs of the broker, and what users hold",
    "Source": "where telemetry comes from, and what a peer on stdio subscribes to",
    "Status": "of an installation, and the verb of the broker",
}
"""Public class names that are defined more than once, each with its reason; fewer than ten."""

UNDER_WAY = {"RefusedFile"}
"""Names that are still to get one meaning each; nothing may be added."""


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


def test_no_folder_is_crowded() -> None:
    assert set(crowded()) <= CROWDED


def test_a_class_name_means_one_thing() -> None:
    found = repeated({name_of(path): text_of(path) for path in PRODUCT})
    assert {name: modules for name, modules in found.items() if name not in {*REPEATED, *UNDER_WAY}} == {}
    assert set(REPEATED) - set(found) == set()
    assert len(REPEATED) < MOST_REPEATED


def test_the_guard_bites() -> None:
    sources = {"a": "class Bus: ...\nclass _Line: ...", "b": "class Bus: ...\nclass _Line: ..."}
    assert repeated(sources) == {"Bus": ["a", "b"]}
