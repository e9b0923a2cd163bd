"""Apps that report by themselves, without hooks: found again only when they have been silent for long.

There may be very many of them, and each may report very often, so nothing is read of a session until it falls silent.
"""

from typing import Final

from lifebus_broker.ports import Ledger
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.session_monitor import Key

MAX_APPS: Final = 8_192
"""Most sessions of apps that are kept in mind; of more, those silent for longest are let go."""


class Apps:
    """When each session without hooks was heard last, the longest silent first."""

    def __init__(self, ledger: Ledger, watches: MonitorTable, silent_s: float) -> None:
        self.strangers: dict[Key, None] = {}
        self._ledger = ledger
        self._watches = watches
        self._silent_s = silent_s
        self._heard: dict[Key, float] = {}

    async def look(self, now: float) -> None:
        """Note who was heard since the last look, and put those under supervision who fell silent in an open frame."""
        strangers, self.strangers = self.strangers, {}
        for key in strangers:
            self._heard.pop(key, None)
            self._heard[key] = now
        while len(self._heard) > MAX_APPS:
            del self._heard[next(iter(self._heard))]
        for key, heard in list(self._heard.items()):
            if now - heard < self._silent_s:
                return
            del self._heard[key]
            await self._adopt(key, heard, now)

    async def _adopt(self, key: Key, heard: float, now: float) -> None:
        heads = await self._ledger.sessions(key)
        if not heads or heads[0].ended or not heads[0].open_frames:
            return
        watch = self._watches.open(key)
        await self._watches.refresh(watch, now)
        watch.app, watch.heard_at = True, heard
