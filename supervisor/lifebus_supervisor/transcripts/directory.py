"""Which sessions have been heard of: by their signals, or by receipts."""

from lifebus_broker.ports import Ledger
from lifebus_broker.routing.registry import Registry
from lifebus_broker.signals.log import SignalLog


class KnownSessions:
    """Answers from the ledger and the log of signals (`SessionDirectory`)."""

    def __init__(self, ledger: Ledger, signals: SignalLog, registry: Registry) -> None:
        self._ledger = ledger
        self._signals = signals
        self._registry = registry

    async def knows(self, session_id: str) -> bool:
        """Return whether an adapter has a signal or a receipt of a session.

        Raises:
            LifebusError: the ledger cannot be read.
        """
        for adapter_id in (one.manifest.adapter_id for one in self._registry.all()):
            if await self._signals.threads(adapter_id, session_id):
                return True
            if await self._ledger.sessions((adapter_id, session_id)):
                return True
        return False
