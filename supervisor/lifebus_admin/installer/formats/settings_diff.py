"""Settings as plain values: what of them is ours, what has to change, and whether the rest stayed the same.  Pure.

Ours are found in every list beside the ones that we use now (the events of an older version, or of a wider request),
and also one by one inside an element of somebody else's, where a user moved them together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from lifebus_adapters.shared.assets import SettingsEntry, SettingsFile

Path = tuple[str | int, ...]
"""The path of a value: keys and places in lists."""

OWN_KEY: Final = "lifebus"
"""A member under this key is ours by its name, whatever it holds."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final[Any] = _Absent()
"""Stands for no value at all, which null is not."""


class Changes(Struct, frozen=True, kw_only=True):
    """What has to change: values to cut, values to put in place of ours, entries to add."""

    cuts: tuple[Path, ...] = ()
    puts: tuple[tuple[Path, Any], ...] = ()
    adds: tuple[SettingsEntry, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether everything is as it should be."""
        return not (self.cuts or self.puts or self.adds)


def lookup(value: Any, path: Path) -> Any:
    """Return the value at the path, or ABSENT."""
    found = value
    for step in path:
        if isinstance(found, dict):
            found = cast("Mapping[Any, Any]", found).get(step, ABSENT)
        elif isinstance(found, list) and isinstance(step, int):
            elements = cast("Sequence[Any]", found)
            found = elements[step] if step < len(elements) else ABSENT
        else:
            return ABSENT
    return found


def is_ours(settings: SettingsFile, entry: SettingsEntry, value: Any) -> bool:
    """Whether a member that stands at the entry's place is ours."""
    return entry.where[-1] == OWN_KEY or bool(settings.owns(value))


def elements_of(settings: SettingsFile) -> list[SettingsEntry]:
    """Return the entries that go into lists."""
    return [entry for entry in settings.entries if entry.kind == "element"]


def tracked_paths(settings: SettingsFile) -> tuple[tuple[str, ...], ...]:
    """Return the paths below which anything of ours can stand."""
    paths = [
        entry.where[:-1] if entry.kind == "element" and len(entry.where) > 1 else entry.where
        for entry in settings.entries
    ]
    return tuple(dict.fromkeys(paths))


def list_places(parsed: Any, settings: SettingsFile) -> list[tuple[str, ...]]:
    """Return the lists in which elements of ours can stand: those that we use now, and their neighbours."""
    return [place for place in _neighbours(parsed, settings) if isinstance(lookup(parsed, place), list)]


def _neighbours(parsed: Any, settings: SettingsFile) -> list[tuple[str, ...]]:
    places: dict[tuple[str, ...], None] = {}
    for entry in elements_of(settings):
        parent = lookup(parsed, entry.where[:-1]) if len(entry.where) > 1 else None
        if isinstance(parent, dict):
            keys = [key for key in cast("Mapping[Any, Any]", parent) if isinstance(key, str)]
            places |= {(*entry.where[:-1], key): None for key in keys}
        places[entry.where] = None
    return list(places)


def ours(parsed: Any, settings: SettingsFile) -> Iterator[tuple[Path, Any]]:
    """Yield where each value of ours stands, and the value; the smallest whole thing that is ours alone."""
    for place in list_places(parsed, settings):
        yield from _ours_below(lookup(parsed, place), place, settings)
    for entry in settings.entries:
        if entry.kind == "member":
            value = lookup(parsed, entry.where)
            if value is not ABSENT and is_ours(settings, entry, value):
                yield entry.where, value


def _ours_below(value: Any, path: Path, settings: SettingsFile) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, list):
        for place, element in enumerate(cast("Sequence[Any]", value)):
            if settings.owns(element):
                yield (*path, place), element
            else:
                # An element of somebody else's may hold ours, where a user moved them together.
                yield from _ours_below(element, (*path, place), settings)
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            yield from _ours_below(member, (*path, key), settings)


def to_remove(parsed: Any, settings: SettingsFile) -> Changes:
    """Return what to cut so that nothing of ours is left."""
    return Changes(cuts=tuple(path for path, _ in ours(parsed, settings)))


def to_install(parsed: Any, settings: SettingsFile) -> Changes:
    """Return what to do so that exactly the requested entries are there; what is right already stays untouched."""
    cuts: list[Path] = []
    puts: list[tuple[Path, Any]] = []
    adds: list[SettingsEntry] = []
    found = [item for item in ours(parsed, settings) if isinstance(item[0][-1], int)]
    for where in dict.fromkeys([entry.where for entry in elements_of(settings)]):
        wanted = [entry for entry in elements_of(settings) if entry.where == where]
        here = [item for item in found if item[0][:-1] == where]
        found = [item for item in found if item[0][:-1] != where]
        kept, missing = _paired(here, wanted)
        # In place where there is one: the order of a user's hooks matters to the harness.
        puts += [(path, entry.value) for (path, _), entry in zip(kept, missing, strict=False)]
        cuts += [path for path, _ in kept[len(missing) :]]
        adds += missing[len(kept) :]
    # What is left stands in lists that we use no more.
    cuts += [path for path, _ in found]
    for entry in settings.entries:
        if entry.kind == "member":
            value = lookup(parsed, entry.where)
            if value is ABSENT or not (same(value, entry.value) or is_ours(settings, entry, value)):
                adds.append(entry)  # where somebody else's value stands, adding it refuses
            elif not same(value, entry.value):
                puts.append((entry.where, entry.value))
    return Changes(cuts=tuple(cuts), puts=tuple(puts), adds=tuple(adds))


def _paired(
    here: Sequence[tuple[Path, Any]], wanted: Sequence[SettingsEntry]
) -> tuple[list[tuple[Path, Any]], list[SettingsEntry]]:
    """Match what is there with what is requested; return what of ours, and what of the request, has no match."""
    left, missing = list(here), list[SettingsEntry]()
    for entry in wanted:
        equal = next((item for item in left if same(item[1], entry.value)), None)
        if equal is None:
            missing.append(entry)
        else:
            left.remove(equal)
    return left, missing


def without_ours(parsed: Any, settings: SettingsFile) -> Any:
    """Return the settings without ours, and without the containers on our paths that are empty then.

    Two versions of a file for which this is the same hold the same of everybody else's.
    """
    tree: dict[str | int, Any] = {}
    for path, _ in ours(parsed, settings):
        _mark(tree, path)
    for path in (*tracked_paths(settings), *_neighbours(parsed, settings)):
        _mark(tree, path, {})
    left = _pruned(parsed, tree, prunable=True)
    return {} if left is ABSENT else left


def _mark(tree: dict[str | int, Any], path: Path, leaf: Any = None) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    if leaf is None:
        tree[path[-1]] = ABSENT
    elif path:
        tree.setdefault(path[-1], leaf)


def _pruned(value: Any, tree: Mapping[str | int, Any], *, prunable: bool) -> Any:
    if isinstance(value, dict):
        left: Any = {}
        for key, member in cast("dict[str, Any]", value).items():
            kept = _kept(member, tree.get(key), prunable=prunable)
            if kept is not ABSENT:
                left[key] = kept
    elif isinstance(value, list):
        elements = [
            _kept(element, tree.get(place), prunable=False)
            for place, element in enumerate(cast("Sequence[Any]", value))
        ]
        left = [element for element in elements if element is not ABSENT]
    else:
        left = value
    return ABSENT if prunable and left in ({}, [], None) else left


def _kept(value: Any, below: Any, *, prunable: bool) -> Any:
    if below is None or below is ABSENT:
        return value if below is None else ABSENT
    return _pruned(value, below, prunable=prunable)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, true and 1 apart, whatever their depth and however often they share parts."""
    pending: list[tuple[Any, Any]] = [(left, right)]
    # YAML values may share parts, or even contain themselves.
    seen = set[tuple[int, int]]()
    while pending:
        one, other = pending.pop()
        # Pairs that were compared before are not compared again.
        if one is other or (id(one), id(other)) in seen:
            continue
        pairs = _pairs(one, other)
        if pairs is None:
            return False
        if pairs:
            seen.add((id(one), id(other)))
            pending += pairs
    return True


def _pairs(one: Any, other: Any) -> list[tuple[Any, Any]] | None:
    """Return what has to be the same in turn, or None where the two differ already."""
    if isinstance(one, dict) and isinstance(other, dict):
        members, others = cast("Mapping[Any, Any]", one), cast("Mapping[Any, Any]", other)
        return [(value, others[key]) for key, value in members.items()] if members.keys() == others.keys() else None
    if isinstance(one, list) and isinstance(other, list):
        elements, more = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return list(zip(elements, more, strict=True)) if len(elements) == len(more) else None
    # In Python true equals 1; in settings it does not.
    return [] if isinstance(one, bool) == isinstance(other, bool) and one == other else None
