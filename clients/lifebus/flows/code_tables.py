"""The tables of exit codes in a flow file (docs/flows.md, "Exit codes").  Pure."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, cast

from msgspec import Struct, structs

from lifebus.flows.checking import Fault, suggest
from lifebus.flows.plain_data import is_table, table_of
from lifebus.flows.toml_lines import KeyPath
from lifebus_contract.flows import CodeMap, CodeRule, StepVerdict

NAMED: Final = {"loa": "lifebus.loa.codes", "make": "lifebus.make.codes"}
"""The maps that have a name, and the module that has each as `CODES`."""

DEFAULT: Final = "loa"
"""The map of a file that says nothing."""

_RANGE: Final = re.compile(r"^(\d{1,3})(?:-(\d{1,3}))?$")
_OTHERS: Final = ("unknown", "signalled", "timed_out", "cannot_start", "unverified")
_VERDICTS: Final = [one.value for one in StepVerdict]
_LAST: Final = 255
_LABEL_LENGTH: Final = 256


class _Range(Struct, frozen=True):
    """One rule as it stands in the file."""

    first: int
    last: int
    verdict: str
    label: str | None


def named_codes(name: str) -> CodeMap:
    """Return the map of a name in `NAMED`."""
    # Loaded by name: a flow file needs the words of one client, never those of all.
    return cast("CodeMap", import_module(NAMED[name]).CODES)


def make_codes(table: str | Mapping[str, Any] | None, below: CodeMap) -> CodeMap:
    """Return the map of a table that is free of faults; what it does not name is as in `below`, or in its `base`."""
    if table is None:
        return below
    if isinstance(table, str):
        return named_codes(table)
    base = table.get("base")
    if base is not None:
        below = CodeMap() if base == "none" else named_codes(str(base))
    # The first rule that fits decides, so that the narrow ones go before those around them.
    ranges = sorted(_ranges(table), key=lambda one: one.last - one.first)
    own = tuple(
        CodeRule(first=one.first, last=one.last, verdict=StepVerdict(one.verdict), label=one.label) for one in ranges
    )
    others = {key: StepVerdict(table[key]) for key in _OTHERS if key in table}
    return structs.replace(below, rules=(*own, *below.rules), **others)


def code_faults(table: Any, path: KeyPath) -> Iterator[Fault]:
    """Yield what is wrong with a table of codes, or with the name of one."""
    if isinstance(table, str):
        if table not in NAMED:
            yield path, f'there is no map of codes "{table[:64]}"', suggest(table, list(NAMED))
        return
    for key, value in table_of(table).items():
        yield from _entry_faults(key, value, (*path, key))
    yield from _overlaps(list(_ranges(table_of(table))), path)


def _entry_faults(key: str, value: Any, path: KeyPath) -> Iterator[Fault]:
    found = _RANGE.match(key)
    if key == "base":
        if value not in (*NAMED, "none"):
            yield path, f"{_quoted(value)} is no map of codes", f"known are {', '.join((*NAMED, 'none'))}"
    elif found is None and key not in _OTHERS:
        known = suggest(key, [*_OTHERS, "base"])
        yield path, 'a code such as 3, a range such as "64-78", or a word belongs here', known
    elif found is not None and int(found[2] or found[1]) > _LAST:
        yield path, "exit codes go from 0 to 255", None
    elif found is not None and int(found[2] or found[1]) < int(found[1]):
        yield path, "the range ends before it begins", f'did you mean "{found[2]}-{found[1]}"?'
    else:
        yield from _verdict_faults(value, path, labelled=found is not None)


def _verdict_faults(value: Any, path: KeyPath, *, labelled: bool) -> Iterator[Fault]:
    if labelled and is_table(value):
        table = value
        for key in table.keys() - {"verdict", "label"}:
            yield (*path, key), "there is no such key here", suggest(key, ["verdict", "label"])
        label = table.get("label", "x")
        if not isinstance(label, str) or not 0 < len(label) <= _LABEL_LENGTH:
            yield (*path, "label"), "a text of 1 to 256 characters belongs here", None
        value = table.get("verdict")
    if value not in _VERDICTS:
        hint = suggest(value, _VERDICTS) if isinstance(value, str) else f"known are {', '.join(_VERDICTS)}"
        yield path, f"{_quoted(value)} does not say what follows", hint


def _ranges(table: Mapping[str, Any]) -> Iterator[_Range]:
    """Yield the rules of a table that can be read."""
    for key, value in table.items():
        found = _RANGE.match(key)
        if found is None:
            continue
        entry = value if is_table(value) else {"verdict": value}
        yield _Range(int(found[1]), int(found[2] or found[1]), str(entry.get("verdict")), entry.get("label"))


def _overlaps(ranges: list[_Range], path: KeyPath) -> Iterator[Fault]:
    """Yield pairs of ranges of which neither lies within the other: which one is meant cannot be known."""
    ordered = sorted(ranges, key=lambda one: (one.first, -one.last))
    for number, one in enumerate(ordered):
        for other in ordered[number + 1 :]:
            same = (one.first, one.last) == (other.first, other.last)
            if same or one.first < other.first <= one.last < other.last:
                key = f"{other.first}-{other.last}" if other.last > other.first else str(other.first)
                yield (*path, key), f"it overlaps with {one.first}-{one.last}", "let one lie within the other"


def _quoted(value: object) -> str:
    return f'"{value[:64]}"' if isinstance(value, str) else str(value)[:64]
