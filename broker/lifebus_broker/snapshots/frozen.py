"""Values that nobody can change: read-only maps and tuples, all the way down (docs/ledger.md, "Snapshots")."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

Frozen: TypeAlias = "str | int | tuple[Frozen, ...] | Mapping[str, Frozen] | None"
"""A plain value without a part that could be changed."""

FrozenMap: TypeAlias = Mapping[str, Frozen]
"""A read-only map of such values."""


def freeze(value: Any) -> Frozen:
    """Return the plain value with read-only maps for maps and tuples for lists; it shares nothing with the original.

    Raises:
        ValueError: a part of it is not plain.
    """
    if value is None or isinstance(value, str | int):
        return value
    if _is_map(value):
        return freeze_map(value)
    if _is_list(value):
        return tuple([freeze(item) for item in value])
    raise ValueError(f"a value of type {type(value).__name__} cannot be frozen")


def freeze_map(value: Mapping[str, Any]) -> FrozenMap:
    """Return a map frozen, as `freeze` does."""
    # A proxy of a new dict: nobody else holds the dict behind it.
    return MappingProxyType({key: freeze(item) for key, item in value.items()})


def thaw(value: Frozen) -> Any:
    """Return the value with plain maps and lists, as encoders want it."""
    if _is_map(value):
        return {key: thaw(item) for key, item in value.items()}
    if _is_list(value):
        return [thaw(item) for item in value]
    return value


def _is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, list | tuple)
