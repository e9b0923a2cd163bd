"""Payloads that no harness sends, made from those it does.  Deterministic."""

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

NOT_OBJECTS: Final = (
    b"",
    b" ",
    b"null",
    b"true",
    b"7",
    b'"text"',
    b"[]",
    b"[{}]",
    b"\xff\xfe",
    b"{]",
    b"\x00",
    b"{}{}",
)
"""What is no JSON object."""

STRANGE: Final = (
    b"1e999",
    b"NaN",
    b"-0.0",
    b"1" * 400,
    b"9007199254740993",
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\xff"',
    b"[" * 60 + b"]" * 60,
    b'{"a":' * 60 + b"1" + b"}" * 60,
    b"[" * 20_000 + b"]" * 20_000,
    b'{"a":1,"a":2}',
    b"[" + b"0," * 70_000 + b"0]",
)
"""Raw JSON values, some of which are none."""

_WRONG: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**53,
    2**70,
    1.5,
    "",
    "\x00\x1b[31m",
    "x" * 5_000,
    [],
    [[[]]],
    {},
    {"a": {"b": None}},
)
_CUTS: Final = 12
# A payload with a conversation in it has thousands of places.
_MAX_PLACES: Final = 64


def truncations(data: bytes) -> Iterator[bytes]:
    """Yield beginnings of the data, some short, some nearly whole."""
    ends = {len(data) * part // _CUTS for part in range(_CUTS)} | {len(data) - 1, 1}
    yield from (data[:end] for end in sorted(ends))


def mutations(payload: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield copies of the payload with one thing wrong, each with where: another value, or none."""
    for path in list(_paths(payload, ()))[:_MAX_PLACES]:
        where = ".".join(path)
        yield where, _without(payload, path)
        for wrong in _WRONG:
            yield where, _with(payload, path, wrong)


def is_map(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether plain JSON data is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether plain JSON data is an array."""
    return isinstance(value, list)


def renamed(value: Any, old: str, new: str) -> Any:
    """Return a copy in which every text that is exactly `old` is `new`."""
    if is_map(value):
        return {key: renamed(child, old, new) for key, child in value.items()}
    if is_list(value):
        return [renamed(child, old, new) for child in value]
    return new if value == old else value


def _paths(node: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if is_map(node):
        for key, child in node.items():
            yield (*above, key)
            yield from _paths(child, (*above, key))


def _with(node: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**node, key: _with(node[key], tuple(rest), value) if rest else value}


def _without(node: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    key, *rest = path
    if rest:
        return {**node, key: _without(node[key], tuple(rest))}
    return {name: child for name, child in node.items() if name != key}
