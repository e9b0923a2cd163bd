"""Lists of tables in the configuration file, checked key by key; an error names its table, key and line."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import Struct

from lifebus_supervisor.configuration.file import FileValue

_NAMED: Final = re.compile(r"`(\w+)`")


def faults_of(item: FileValue, table: str, kind: type[Struct], path: str) -> Iterator[str]:
    """Yield what is wrong with the list of tables `table`, each of which describes a `kind`."""
    tables: Any = item.value
    if not isinstance(tables, list):
        yield f"{_place(path, item.line)}: `{item.key}`: `{table}` is a list of tables; write [[{table}]]"
        return
    for number, entry in enumerate(tables):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  TOML's
        # An inline list of tables has one line for all of them.
        lines = item.lines[number] if number < len(item.lines) else {"": item.line or 0}
        name = f"{item.key}[{number}]"
        if isinstance(entry, dict):
            yield from _faults_in(name, cast("dict[str, Any]", entry), kind, lines, path)
        else:
            yield f"{_place(path, item.line)}: `{name}` is no table"


def _faults_in(name: str, table: dict[str, Any], kind: type[Struct], lines: dict[str, int], path: str) -> Iterator[str]:
    """Yield what is wrong with the keys of one table, or, where they are fine, with how they go together."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    fine = True
    for key, value in table.items():
        fault = _fault_of(key, value, fields)
        if fault is not None:
            fine = False
            yield f"{_place(path, lines.get(key) or lines.get(''))}: {fault.format(f'{name}.{key[:64]}')}"
    for key, field in fields.items():
        if field.required and key not in table:
            fine = False
            yield f"{_place(path, lines.get(''))}: `{name}` lacks `{key}`"
    # Rules between keys would only repeat what is wrong with one of them.
    if not fine:
        return
    try:
        msgspec.convert(table, kind)
    except msgspec.ValidationError as fault:
        about = _NAMED.search(str(fault))
        line = lines.get(about[1]) if about else None
        yield f"{_place(path, line or lines.get(''))}: `{name}`: {fault}"


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the name that was probably meant, if there is one."""
    import difflib  # noqa: PLC0415  only where a name is wrong

    return difflib.get_close_matches(name, known, n=1, cutoff=cutoff)


def _fault_of(key: str, value: Any, fields: dict[str, msgspec.structs.FieldInfo]) -> str | None:
    """Return what is wrong with a key or its value; braces stand for its name."""
    if key not in fields:
        near = nearest_name(key, fields)
        return "unknown key `{}`" + (f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(fields)}")
    try:
        msgspec.convert(value, fields[key].type)
    except msgspec.ValidationError as fault:
        rule = _choices(fields[key].type) or str(fault)
        # The fault is a format string: braces of the user's must not count.
        said = repr(value)[:64].replace("{", "{{").replace("}", "}}")
        return f"`{{}}` is {said}: {rule.replace('{', '{{').replace('}', '}}')}"
    return None


def _choices(kind: Any) -> str | None:
    """Return the words that may stand here, where there are only so many."""
    inner = get_args(kind)
    if inner and all(isinstance(one, str) for one in inner):
        return f"one of {', '.join(inner)}"
    for one in inner:
        if isinstance(one, type) and issubclass(one, Enum):
            return f"a list of {', '.join(str(member.value) for member in one)}"
        if (found := _choices(one)) is not None:
            return found
    return None


def _place(path: str, line: int | None) -> str:
    return f"{path}:{line}" if line else path
