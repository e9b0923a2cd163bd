"""Adapters by the names that people use for their harnesses."""

from functools import cache
from typing import Any, Final, cast

import msgspec

from lifebus_contract.fields import Document

_NAMING: Final = ("adapter_id", "adapters", "session")
"""The fields of bodies that name adapters: an id, several, or one together with a session."""


def adapter_id_of(name: str) -> str:
    """Return the adapter's id where the name is an alias of a built-in one (docs/contract.md 3.7), else the name."""
    # No alias is one plain word, and most names are: these need not wait until every adapter is imported.
    if name.isalnum():
        return name
    from lifebus_adapters import ALIASES  # noqa: PLC0415

    return ALIASES.get(name, name)


def with_adapter_ids(body: Document) -> Document:
    """Return the body of a verb with ids where it names adapters by an alias; most bodies name none."""
    fields = _naming_fields(type(body))
    # Every call comes here, and the `emit` of most of them has no such field.
    if not fields:
        return body
    changed = {field: value for field in fields if (value := _with_ids(field, given := getattr(body, field))) != given}
    return msgspec.structs.replace(body, **changed) if changed else body


@cache
def _naming_fields(kind: type[Document]) -> tuple[str, ...]:
    return tuple(field for field in _NAMING if field in kind.__struct_fields__)


def _with_ids(field: str, value: Any) -> Any:
    if value is None:
        return None
    if field == "adapters":
        return tuple(adapter_id_of(name) for name in value)
    if field == "adapter_id":
        return adapter_id_of(value)
    # Where the adapter is a field of its own, a session is the harness's id alone.
    if not isinstance(value, tuple):
        return value
    adapter, session = cast("tuple[str, str]", value)
    return adapter_id_of(adapter), session
