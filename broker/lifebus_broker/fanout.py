"""Fan-out of committed rows to whoever listens in this process: the receipt door, tests, in-process followers.

Publishing comes after commit and acknowledgement, so what a listener missed is always in the ledger (design 4.1).

Above: bus, daemon.  Below: ports.
"""

from collections.abc import Callable, Sequence

import structlog

from lifebus_broker.ports import Row

__all__ = ["Fanout", "Listener"]

_log = structlog.get_logger("lifebus.fanout")

Listener = Callable[[Sequence[Row]], None]
"""Called on the event loop with the rows of one commit, in position order; must not block."""


class Fanout:
    """The listeners, and which sessions changed since the last beacon."""

    def __init__(self) -> None:
        self.failures = 0
        self._listeners: list[Listener] = []
        self._changed: dict[tuple[str, str], int] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener and return the call that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, rows: Sequence[Row]) -> None:
        """Hand the rows of one commit to every listener; one that fails does not hurt the others."""
        changed = self._changed
        for row in rows:
            if row.sequence is not None and row.harness_session_id is not None:
                changed[row.adapter_id, row.harness_session_id] = row.sequence
        for listener in tuple(self._listeners):
            try:
                listener(rows)
            except Exception:  # noqa: BLE001  a listener is not trusted with the others' receipts
                self.failures += 1
                _log.exception("listener_failed")

    def take_changed(self) -> dict[tuple[str, str], int]:
        """Return the newest sequence of each session that changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed
