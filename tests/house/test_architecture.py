"""The drawn tree is the one on the disk, the import rules are those enforced, the journeys name what is there."""

import re

from lifebus_adapters import HARNESS_NAMES
from support.layering import ROOTS, RULES
from support.paths import DOCS, REPOSITORY

TEXT = (DOCS / "architecture.md").read_text()
FOLDER = re.compile(r"^( *)((?:[a-z_]+/ ?)+)")


def drawn_folders() -> set[str]:
    """Return the folders of the drawn tree as paths; a line may name several that lie beside each other."""
    (tree,) = re.findall(r"^## The tree\n.*?```\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    above = [""]
    for line in tree.splitlines():
        if match := FOLDER.match(line):
            depth = len(match[1]) // 2
            names = match[2].split()
            del above[depth + 1 :]
            found |= {f"{above[depth]}{name}" for name in names}
            above.append(f"{above[depth]}{names[-1]}")
    return {folder.rstrip("/") for folder in found}


def folders_on_disk() -> set[str]:
    """Return the packages' folders but those of harnesses, which one line in `HARNESS_NAMES` adds."""
    harnesses = {REPOSITORY / "transports" / "lifebus_adapters" / name for name in HARNESS_NAMES}
    packages = {path.parent for root in ROOTS for path in (REPOSITORY / root).rglob("__init__.py")}
    return {path.relative_to(REPOSITORY).as_posix() for path in packages - harnesses} | set(ROOTS)


def test_the_tree_is_the_one_on_the_disk() -> None:
    drawn = drawn_folders()
    assert folders_on_disk() - drawn == set()
    assert {folder for folder in drawn if not (REPOSITORY / folder).is_dir()} == set()


def test_the_import_rules_are_those_of_the_layer_test() -> None:
    rows = re.findall(r"^\| `(lifebus[\w.]*)` \| (.*?) \| (.*?) \|$", TEXT, re.MULTILINE)
    written = {folder: tuple(frozenset(re.findall(r"`(\w+)`", cell)) for cell in cells) for folder, *cells in rows}
    assert written == {folder: (rule.ours, rule.others) for folder, rule in RULES.items()}


def test_the_journeys_name_functions_that_are_there() -> None:
    steps = re.findall(r"`([a-z_/]+\.py)` \(`([\w.]+)`\)", (REPOSITORY / "CONTRIBUTING.md").read_text())
    assert steps
    gone = [(path, name) for path, name in steps if not defines((REPOSITORY / path).read_text(), name)]
    assert gone == []


def defines(source: str, name: str) -> bool:
    """Whether a module defines each part of a dotted name, as a class, a function or a constant."""
    return all(
        re.search(rf"(?:(?:def|class) {part}\b|^{part}\b.* = )", source, re.MULTILINE) for part in name.split(".")
    )
