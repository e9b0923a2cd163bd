"""Fan-out of committed receipts to whoever listens in this process: the receipt publisher, tests, in-process followers.

Receipts are published after commit and acknowledgement, so what a listener missed is always in the ledger
(docs/ledger.md D1).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from lifebus_broker.ports import StoredReceipt

T = TypeVar("T")

_log = structlog.get_logger("lifebus.fanout")

Listener = Callable[[Sequence[StoredReceipt]], None]
"""Called on the event loop with the receipts of one commit, in position order; must not block."""

TransientListener = Callable[[StoredReceipt], None]
"""Called on the event loop with one receipt that no ledger keeps; must not block."""


class Fanout:
    """The listeners, and which sessions changed since the last beacon.

    Transient receipts have listeners of their own: no ledger holds them, and they must not look like a gap in one
    (docs/contract.md 2.6).  `transient` counts them, `failures` the listeners' faults.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.transient = 0
        self._listeners: list[Listener] = []
        self._transient: list[TransientListener] = []
        self._changed: dict[tuple[str, str], int] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener and return the call that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def listen_transient(self, listener: TransientListener) -> Callable[[], None]:
        """Add a listener to transient receipts and return the call that removes it."""
        self._transient.append(listener)
        return lambda: self._transient.remove(listener)

    def publish_transient(self, stored: StoredReceipt) -> None:
        """Hand a receipt that no ledger keeps, of position 0, to those who listen to such."""
        self.transient += 1
        for listener in tuple(self._transient):
            self._call(listener, stored)

    def publish(self, stored: Sequence[StoredReceipt]) -> None:
        """Hand the receipts of one commit to every listener; one that fails does not hurt the others."""
        # Only the newest sequence of each session: the beacon says how far a session is, not what happened.
        changed = self._changed
        for receipt in stored:
            if receipt.sequence is not None and receipt.harness_session_id is not None:
                changed[receipt.adapter_id, receipt.harness_session_id] = receipt.sequence
        for listener in tuple(self._listeners):  # a copy: a listener may remove itself
            self._call(listener, stored)

    def take_changed(self) -> dict[tuple[str, str], int]:
        """Return the newest sequence of each session that changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def _call(self, listener: Callable[[T], None], argument: T) -> None:
        """Call a listener; an exception of its own reaches nobody else."""
        try:
            listener(argument)
        except Exception:  # noqa: BLE001  one that fails does not hurt the others
            self.failures += 1
            _log.exception("listener_failed")
