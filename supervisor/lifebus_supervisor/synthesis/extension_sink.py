"""Synthesised events on their way to extensions."""

from collections.abc import Callable, Sequence
from typing import Any

from lifebus_adapters.app_server.signals import iso_time
from lifebus_contract.extensions import EmitResult, RuntimeEvent
from lifebus_supervisor.extensions.extensions import Extensions


class ExtensionSink:
    """Hands events to the handlers of extensions (`EventSink`)."""

    def __init__(self, extensions: Extensions, now_ms: Callable[[], int]) -> None:
        self._extensions = extensions
        self._now_ms = now_ms

    async def emit(self, event_type: str, payload: dict[str, Any]) -> Sequence[EmitResult]:
        """Return the results of every handler, none where there is no handler."""
        # What the broker before left is due before the extensions are loaded: then nobody would listen yet.
        await self._extensions.loaded.wait()
        event = RuntimeEvent(type=event_type, payload=payload, emitted_at=iso_time(self._now_ms()))
        return await self._extensions.emit(event)
