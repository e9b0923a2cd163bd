"""The transcripts of a broker: every change is one append of what there is now and of the event that tells of it.

See docs/transcripts.md.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_broker.ledger.records import error_of, find_stream
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_broker.signals.log import SignalLog
from lifebus_contract.jobs import ADAPTER, Suggestion
from lifebus_contract.transcripts import (
    TRANSCRIPT_THREAD,
    TRANSCRIPT_UPDATED,
    SequencedEntry,
    TranscriptDelta,
    TranscriptEntry,
    TranscriptInfo,
    TranscriptPage,
    TranscriptUpdated,
    no_session,
    session_deleted,
)
from lifebus_supervisor.transcripts.loaded import LoadedTranscript, LoadedTranscripts
from lifebus_supervisor.transcripts.ports import SessionDirectory
from lifebus_supervisor.transcripts.records import (
    STREAM,
    EntriesDropped,
    EntriesPut,
    Filled,
    StoredEntry,
    SuggestionPut,
    TranscriptRecord,
    decode_record,
    encode_record,
    parts_of,
    transcript_stream,
)
from lifebus_supervisor.transcripts.rules.merging import check_size, entry_size, merged
from lifebus_supervisor.transcripts.session_marks import SessionKind, SessionMarks
from lifebus_supervisor.transcripts.state import TranscriptState

_APPEND_BYTES: Final = 4 * 1_048_576
_SLACK_BYTES: Final = 262_144


class TranscriptChanges(Struct, frozen=True, kw_only=True):
    """What is to be recorded of a transcript in one append.

    `filled` is what is known of its filling afterwards, None where that does not change.  `beside` are records of other
    streams, which are durable together with it, and `told` further signals, which are published then.
    """

    entries: tuple[StoredEntry, ...] = ()
    filled: Filled | None = None
    suggestion: Suggestion | None = None
    beside: tuple[NewRecord, ...] = ()
    told: tuple[NewRecord, ...] = ()


class TranscriptStore:
    """Reads and writes transcripts.

    `keep_bytes` of 0 keeps nothing: entries are in memory while there is room, their events are live only.
    """

    def __init__(
        self,
        journal: Journal,
        signals: SignalLog,
        marks: SessionMarks,
        directory: SessionDirectory,
        *,
        keeps: bool,
        now_ms: Callable[[], int],
    ) -> None:
        self.marks = marks
        self.on_growth: Callable[[int], None] = lambda _: None
        self.keeps = keeps
        self._journal = journal
        self._signals = signals
        self._directory = directory
        self._loaded = LoadedTranscripts(journal)
        self.now_ms = now_ms

    async def upsert(
        self, session_id: str, entry: TranscriptEntry, beside: Sequence[NewRecord] = ()
    ) -> TranscriptEntry:
        """Merge an entry into the one with its message id, and return the result once it is durable.

        What changes nothing is not recorded and no event tells of it.  `beside` are records of other streams, which are
        durable together with it, and also where it changes nothing.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``; ``too_large``.
            LifebusError: it cannot be made durable now.
        """
        check_size(entry)
        await self.require(session_id)

        def decide(state: TranscriptState) -> TranscriptChanges:
            known = state.get(entry.message_id)
            now = merged(None if known is None else known.entry, entry)
            check_size(now)
            changed = () if known is not None and known.entry == now else (state.place(now),)
            return TranscriptChanges(entries=changed, beside=tuple(beside))

        async with self._loaded.use(session_id) as loaded:
            await self._change(loaded, decide(loaded.state))
            stored = loaded.state.get(entry.message_id)
        # Only a transcript of 16 MiB whose one new entry is the oldest could have dropped it at once.
        return entry if stored is None else stored.entry

    async def change(
        self, session_id: str, decide: Callable[[TranscriptState], TranscriptChanges]
    ) -> TranscriptChanges:
        """Record what is decided by how a transcript stands; return it once it is durable.

        Raises:
            StateConflict: ``session_deleted``.
            LifebusError: it cannot be made durable now.
        """
        async with self._loaded.use(session_id) as loaded:
            changes = decide(loaded.state)
            await self._change(loaded, changes)
            return changes

    async def page(self, session_id: str, after: int = 0, limit: int = 64, max_bytes: int = 196_608) -> TranscriptPage:
        """Return the entries of a transcript behind a sequence.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: the journal cannot be read.
        """
        await self.require(session_id)
        async with self._loaded.use(session_id) as loaded:
            # Read while nobody changes the transcript: `through` and the entries are of one moment.
            through = await self._signals.threads(ADAPTER, TRANSCRIPT_THREAD + session_id)
            found = [one for one in loaded.state if one.sequence > after]
            info = self._info(loaded)
        chosen: list[SequencedEntry] = []
        for one in found:
            max_bytes -= entry_size(one.entry)
            if chosen and (len(chosen) >= limit or max_bytes < 0):
                break
            chosen.append(SequencedEntry(one.sequence, one.entry))
        return TranscriptPage(
            info=info,
            entries=tuple(chosen),
            next=chosen[-1].sequence if len(chosen) < len(found) else None,
            through=max((one.head for one in through), default=0),
        )

    async def read(self, session_id: str) -> list[StoredEntry]:
        """Return all entries of a transcript, none of a deleted session.

        Raises:
            LifebusError: the journal cannot be read.
        """
        async with self._loaded.use(session_id) as loaded:
            return list(loaded.state)

    async def entry(self, session_id: str, message_id: str) -> TranscriptEntry | None:
        """Return an entry as it is now, None where there is none.

        Raises:
            StateConflict: ``session_deleted``.
            LifebusError: the journal cannot be read.
        """
        if self.marks.kind_of(session_id) is SessionKind.DELETED:
            raise session_deleted(session_id)
        async with self._loaded.use(session_id) as loaded:
            stored = loaded.state.get(message_id)
        return None if stored is None else stored.entry

    async def suggestion(self, session_id: str, request_key: str) -> Suggestion | None:
        """Return how a suggested request stands, None where there is none.

        Raises:
            LifebusError: the journal cannot be read.
        """
        async with self._loaded.use(session_id) as loaded:
            return loaded.state.suggestions.get(request_key)

    async def filled(self, session_id: str) -> Filled:
        """Return up to where a transcript is filled.

        Raises:
            LifebusError: the journal cannot be read.
        """
        async with self._loaded.use(session_id) as loaded:
            return loaded.state.filled

    async def filled_on_record(self, session_id: str) -> Filled:
        """Return the same without having the transcript in memory: its newest record says it.

        Raises:
            LifebusError: the journal cannot be read.
        """
        stream = transcript_stream(session_id)
        tip = await find_stream(self._journal, stream)
        if tip is None:
            return {}
        page = await self._journal.read(stream, max(tip.head - 1, tip.floor), 1)
        return decode_record(page.records[-1].body).filled if page.records else {}

    async def session_ids(self) -> list[str]:
        """Return the sessions that have a transcript, or had one and were deleted, by name.

        Raises:
            LifebusError: the journal cannot be read.
        """
        streams = await self._journal.streams(STREAM)
        kept = {one.stream.removeprefix(STREAM) for one in streams if one.head > one.floor}
        return sorted(kept | self._loaded.session_ids() | set(self.marks.deleted()))

    async def info(self, session_id: str) -> TranscriptInfo:
        """Return how a transcript stands, also that of a deleted session.

        Raises:
            InvalidRequest: ``no_session``.
            LifebusError: the journal cannot be read.
        """
        if self.marks.kind_of(session_id) is SessionKind.DELETED:
            return TranscriptInfo(session_id=session_id, deleted_at=self.marks.deleted_at(session_id))
        await self.require(session_id)
        async with self._loaded.use(session_id) as loaded:
            return self._info(loaded)

    def is_told(self, session_id: str) -> bool:
        """Return whether events tell of a session: it is not deleted, and does not belong to a worker of the broker."""
        return self.marks.kind_of(session_id) is SessionKind.USER

    def is_workers(self, session_id: str) -> bool:
        """Return whether a session belongs to a worker of the broker."""
        return self.marks.kind_of(session_id) is SessionKind.SYSTEM

    async def delete(self, session_id: str) -> None:
        """Drop everything of a session and remember for good that it was deleted; again, it changes nothing.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        # First the mark: where the drop does not come after it, the deletion comes again, and with it the drop.
        await self.marks.mark_deleted(session_id, self.now_ms())
        async with self._loaded.use(session_id) as loaded:
            await self._journal.drop(transcript_stream(session_id), max(loaded.head, 1))
            await self._signals.forget(ADAPTER, TRANSCRIPT_THREAD + session_id)
            loaded.state = TranscriptState()
            self._loaded.forget(session_id)

    async def shrink(self, session_id: str, size: int) -> None:
        """Drop the oldest entries of a transcript, so that at most this many bytes are kept.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        async with self._loaded.use(session_id) as loaded:
            if through := loaded.state.oldest(size):
                await self._write(loaded, [self._dropped(loaded.state, through)])
            await self._compact(loaded)

    async def require(self, session_id: str) -> None:
        """Check that a session is known and not deleted.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: the journal cannot be read.
        """
        match self.marks.kind_of(session_id):
            case SessionKind.DELETED:
                raise session_deleted(session_id)
            case SessionKind.SYSTEM:
                return
            case _:
                pass
        if self._loaded.has(session_id) or await find_stream(self._journal, transcript_stream(session_id)) is not None:
            return
        if not await self._directory.knows(session_id):
            raise no_session(session_id)

    def _info(self, loaded: LoadedTranscript) -> TranscriptInfo:
        state = loaded.state
        return TranscriptInfo(
            session_id=loaded.session_id,
            entries=len(state),
            size=state.size,
            dropped=state.dropped,
            updated_at=state.updated_at,
            system_owned=self.marks.kind_of(loaded.session_id) is SessionKind.SYSTEM,
        )

    async def _change(self, loaded: LoadedTranscript, changes: TranscriptChanges) -> None:
        """Record changes, and their events with them; then drop what is too much."""
        session_id, state = loaded.session_id, loaded.state
        # Asked again behind the lock: the deletion may have come while somebody waited for it.
        if self.marks.kind_of(session_id) is SessionKind.DELETED:
            raise session_deleted(session_id)
        if changes == TranscriptChanges():
            return
        filled = state.filled if changes.filled is None else changes.filled
        records: list[TranscriptRecord] = []
        if through := state.excess(changes.entries):
            records.append(self._dropped(state, through))
        at_ms = self.now_ms()
        records += [EntriesPut(at_ms=at_ms, entries=part, filled=filled) for part in parts_of(changes.entries) or [()]]
        if changes.suggestion is not None:
            records.append(SuggestionPut(at_ms=at_ms, suggestion=changes.suggestion, filled=filled))
        events = [(TRANSCRIPT_UPDATED, _event(session_id, one.entry)) for one in changes.entries]
        signals = self._signals.new_records(ADAPTER, TRANSCRIPT_THREAD + session_id, events)
        await self._write(loaded, records, [*signals, *changes.told], changes.beside)
        if not self.keeps:
            await self._forget_events(session_id)
        elif loaded.size > 2 * state.size + _SLACK_BYTES:
            await self._compact(loaded)

    def _dropped(self, state: TranscriptState, through: int) -> EntriesDropped:
        count = state.dropped + state.count_through(through)
        return EntriesDropped(at_ms=self.now_ms(), through=through, count=count, filled=state.filled)

    async def _compact(self, loaded: LoadedTranscript) -> None:
        """Write down how a transcript stands and drop the records before it; a part of it may come twice."""
        if not self.keeps:
            return
        state, before = loaded.state, loaded.head
        # A crash in between leaves records that say the same twice, in the same order.
        written: list[TranscriptRecord] = []
        if state.dropped:
            first = next((one.sequence for one in state), state.last + 1)
            written.append(
                EntriesDropped(at_ms=state.updated_at or 0, through=first - 1, count=state.dropped, filled=state.filled)
            )
        at_ms, filled = state.updated_at or 0, state.filled
        parts = parts_of(tuple(state)) or [()]
        written += [EntriesPut(at_ms=at_ms, entries=part, filled=filled) for part in parts]
        kept = state.suggestions.values()
        written += [SuggestionPut(at_ms=at_ms, suggestion=one, filled=filled) for one in kept]
        size = loaded.size
        for record in written:
            await self._write(loaded, [record])
        await self._journal.drop(transcript_stream(loaded.session_id), before)
        loaded.size -= size

    async def _forget_events(self, session_id: str) -> None:
        thread = TRANSCRIPT_THREAD + session_id
        for tip in await self._signals.threads(ADAPTER, thread):
            await self._signals.drop_through(ADAPTER, thread, tip.head)

    async def _write(
        self,
        loaded: LoadedTranscript,
        records: Sequence[TranscriptRecord],
        signals: Sequence[NewRecord] = (),
        beside: Sequence[NewRecord] = (),
    ) -> None:
        """Append, and take the records in with the commit; the next use waits for that, whoever gives up here."""
        refused: list[Refusal] = []
        stream = transcript_stream(loaded.session_id)
        bodies = [encode_record(one) for one in records] if self.keeps else []
        size = sum(map(len, bodies))

        def done(result: list[Record] | Refusal) -> None:
            if isinstance(result, Refusal):
                refused.append(result)
            else:
                for record in records:
                    loaded.state.apply(record)
                loaded.size += size
                loaded.head = max([loaded.head, *(one.number for one in result if one.stream == stream)])
                self.on_growth(size)
            loaded.end_change()

        new = [*(NewRecord(stream, body) for body in bodies), *beside]
        refusal = self._signals.append_beside(self._journal, new, signals, done)
        if refusal is not None:
            raise error_of(refusal)
        await loaded.begin_change().wait()
        if refused:
            raise error_of(refused[0])


def _event(session_id: str, entry: TranscriptEntry) -> bytes:
    delta = TranscriptDelta(
        thread_id=session_id, turn_id=entry.turn_id, message_id=entry.message_id, type=entry.type, entry=entry
    )
    return msgspec.json.encode(TranscriptUpdated(thread_id=session_id, payload=delta))
