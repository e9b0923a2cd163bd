"""Fills transcripts from the signals of app-servers, in rounds: each signal once, also across a restart.

What is durable of a transcript says up to which signal it is filled, in the same append as what followed from that
signal.  So a filler that starts again goes on behind it, and text that came in pieces is there once.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import structlog

from lifebus_broker.ports import NewRecord
from lifebus_broker.signals.log import SignalLog, SignalSlice, StoredSignal
from lifebus_contract import LifebusError
from lifebus_contract.jobs import ADAPTER
from lifebus_supervisor.transcripts.records import FilledThrough, StoredEntry
from lifebus_supervisor.transcripts.rules.filling import filled
from lifebus_supervisor.transcripts.rules.merging import entry_size
from lifebus_supervisor.transcripts.session_marks import SessionKind
from lifebus_supervisor.transcripts.state import TranscriptState
from lifebus_supervisor.transcripts.store import TranscriptChanges, TranscriptStore

ROUND_S: Final = 0.1
"""Seconds between two rounds: text that comes in pieces is one change of its entry in each."""

_READ: Final = 256
_APPEND_BYTES: Final = 2 * 1_048_576
_MAX_WAITING: Final = 4_096

_log = structlog.get_logger("lifebus.transcripts")

Beside = Callable[[str, str, Sequence[StoredSignal]], Sequence[NewRecord]]
"""Returns what else is to be recorded of signals of an adapter's session, in one append with their transcript."""


class TranscriptFiller:
    """Follows a log of signals; `run` must run for anything to be filled."""

    def __init__(
        self,
        store: TranscriptStore,
        signals: SignalLog,
        *,
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.beside: Beside = _nothing_beside
        self.after_change: Callable[[], None] = lambda: None
        self.after_fill: Callable[[str, str], None] = lambda _, __: None
        self.lost = 0
        self._store = store
        self._signals = signals
        self._pause = pause or _pause
        self._waiting: dict[tuple[str, str], int] = {}
        self._came = anyio.Event()
        self._overlooked = False
        signals.listen(self._on_signals)

    async def run(self) -> None:
        """Fill transcripts until cancelled; first what came while no filler ran."""
        await self._find_unfilled()
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            await self.fill_all()
            # A round sooner would find the journal as it is; and text in pieces is worth to be gathered.
            await self._pause()

    async def fill_all(self) -> None:
        """Fill every transcript that has new signals; one that cannot be filled now is tried in the next round."""
        waiting, self._waiting = self._waiting, {}
        for (adapter_id, thread), first in waiting.items():
            try:
                await self.fill(adapter_id, thread, first)
            except LifebusError as fault:
                if self._store.marks.kind_of(thread) is SessionKind.USER:
                    _log.warning("transcripts.not_filled", thread=thread, detail=fault.detail)
                    self._wait_for(adapter_id, thread, first)
            except Exception:  # noqa: BLE001  a defect of ours costs this transcript, not everybody's broker
                _log.exception("transcripts.not_filled", thread=thread)
        if self._overlooked:
            self._overlooked = False
            await self._find_unfilled()

    async def fill(self, adapter_id: str, thread: str, first: int = 1) -> None:
        """Fill a transcript up to the newest signal; `first` is the first one that this filler was told of.

        Raises:
            LifebusError: not now.
        """
        is_read = False
        while not is_read:
            if self._store.marks.kind_of(thread) is not SessionKind.USER:
                return
            after = await self._filled_through(adapter_id, thread, first)
            page = await self._signals.read(adapter_id, thread, after, _READ)
            if page.snapshot_required:
                self.lost += page.next - after
                page = await self._signals.read(adapter_id, thread, page.next, _READ)
            await self._take_in(adapter_id, thread, after, page)
            if page.signals:
                self.after_fill(adapter_id, thread)
            is_read = page.complete

    async def _filled_through(self, adapter_id: str, thread: str, first: int) -> int:
        """Return behind which signal filling goes on."""
        known = (await self._store.filled(thread)).get(adapter_id)
        if known is not None and known.epoch == self._signals.epoch:
            return known.number
        # Where nothing is kept, what came before this filler is known to nobody, and was told already.
        return 0 if self._store.keeps else first - 1

    async def _take_in(self, adapter_id: str, thread: str, after: int, page: SignalSlice) -> None:
        rest, torn = list(page.signals), bool(page.signals) and page.signals[0].sequence > after + 1
        while rest:
            batch = await self._take_batch(adapter_id, thread, rest, torn=torn)
            rest, torn = rest[batch:], False
            self.after_change()

    async def _take_batch(self, adapter_id: str, thread: str, signals: list[StoredSignal], *, torn: bool) -> int:
        """Take in the first signals, as many as one append has room for; return how many those are."""
        taken = len(signals)

        def decide(state: TranscriptState) -> TranscriptChanges:
            nonlocal taken
            known = state.filled.get(adapter_id)
            if known is not None and known.epoch == self._signals.epoch and known.number >= signals[0].sequence:
                # Somebody else has filled it meanwhile: what is taken in already is not taken in again.
                taken = sum(one.sequence <= known.number for one in signals)
                return TranscriptChanges()
            entries = filled(state, [one.signal for one in signals[:taken]], torn=torn)
            while taken > 1 and _size(entries) > _APPEND_BYTES:
                taken //= 2
                entries = filled(state, [one.signal for one in signals[:taken]], torn=torn)
            through = FilledThrough(self._signals.epoch, signals[taken - 1].sequence)
            beside = tuple(self.beside(adapter_id, thread, signals[:taken]))
            return TranscriptChanges(entries=entries, filled={**state.filled, adapter_id: through}, beside=beside)

        await self._store.change(thread, decide)
        return taken

    async def _find_unfilled(self) -> None:
        """Find the threads that have signals behind what is known of their transcripts."""
        if not self._store.keeps:
            return
        for adapter_id, thread, head in await self._signals.kept_threads():
            known = None if not _is_filled(adapter_id, thread) else await self._store.filled_on_record(thread)
            if known is None:
                continue
            through = known.get(adapter_id)
            if through is None or through.epoch != self._signals.epoch or through.number < head:
                self._wait_for(adapter_id, thread, 1)

    def _on_signals(self, adapter_id: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        if _is_filled(adapter_id, thread):
            self._wait_for(adapter_id, thread, signals[0].sequence)

    def _wait_for(self, adapter_id: str, thread: str, first: int) -> None:
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.setdefault((adapter_id, thread), first)
        else:
            # Found again in the log: what waits is bounded, whatever comes.
            self._overlooked = True
        self._came.set()


def _is_filled(adapter_id: str, thread: str) -> bool:
    """Whether a thread of signals is a session's; the process itself has the empty name."""
    return adapter_id != ADAPTER and thread != ""


def _nothing_beside(_: str, __: str, ___: Sequence[StoredSignal]) -> Sequence[NewRecord]:
    return ()


def _size(entries: Sequence[StoredEntry]) -> int:
    return sum(entry_size(one.entry) for one in entries)


async def _pause() -> None:
    await anyio.sleep(ROUND_S)
