"""Closes what a session left open in its transcript when it ended in the middle of a turn.

That a session ended, the ledger says: its app-server died, was stopped, or was never heard of again.  It is durable
about up to which receipt that was looked at, so that a broker which starts again need not look at all of them; and a
transcript that is filled with what came late is looked at again.  Without any transcript nothing of it is done.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

import anyio
import msgspec
import structlog

from lifebus_broker.ledger.records import append_records, find_stream
from lifebus_broker.ports import Ledger, NewRecord, Query, StoredReceipt
from lifebus_broker.routing.fan_out import Fanout
from lifebus_contract import LifebusError, LifecycleEvent
from lifebus_contract.codec import decode_receipt
from lifebus_contract.transcripts import EntryStatus
from lifebus_supervisor.transcripts.filler import TranscriptFiller
from lifebus_supervisor.transcripts.rules.filling import session_ended
from lifebus_supervisor.transcripts.session_marks import SessionKind
from lifebus_supervisor.transcripts.state import TranscriptState
from lifebus_supervisor.transcripts.store import TranscriptChanges, TranscriptStore

STREAM: Final = "transcript-ends"
"""The stream of the journal: its newest record is a position up to which receipts were looked at."""

NOTE_EVERY: Final = 64
"""Ends after which it is written again; so many at most are looked at twice, which changes nothing."""

_AGAIN_S: Final = 1.0
_MAX_LIVE: Final = 4_096
_ENDED: Final = b'"session.ended"'

_log = structlog.get_logger("lifebus.transcripts")

_Session = tuple[str, str]


class SessionEndings:
    """Follows the ledger and the filler; `run` must run for anything to be closed."""

    def __init__(
        self,
        ledger: Ledger,
        fanout: Fanout,
        store: TranscriptStore,
        filler: TranscriptFiller,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._ledger, self._store, self._filler, self._pause = ledger, store, filler, pause
        self._live: set[_Session] = set()
        self._filled: dict[_Session, None] = {}
        self._came = anyio.Event()
        self._has_transcripts = anyio.Event()
        self._cursor = self._unnoted = 0
        self._is_noted = False
        self._fanout = fanout
        filler.after_fill = self._on_filled

    async def load(self) -> None:
        """Read up to which receipt the broker before has looked; awaited before anybody can report an end.

        Raises:
            LifebusError: the journal cannot be read.
        """
        known = await self._store.session_ids() if self._store.keeps else []
        if not known:
            return
        self._begin()
        journal = self._ledger.journal
        stream = await find_stream(journal, STREAM)
        page = await journal.read(STREAM, stream.head - 1, 1) if stream is not None and stream.head else None
        if page is not None and page.records:
            self._cursor = min(msgspec.msgpack.decode(page.records[-1].body, type=int), self._ledger.head)
            self._is_noted = True
            return
        # The broker before had its first transcript, and did not come to write down where it was: each is looked at.
        for name in known:
            for adapter_id in await self._store.filled_on_record(name):
                self._filled[adapter_id, name] = None

    async def run(self) -> None:
        """Close what is left open until cancelled; first what the broker before did not come to."""
        await self._has_transcripts.wait()
        while True:
            self._came = anyio.Event()
            try:
                await self.close_ended()
            except LifebusError as fault:
                _log.warning("transcripts.not_closed", detail=fault.detail)
                await self._pause(_AGAIN_S)
                continue
            except Exception:  # noqa: BLE001  a defect of ours costs what is closed now, not everybody's broker
                _log.exception("transcripts.not_closed")
                await self._pause(_AGAIN_S)
                continue
            await self._came.wait()

    async def close_ended(self) -> None:
        """Close what the sessions left open that have ended by now.

        Raises:
            LifebusError: the ledger or its journal cannot be read or written now.
        """
        async for ends, through in self._ends_after(self._cursor):
            for stored in ends:
                if stored.harness_session_id is not None:
                    await self._close((stored.adapter_id, stored.harness_session_id))
            self._cursor = through
            self._unnoted += len(ends)
        while self._filled:
            # Taken out before: what is filled meanwhile puts it in again.
            session = next(iter(self._filled))
            del self._filled[session]
            try:
                await self._close(session)
            except LifebusError:
                self._filled[session] = None
                raise
        # Behind all that was to be closed: what is noted is not looked at again.
        if self._store.keeps and (self._unnoted >= NOTE_EVERY or not self._is_noted):
            await self._note(self._cursor)

    async def _close(self, session: _Session) -> None:
        """Close what a session left open, if it is over and its transcript is filled from its adapter."""
        adapter_id, name = session
        self._live.discard(session)
        if self._store.marks.kind_of(name) is not SessionKind.USER:
            return
        try:
            await self._close_filled(adapter_id, name)
        except LifebusError as fault:
            if fault.code != "session_deleted":
                raise
        except Exception:  # noqa: BLE001  a defect of ours costs this transcript, not everybody's broker
            _log.exception("transcripts.not_closed", thread=name)

    async def _close_filled(self, adapter_id: str, name: str) -> None:
        if self._store.keeps:
            # What was said before the end is taken in first.
            await self._filler.fill(adapter_id, name)
        if adapter_id not in await self._store.filled(name):
            return
        end = await self._end_of((adapter_id, name))
        if end is None:
            if len(self._live) >= _MAX_LIVE:
                self._live.clear()
            self._live.add((adapter_id, name))
            return
        status, reason = end

        def decide(state: TranscriptState) -> TranscriptChanges:
            return TranscriptChanges(entries=session_ended(state, status, reason))

        # One append has room for some entries only.
        while (await self._store.change(name, decide)).entries:
            pass

    async def _end_of(self, session: _Session) -> tuple[EntryStatus, str] | None:
        """Return as what the entries of a session end and why, None where it is not over."""
        heads = await self._ledger.sessions(session)
        if not heads or not heads[0].ended:
            return None
        newest: StoredReceipt | None = None
        async for ends, _ in self._ends_after(0, session):
            newest = ends[-1] if ends else newest
        return (EntryStatus.ERROR, "the session ended") if newest is None else _how(newest)

    async def _ends_after(
        self, after: int, session: _Session | None = None
    ) -> AsyncGenerator[tuple[Sequence[StoredReceipt], int]]:
        """Yield the ends of a session, or of all, behind a position, page by page, each with where it leads to."""
        complete = False
        while not complete:
            query = Query(session=session, event=LifecycleEvent.SESSION_ENDED, after=after, past_damage=True)
            page = await self._ledger.read(query)
            # Pruned receipts are of sessions that ended long ago.
            complete, after = page.complete, max(page.floor if page.snapshot_required else page.next, after)
            yield page.stored, after

    async def _note(self, position: int) -> None:
        journal = self._ledger.journal
        (record,) = await append_records(journal, [NewRecord(STREAM, msgspec.msgpack.encode(position))])
        self._unnoted, self._is_noted = 0, True
        if record.number > 1:
            await journal.drop(STREAM, record.number - 1)

    def _on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        # A search in the bytes: to decode every receipt would cost each commit far more.
        if any(_ENDED in one.receipt for one in stored):
            self._came.set()

    def _begin(self) -> None:
        """Look at receipts from now on: there is a transcript."""
        self._cursor = self._ledger.head
        self._fanout.listen(self._on_commit)
        self._has_transcripts.set()

    def _on_filled(self, adapter_id: str, thread: str) -> None:
        if not self._has_transcripts.is_set():
            # What ended before is found by its transcript, which is looked at now.
            self._begin()
        if (adapter_id, thread) not in self._live:
            self._filled[adapter_id, thread] = None
            self._came.set()


_ORDERLY: Final = frozenset({"completed", "closed"})
"""Ends of a session that are no failure of it."""


def _how(stored: StoredReceipt) -> tuple[EntryStatus, str]:
    """Return as what entries end and why, by the receipt of the end."""
    facts = decode_receipt(stored.receipt).telemetry_summary
    status = EntryStatus.CANCELED if facts.get("session_end") in _ORDERLY else EntryStatus.ERROR
    evidence = facts.get("evidence")
    return status, "the session ended" + (f": {evidence}" if isinstance(evidence, str) and evidence else "")
