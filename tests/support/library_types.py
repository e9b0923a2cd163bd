"""What the page of the library says of types: a type in a few words, the fields of a struct, their limits and defaults.

The page has to be the same under every Python, so that nothing here uses the text that Python itself makes of a type.
"""

import ast
import inspect
import re
import textwrap
import tokenize
import types
import typing
from collections.abc import Iterator, Sequence
from enum import Enum
from io import StringIO
from itertools import zip_longest
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

_LARGEST: Final = 2**53 - 1
_HIDDEN: Final = re.compile(r"(^|\s+)(noqa|type:|pragma).*")


def shown(hint: Any) -> str:
    """Return a type as one writes it, without limits."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return shown(arguments[0])
    if origin in {Union, types.UnionType}:
        return " | ".join(dict.fromkeys(shown(one) for one in arguments))
    if origin is Literal:
        return " | ".join(repr(one).replace("'", '"') for one in arguments)
    if origin is not None:
        inner = ", ".join("..." if one is ... else _bracketed(one) for one in arguments)
        return f"{_name(origin)}[{inner}]"
    return _name(hint)


def _bracketed(hint: Any) -> str:
    return f"[{', '.join(shown(one) for one in hint)}]" if isinstance(hint, list) else shown(hint)


def _name(hint: Any) -> str:
    if hint in {None, type(None)}:
        return "None"
    return hint if isinstance(hint, str) else str(getattr(hint, "__name__", hint))


def limits(hint: Any) -> str:
    """Return what a field may be beside its type: a range of numbers, a number of entries or characters."""
    for part in (hint, *get_args(hint)):
        for meta in getattr(part, "__metadata__", ()):
            if meta.le is not None and meta.le < _LARGEST:
                return f"{meta.ge:,} to {meta.le:,}"
            if meta.max_length is not None and get_origin(part.__origin__) is not None:
                return f"at most {meta.max_length:,} entries"
    return ""


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct | Enum]]:
    """Yield our own structs and enums that a type mentions."""
    if isinstance(hint, list):
        for one in hint:
            yield from structs_in(one)
    for one in get_args(hint):
        yield from structs_in(one)
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct | Enum) and hint.__module__.startswith("lifebus"):
        yield hint


def field_rows(kind: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """Return the rows of a table of a struct's fields: name, type, default, meaning."""
    hints, said = get_type_hints(kind, include_extras=True), comments(kind)
    return [
        (f"`{one.name}`", f"`{shown(hints[one.name])}`", default_of(one), _meaning(said.get(one.name), hints[one.name]))
        for one in msgspec.structs.fields(kind)
    ]


def _meaning(said: str | None, hint: Any) -> str:
    return "; ".join(filter(None, (said, limits(hint))))


def table(rows: Sequence[tuple[str, ...]], heads: tuple[str, ...] = ("field", "type", "default", "meaning")) -> str:
    """Return a table in Markdown, without its last column where that is empty."""
    width = len(heads) if any(row[-1] for row in rows) else len(heads) - 1
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line[:width]) + " |" for line in lines)


def default_of(one: msgspec.structs.FieldInfo) -> str:
    """Return the default of a field, or that there is none."""
    if one.required:
        return "required"
    value = one.default if one.default is not msgspec.NODEFAULT else one.default_factory()
    if value is msgspec.UNSET:
        return "left out"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return f"`{value!r}`".replace("'", '"') if isinstance(value, str | int | float | None) else "empty"


def comments(kind: type) -> dict[str, str]:
    """Return what is said of each field or value: the comment beside it, or the text below it."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("lifebus"):
            found |= _said_in(textwrap.dedent(inspect.getsource(one)))
    return found


def _said_in(text: str) -> dict[str, str]:
    (definition,) = ast.parse(text).body
    if not isinstance(definition, ast.ClassDef):
        raise TypeError("only classes have fields")
    beside = {token.start[0]: token.string[1:].strip() for token in _tokens(text)}
    found = {}
    for statement, below in zip_longest(definition.body, definition.body[1:]):
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            said = _HIDDEN.sub("", beside.get(statement.end_lineno or 0, ""))
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                said = " ".join(str(below.value.value).split())
            if said:
                found[ast.unparse(target)] = said
    return found


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return (one for one in tokenize.generate_tokens(StringIO(text).readline) if one.type == tokenize.COMMENT)


def hints_of(function: Any) -> dict[str, Any]:
    """Return the types of what a function takes and returns; those that only a checker can load are left out."""
    try:
        return get_type_hints(function)
    except NameError:
        return {}


def overloads_of(function: Any) -> list[Any]:
    """Return the forms in which a function may be called: its overloads, or itself."""
    return list(typing.get_overloads(function)) or [function]
