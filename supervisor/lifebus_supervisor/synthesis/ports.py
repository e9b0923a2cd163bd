"""What synthesised events need from outside."""

from collections.abc import Sequence
from typing import Any, Protocol

from lifebus_contract.extensions import EmitResult


class EventSink(Protocol):
    """Who hands events to handlers and returns what came of them: the dispatcher of extensions."""

    async def emit(self, event_type: str, payload: dict[str, Any]) -> Sequence[EmitResult]:
        """Return the results of every handler, none where there is no handler."""
        ...


class NobodyListens:
    """A sink without handlers."""

    async def emit(self, event_type: str, payload: dict[str, Any]) -> Sequence[EmitResult]:  # noqa: ARG002  a port
        """Return no results."""
        return ()
