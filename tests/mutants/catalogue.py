"""The deliberately broken variants: what each changes in the sources, and which tests must notice.

They are declared in the `*.toml` files beside this module.  An edit names a file and a text that occurs in it exactly
once, so that a declaration which the sources have outgrown is noticed and not quietly skipped.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from msgspec import Struct, convert

REPOSITORY = Path(__file__).parents[2]


class StaleMutant(Exception):
    """A declared edit does not fit the sources any more."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One change: in `file`, below the repository, `old` becomes `new`."""

    file: str
    old: str
    new: str


class Mutant(Struct, frozen=True, forbid_unknown_fields=True):
    """One broken variant: `why` says what it would cost, `tests` (``file::function``) must each fail over it."""

    name: str
    why: str
    tests: tuple[str, ...]
    edit: tuple[Edit, ...]


def load(*words: str) -> list[Mutant]:
    """Return every declared mutant, file by file; with words those whose name holds one, or whose file has it for name.

    A file is named as `trust` or `trust.toml`.
    """
    found: list[Mutant] = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        declared = convert(tomllib.loads(path.read_text())["mutant"], list[Mutant])
        whole = not words or not {path.stem, path.name}.isdisjoint(words)
        found += [one for one in declared if whole or any(word in one.name for word in words)]
    return found


def apply(mutant: Mutant, root: Path) -> list[Path]:
    """Change the sources below `root`; return the files that were changed.

    Raises:
        StaleMutant: a file is gone, or does not hold the old text exactly once.
    """
    for edit in mutant.edit:
        path = root / edit.file
        text = path.read_text() if path.exists() else ""
        if (count := text.count(edit.old)) != 1:
            raise StaleMutant(f"`{mutant.name}`: {edit.file} holds the old text {count} times; declare it anew")
        path.write_text(text.replace(edit.old, edit.new))
    return sorted({root / edit.file for edit in mutant.edit})


def missing_tests(mutant: Mutant, root: Path) -> list[str]:
    """Return the named tests that are not there: their file, or the function, which a class may have from elsewhere."""
    return [
        test
        for test in mutant.tests
        if not (root / test.partition("::")[0]).is_file() or test.rpartition("::")[2] not in _functions(root / "tests")
    ]


@cache
def _functions(folder: Path) -> frozenset[str]:
    """Return the names of all functions below a folder."""
    return frozenset(
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r"^ *(?:async )?def (\w+)", path.read_text(), re.MULTILINE)
    )
