"""A tailer over the files of harnesses whose polls are waited for as long as a test waits, however busy the machine is.

What a hook's call does not read in time is left to the next poll: rightly so, and then receipts come in another order.
"""

import os
import time
from collections.abc import Mapping, Sequence

from lifebus_adapters.shared.telemetry import SourceSpec, Surroundings
from lifebus_supervisor.tailing.events import FileUpdate, TailLimits
from lifebus_supervisor.tailing.tailer import Tailer
from support.patience import PATIENCE_S


class PatientTailer(Tailer):
    """Tails the sources of adapters; no poll is cut short."""

    def __init__(self, sources: Mapping[str, Sequence[SourceSpec]], surroundings: Surroundings) -> None:
        limits = TailLimits(read_s=PATIENCE_S)
        super().__init__(sources, surroundings, limits=limits, uid=os.geteuid(), now=time.time)

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:
        """Return what is new of one session, however long that takes."""
        return await super().poll_session(adapter_id, session, max(within_s, PATIENCE_S))
