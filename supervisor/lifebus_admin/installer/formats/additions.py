"""Entries to add, as one tree that is laid over the settings: objects, lists to append to, values to set.  Pure."""

from collections.abc import Sequence
from typing import Any, cast

from lifebus_adapters.shared.assets import SettingsEntry
from lifebus_admin.installer.refusals import SettingsConflict


class Appended:
    """Values to append to the list that stands here, or to the one to be made."""

    def __init__(self) -> None:
        self.values: list[Any] = []


class Set:
    """A value to stand here, where nothing may stand yet."""

    def __init__(self, value: Any) -> None:
        self.value = value


def nested(entries: Sequence[SettingsEntry]) -> dict[str, Any]:
    """Return the entries as one tree; dicts are objects to walk into, leaves are `Appended` and `Set`."""
    tree: dict[str, Any] = {}
    for entry in entries:
        below = tree
        for key in entry.where[:-1]:
            below = below.setdefault(key, {})
        if entry.kind == "element":
            below.setdefault(entry.where[-1], Appended()).values.append(entry.value)
        else:
            below[entry.where[-1]] = Set(entry.value)
    return tree


def plain(tree: Any) -> Any:
    """Return what a tree makes where nothing stands."""
    if isinstance(tree, Appended):
        return tree.values
    if isinstance(tree, Set):
        return tree.value
    return {key: plain(below) for key, below in cast("dict[str, Any]", tree).items()}


def require_fit(value: Any, tree: Any, path: Sequence[str], name: str) -> None:
    """Refuse a value of another shape than the tree needs; `name` is the file's.

    Raises:
        SettingsConflict: it is no object, or no list, or somebody else's value.
    """
    where = ".".join(path) or "the outermost value"
    if isinstance(tree, Set):
        raise SettingsConflict(name, f"{where} is set to another value already, which is not ours")
    if isinstance(tree, Appended) and not isinstance(value, list):
        raise SettingsConflict(name, f"{where} is {_kind(value)} where a list is needed")
    if isinstance(tree, dict) and not isinstance(value, dict):
        raise SettingsConflict(name, f"{where} is {_kind(value)} where an object is needed")


def _kind(value: Any) -> str:
    # In this order: a bool is an int as well.
    kinds: list[tuple[Any, str]] = [
        (dict, "an object"),
        (list, "a list"),
        (str, "a text"),
        (bool, "true or false"),
        ((int, float), "a number"),
    ]
    return next((word for kind, word in kinds if isinstance(value, kind)), "null")
