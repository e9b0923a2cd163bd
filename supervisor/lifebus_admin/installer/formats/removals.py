"""Values to take out or to bring back, as one tree that is laid over the settings.  Pure."""

from collections.abc import Sequence
from typing import Any, Final

from lifebus_admin.installer.formats.settings_diff import Path

CUT: Final = "cut"


def removals(cuts: Sequence[Path], puts: Sequence[tuple[Path, Any]]) -> dict[str | int, Any]:
    """Return the paths as one tree; dicts are containers to walk into, leaves `CUT` or a tuple of the value to put."""
    tree: dict[str | int, Any] = {}
    for path, leaf in [*((path, CUT) for path in cuts), *((path, (value,)) for path, value in puts)]:
        below = tree
        for step in path[:-1]:
            below = below.setdefault(step, {})
        below[path[-1]] = leaf
    return tree
