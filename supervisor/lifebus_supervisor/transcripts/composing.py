"""The transcripts of a broker, composed of their parts."""

import time
from typing import Final

from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.ports import Ledger
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_broker.signals.log import SignalLog
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.transcripts.directory import KnownSessions
from lifebus_supervisor.transcripts.endings import SessionEndings
from lifebus_supervisor.transcripts.filler import TranscriptFiller
from lifebus_supervisor.transcripts.quota import TranscriptQuota
from lifebus_supervisor.transcripts.session_marks import SessionMarks
from lifebus_supervisor.transcripts.store import TranscriptStore
from lifebus_supervisor.transcripts.suggestions import Suggestions

_MIB: Final = 1_048_576

# Most bytes of transcripts that are kept where nothing is durable
_UNKEPT_BYTES: Final = 16 * _MIB


class TranscriptParts(Struct, frozen=True, kw_only=True):
    """The parts: the store that everybody asks, what fills, closes and bounds it, and what sessions are."""

    store: TranscriptStore
    filler: TranscriptFiller
    endings: SessionEndings
    suggestions: Suggestions
    quota: TranscriptQuota
    marks: SessionMarks

    async def load(self) -> None:
        """Read what the broker before has left; awaited before the parts are used.

        Raises:
            LifebusError: the journal cannot be read or written.
        """
        await self.marks.load()
        await self.endings.load()

    def start(self, tasks: TaskGroup) -> None:
        """Start what runs beside."""
        tasks.start_soon(self.filler.run)
        tasks.start_soon(self.endings.run)
        tasks.start_soon(self.quota.run)


def compose_transcripts(
    settings: Settings, ledger: Ledger, signals: SignalLog, registry: Registry, fanout: Fanout
) -> TranscriptParts:
    """Make the parts; `load` has to be awaited before they are used."""
    keep = settings.transcripts.keep_mb * _MIB
    if not ledger.capabilities.durable:
        keep = min(keep, _UNKEPT_BYTES)
    marks = SessionMarks(ledger.journal, ledger.new_sealed_items)
    store = TranscriptStore(
        ledger.journal,
        signals,
        marks,
        KnownSessions(ledger, signals, registry),
        keeps=keep > 0,
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    filler = TranscriptFiller(store, signals)
    return TranscriptParts(
        store=store,
        filler=filler,
        endings=SessionEndings(ledger, fanout, store, filler),
        suggestions=Suggestions(store, signals),
        quota=TranscriptQuota(ledger.journal, store, keep),
        marks=marks,
    )
