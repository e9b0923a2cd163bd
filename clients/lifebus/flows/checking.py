"""Tables of a flow file checked key by key: every mistake is found, not only the first.  Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from lifebus.flows.plain_data import is_list, is_table, items_of, table_of
from lifebus.flows.tables import SYNONYMS
from lifebus.flows.toml_lines import KeyPath

Fault = tuple[KeyPath, str, str | None]
"""Where a mistake is, what it is, and what was probably meant."""

_TYPES: Final = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def faults_in(table: Mapping[str, Any], kind: type[Struct], path: KeyPath = ()) -> Iterator[Fault]:
    """Yield what is wrong with the keys and values of a table, and of the tables in it."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        if key in fields:
            yield from _value_faults(value, fields[key].type, (*path, key))
        else:
            yield (*path, key), "there is no such key here", suggest(key, list(fields))
    for key, field in fields.items():
        if field.required and key not in table:
            yield path, f"`{key}` is missing", f"it is {_rule(field.type)}"


def suggest(word: str, known: Sequence[str]) -> str:
    """Return what was probably meant, or what there is."""
    meant = SYNONYMS.get(word.lower().replace("-", "_"))
    if meant in known:
        return f"did you mean `{meant}`?"
    near = difflib.get_close_matches(word.lower().replace("-", "_"), known, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"


def _value_faults(value: Any, kind: Any, path: KeyPath) -> Iterator[Fault]:
    inner = _plain(kind)
    if isinstance(inner, type) and issubclass(inner, Struct):
        if is_table(value):
            yield from faults_in(value, inner, path)
        else:
            yield path, f"a table belongs here, not {_shown(value)}", f"write [{_dotted(path)}]"
    elif (table := _table_of(inner)) is not None:
        yield from _list_faults(value, kind, table, path)
    else:
        yield from _scalar_faults(value, kind, path)


def _list_faults(value: Any, kind: Any, table: type[Struct], path: KeyPath) -> Iterator[Fault]:
    """Yield what is wrong with a list of tables."""
    if not is_list(value):
        yield path, f"a list of tables belongs here, not {_shown(value)}", f"write [[{_dotted(path)}]]"
        return
    if not _fits_length(value, kind):
        yield path, f"{_rule(kind)} belongs here, not one of {len(value)}", None
    for number, one in enumerate(value):
        if is_table(one):
            yield from faults_in(one, table, (*path, number))
        else:
            yield (*path, number), f"a table belongs here, not {_shown(one)}", None


def _scalar_faults(value: Any, kind: Any, path: KeyPath) -> Iterator[Fault]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        # In a list the wrong element is shown, and in a table the wrong entry, not the whole.
        element, entry = _element_kind(kind), _entry_kind(kind)
        choices = _choices(kind)
        if is_list(value) and element is not None and _fits_length(value, kind):
            for number, one in enumerate(value):
                yield from _scalar_faults(one, element, (*path, number))
        elif is_table(value) and entry is not None and _fits_length(value, kind):
            for key, one in value.items():
                yield from _scalar_faults(key, entry[0], (*path, key))
                yield from _scalar_faults(one, entry[1], (*path, key))
        elif choices and isinstance(value, str):
            yield path, f"{_shown(value)} is none of {', '.join(choices)}", _nearest(value, choices)
        else:
            yield path, f"{_rule(kind)} belongs here, not {_shown(value)}", _special(path, value)


def _special(path: KeyPath, value: Any) -> str | None:
    """Return what helps with a usual mistake."""
    match path[-1], value:
        case "command", str():
            return "for a line that a shell reads, write `shell`"
        case (("needs" | "artifacts" | "arguments" | "pass_env" | "suggested_actions"), str()):
            return f'write ["{value[:64]}"]'
        case (("time_limit" | "grace" | "first" | "longest" | "time"), int()) if not isinstance(value, bool):
            return f'write "{value}s" for {value} seconds'
        case _:
            return None


def _nearest(word: str, choices: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(word.lower(), choices, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else None


def _rule(kind: Any) -> str:
    """Return what belongs here, in words."""
    meta = _meta(kind)
    if meta is not None and meta.description:
        return meta.description
    if choices := _choices(kind):
        return f"one of {', '.join(choices)}"
    return _TYPES.get(get_origin(_plain(kind)) or _plain(kind), "another value")


def _plain(kind: Any) -> Any:
    """Return the type without what may be said about it and without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    args = [one for one in get_args(kind) if one is not type(None)]
    if type(None) in get_args(kind) and len(args) == 1:
        return _plain(args[0])
    return kind


def _meta(kind: Any) -> Meta | None:
    if get_origin(kind) is Annotated:
        return next((one for one in get_args(kind)[1:] if isinstance(one, Meta)), None)
    if type(None) in get_args(kind):
        return next((found for one in get_args(kind) if (found := _meta(one)) is not None), None)
    return None


def _choices(kind: Any) -> tuple[str, ...]:
    inner = _plain(kind)
    return get_args(inner) if get_origin(inner) is Literal else ()


def _element_kind(kind: Any) -> Any:
    """Return of which kind the elements of a list are; None for what is none, or may be anything."""
    inner = _plain(kind)
    found = get_args(inner)[0] if get_origin(inner) is tuple else None
    return None if found is Any else found


def _entry_kind(kind: Any) -> tuple[Any, Any] | None:
    """Return of which kinds the keys and values of a table are; None for what is none."""
    inner = _plain(kind)
    if get_origin(inner) is not dict:
        return None
    key, value = get_args(inner)
    return key, value


def _table_of(kind: Any) -> type[Struct] | None:
    element = _element_kind(kind)
    return element if isinstance(element, type) and issubclass(element, Struct) else None


def _fits_length(items: Sized, kind: Any) -> bool:
    meta = _meta(kind)
    most = None if meta is None else meta.max_length
    return (0 if meta is None else meta.min_length or 0) <= len(items) <= (len(items) if most is None else most)


def _shown(value: Any) -> str:
    """Return a value as it may be quoted in a sentence."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 64 else f"{text[:60]}…"  # noqa: PLR2004  as much as fits into a line


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def phase_name(phases: object, number: int) -> str:
    """Return by which name a phase is shown: its own, or its number from 1."""
    name = table_of(items_of(phases)[number]).get("name") if number < len(items_of(phases)) else None
    return name[:64] if isinstance(name, str) and name else str(number + 1)
