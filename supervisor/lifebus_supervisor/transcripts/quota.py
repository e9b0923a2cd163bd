"""Keeps all transcripts together within their bound: the ones written longest ago go first."""

from typing import Final

import anyio
import structlog

from lifebus_broker.ports import Journal
from lifebus_broker.signals.quota import to_drop
from lifebus_contract import LifebusError
from lifebus_supervisor.transcripts.records import STREAM
from lifebus_supervisor.transcripts.store import TranscriptStore

_CHECK_BYTES: Final = 1_048_576

_log = structlog.get_logger("lifebus.transcripts")


class TranscriptQuota:
    """Drops the oldest entries whenever enough new ones came; `run` must run."""

    def __init__(self, journal: Journal, store: TranscriptStore, keep_bytes: int) -> None:
        self._journal = journal
        self._store = store
        self._keep_bytes = keep_bytes
        self._unchecked = self._check_at = max(_CHECK_BYTES, keep_bytes // 32)  # due at once
        self._due = anyio.Event()
        store.on_growth = self._grew

    async def run(self) -> None:
        """Drop what is too much, until cancelled."""
        while True:
            self._due = anyio.Event()  # replaced before the check, so that what comes in during it is not missed
            if self._unchecked >= self._check_at:
                try:
                    await self.enforce()
                except LifebusError as fault:
                    _log.warning("transcripts.quota_not_enforced", detail=fault.detail)
            await self._due.wait()

    async def enforce(self) -> None:
        """Drop until all transcripts together are within the bound.

        Raises:
            LifebusError: the journal cannot be read, or takes no writes now.
        """
        self._unchecked = 0
        # A stream holds superseded records too: the first pass may only have to write it down anew.
        for _ in range(3):
            excess = to_drop(await self._journal.streams(STREAM, kept=True), self._keep_bytes)
            if not excess:
                return
            for stream, through in excess:
                share = (stream.head - through) / max(1, stream.head - stream.floor)
                await self._store.shrink(stream.stream.removeprefix(STREAM), int(stream.bytes * share))

    def _grew(self, size: int) -> None:
        self._unchecked += size
        if self._unchecked >= self._check_at:
            self._due.set()
