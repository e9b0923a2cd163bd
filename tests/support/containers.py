"""Finds the large containers of a running broker, whoever holds them: what grows shows, also what nobody thought of."""

import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

# What belongs to the interpreter and not to the broker: modules, classes, code, and frames with their locals' history.
_FOREIGN = (types.ModuleType, type, types.CodeType, types.BuiltinFunctionType, types.MethodDescriptorType)
_CACHED: Any = type(functools.cache(len))
_CONTAINERS: Any = (dict, list, set, frozenset, tuple, deque, bytearray)


def large_containers(root: object, least: int) -> dict[str, int]:
    """Return where below `root` a container has `least` entries or more, by the way to it, and how many it has.

    A way is made of attributes and of the types in between: ``Daemon.bus.fanout._changed``.
    """
    found: dict[str, int] = {}
    seen = {id(sys.modules), id(found)}
    waiting: deque[tuple[object, str]] = deque([(root, type(root).__name__)])
    while waiting:
        one, way = waiting.popleft()
        if id(one) in seen or isinstance(one, _FOREIGN):
            continue
        seen.add(id(one))
        size = _size_of(one)
        if size >= least:
            found[way] = max(found.get(way, 0), size)
        waiting.extend(_parts(one, way))
    return found


def endless_caches() -> dict[str, int]:
    """Return how many entries each cache of a function of the product has that keeps everything."""
    found: dict[str, int] = {}
    for name, module in sorted(sys.modules.items()):
        for attribute, value in vars(module).items() if name.startswith("lifebus") else ():
            if isinstance(value, _CACHED) and value.cache_info().maxsize is None:
                found[f"{name}.{attribute}"] = value.cache_info().currsize
    return found


def _size_of(one: Any) -> int:
    """Return how many entries a container has, and 0 for what is none."""
    return len(one) if isinstance(one, _CONTAINERS) else 0


def _parts(one: Any, way: str) -> Iterator[tuple[object, str]]:
    """Yield what an object holds, each with the way to it."""
    names = getattr(one, "__struct_fields__", None)
    if names is not None:
        yield from ((getattr(one, name), f"{way}.{name}") for name in names)
        return
    if _is(one, dict):
        yield from ((part, f"{way}[]") for pair in one.items() for part in pair)
        return
    if isinstance(one, types.FunctionType):
        # Not its globals, which are a module's.
        yield from ((cell, f"{way}>closure") for cell in one.__closure__ or ())
        return
    attributes = getattr(one, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((value, f"{way}.{name}") for name, value in cast("dict[str, Any]", attributes).items())
    for part in gc.get_referents(one):
        if part is not attributes:
            yield part, f"{way}>{type(part).__name__}" if not isinstance(one, _CONTAINERS) else f"{way}[]"


def _is(one: object, kind: type) -> bool:
    """Whether an object is of a kind; unlike `isinstance` it leaves what is known of its type alone."""
    return isinstance(one, kind)
