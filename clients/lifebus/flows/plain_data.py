"""What a value of TOML is.  Pure."""

from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is a table; its keys are texts."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)


def items_of(value: object) -> list[Any]:
    """Return the elements of a list, and none of anything else."""
    return value if is_list(value) else []


def table_of(value: object) -> dict[str, Any]:
    """Return a table, and an empty one for anything else."""
    return value if is_table(value) else {}
