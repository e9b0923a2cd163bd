"""YAML settings; not yet."""

from typing import Any

from lifebus_supervisor.installing.refusals import SettingsConflict

__all__ = ["YamlText"]


class YamlText:
    """Refuses."""

    value: Any = None

    def __init__(self, text: str | None, name: str) -> None:
        del text
        raise SettingsConflict(name, "YAML is not handled yet")

    def without(self, cuts: Any, puts: Any) -> str | None:
        """Nothing."""
        del cuts, puts
        return None

    def with_added(self, entries: Any) -> str:
        """Nothing."""
        del entries
        return ""
