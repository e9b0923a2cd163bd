"""Sessions of apps that report by themselves, without hooks: supervised only once they have been silent for long.

There may be very many of them, and each may report very often, so nothing is read of a session until it falls silent.
"""

from typing import Final

from lifebus_broker.ports import Ledger
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.supervision.monitor import hooks
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey
from lifebus_supervisor.supervision.monitor_table import MonitorTable

MAX_APPS: Final = 8_192
"""Most sessions of apps that are remembered; of more, those silent for longest are let go."""


UNSUPERVISED: Final = frozenset({FLOW_ADAPTER})
"""Adapters whose sessions nobody has to watch over: this broker runs them itself, and they may wait for as long as
people take."""


class AppSessions:
    """When each session without hooks reported last, the longest silent first.

    `unmonitored` collects the sessions with new receipts and no monitor; the listener of commits fills it.
    """

    def __init__(self, ledger: Ledger, monitors: MonitorTable, silent_s: float) -> None:
        self.unmonitored: dict[SessionKey, None] = {}
        self._ledger = ledger
        self._monitors = monitors
        self._silent_s = silent_s
        self._reported_at: dict[SessionKey, float] = {}

    async def adopt_silent(self, now: float) -> None:
        """Take note of who reported since the last time, and supervise those who fell silent in an open frame."""
        unmonitored, self.unmonitored = self.unmonitored, {}
        for key in unmonitored:
            if key[0] in UNSUPERVISED:
                continue
            self._reported_at.pop(key, None)  # the dictionary's order is that of the last reports
            self._reported_at[key] = now
        while len(self._reported_at) > MAX_APPS:
            del self._reported_at[next(iter(self._reported_at))]
        for key, reported_at in list(self._reported_at.items()):
            if now - reported_at < self._silent_s:
                return  # all that follow have reported later
            del self._reported_at[key]
            await self._adopt(key, reported_at, now)

    async def _adopt(self, key: SessionKey, reported_at: float, now: float) -> None:
        # The ledger's own table of sessions: without an open frame the receipts need not be read at all.
        heads = await self._ledger.sessions(key)
        if not heads or heads[0].ended or not heads[0].open_frames:
            return
        monitor = self._monitors.open(key)
        await self._monitors.refresh(monitor, now)
        monitor.hooks = hooks.on_app(monitor.hooks, hooked=False, now=reported_at)
