"""The kinds of checkpoints that commands know, by their names; each is loaded when it is used."""

from importlib import import_module
from typing import Final

from lifebus.checkpoints.kinds import CheckpointKind
from lifebus_contract import InvalidRequest

_HOMES: Final = {"loa.checkpoint": ("lifebus.loa.checkpoint", "LOA_CHECKPOINT")}

DEFAULT_KIND: Final = "loa.checkpoint"
"""The kind that is meant where none is named."""

KIND_NAMES: Final = tuple(_HOMES)
"""The names of all kinds."""


def find_kind(name: str) -> CheckpointKind:
    """Return a kind by its name.

    Raises:
        InvalidRequest: there is none of that name.
    """
    if name not in _HOMES:
        detail = f"$.kind: there is no kind of checkpoint `{name[:64]}`; known are {', '.join(_HOMES)}"
        raise InvalidRequest(detail, code="unknown_kind", field="$.kind")
    module, attribute = _HOMES[name]
    found: CheckpointKind = getattr(import_module(module), attribute)
    return found
