"""A journal without a disk: it numbers and keeps notes while the process lives."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from lifebus_broker.ledger.record_batch import NoteDraft, NoteTip, check_notes
from lifebus_broker.ledger.refusals import CLOSED, DISK_FULL
from lifebus_broker.ports import NewRecord, Record, RecordPage, RecordStream, Refusal

MAX_NOTES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of notes that are kept; more are refused as if the disk were full, until some are dropped."""

_NOTE_BYTES: Final = 128
"""What a note costs beside its body, about."""


class MemoryJournal:
    """Implements `ports.Journal` in memory; `now` is the wall clock in seconds since the epoch."""

    def __init__(self, now: Callable[[], float], *, max_bytes: int = MAX_NOTES_BYTES) -> None:
        self._now, self._max_bytes = now, max_bytes
        self._tips: dict[str, NoteTip] = {}
        self._notes: dict[str, deque[Record]] = {}
        self._bytes = 0
        self._closed = False

    def close(self) -> None:
        """Refuse later appends."""
        self._closed = True

    def append(self, notes: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        """Keep the notes at once; `done` is called in the loop's next turn (ports.Journal.append)."""
        refusal = CLOSED if self._closed else check_notes(notes)
        if refusal is not None:
            return refusal
        size = sum(len(note.body) + _NOTE_BYTES for note in notes)
        if self._bytes + size > self._max_bytes:
            return DISK_FULL
        draft = NoteDraft(lambda stream: self._tips.get(stream) or NoteTip(0))
        written = draft.add(notes, int(self._now()))
        self._tips.update(draft.tips)
        for note in written:
            self._notes.setdefault(note.stream, deque()).append(note)
        self._bytes += size
        asyncio.get_running_loop().call_soon(done, written)
        return None

    async def read(self, stream: str, after: int = 0, limit: int = 256, max_bytes: int = 262_144) -> RecordPage:
        """Return kept notes of a stream (ports.Journal.read)."""
        tip = self._tips.get(stream) or NoteTip(0)
        notes: list[Record] = []
        size = 0
        for note in islice(self._notes.get(stream, ()), max(after - tip.floor, 0), None):
            size += len(note.body)
            if notes and (size > max_bytes or len(notes) >= limit):
                break
            notes.append(note)
        last = notes[-1].number if notes else max(after, tip.head)
        return RecordPage(notes=tuple(notes), head=tip.head, floor=tip.floor, complete=last >= tip.head)

    def notes(self, prefix: str) -> Iterator[Record]:
        """Return the kept notes of some streams, as of now (log.LogSource.notes)."""
        names = sorted(name for name in self._notes.copy() if name.startswith(prefix))
        for name in names:
            yield from self._notes[name].copy()

    async def streams(self, prefix: str = "") -> list[RecordStream]:
        """Return the streams whose name begins with `prefix` (ports.Journal.streams)."""
        names = sorted(name for name in self._tips if name.startswith(prefix))
        return [self._tips[name].as_stream(name) for name in names]

    async def drop(self, stream: str, through: int) -> int:
        """Drop the oldest notes of a stream (ports.Journal.drop)."""
        tip = self._tips.get(stream) or NoteTip(0)
        notes = self._notes.get(stream, deque())
        floor, size = tip.floor, tip.size
        while notes and notes[0].number <= through:
            gone = notes.popleft()
            floor, size = gone.number, size - len(gone.body)
            self._bytes -= len(gone.body) + _NOTE_BYTES
        if floor > tip.floor:
            self._tips[stream] = NoteTip(tip.id, tip.head, floor, size, tip.link)
        return floor
