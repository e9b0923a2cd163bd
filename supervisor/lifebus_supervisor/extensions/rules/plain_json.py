"""Plain JSON values, told apart by their types.  Pure."""

from collections.abc import Sequence
from typing import Any, cast


def as_object(value: Any) -> dict[str, Any]:
    """Return an object as it is, an empty one for whatever else it is."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return a list as it is, an empty one for whatever else it is."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()
