"""Transcripts in memory: read from the journal when they are needed, let go when others need the room."""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from lifebus_broker.ledger.records import pages_of
from lifebus_broker.ports import Journal
from lifebus_supervisor.transcripts.records import decode_record, transcript_stream
from lifebus_supervisor.transcripts.state import TranscriptState

MAX_LOADED: Final = 256
"""Most transcripts that are in memory while nobody uses them."""

MAX_LOADED_BYTES: Final = 16 * 1_048_576
"""Most bytes of the entries of transcripts that nobody uses."""


class LoadedTranscript:
    """One transcript in memory.  `head` is the number of its newest record, `size` the bytes of those that are kept."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.state = TranscriptState()
        self.head = self.size = 0
        self.users = 0
        self.is_read = False
        self.lock = anyio.Lock()
        self.changing: anyio.Event | None = None

    def begin_change(self) -> anyio.Event:
        """Keep the transcript in memory, and its next user waiting, until the change that was appended is told."""
        self.changing = anyio.Event()
        self.users += 1
        return self.changing

    def end_change(self) -> None:
        """Take in that the change is durable or refused.  After a failed disk nobody knows, and this never comes."""
        if self.changing is not None:
            self.changing.set()
            self.changing = None
            self.users -= 1


class LoadedTranscripts:
    """The transcripts in memory; each is used by one at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._loaded: OrderedDict[str, LoadedTranscript] = OrderedDict()

    @asynccontextmanager
    async def use(self, session_id: str) -> AsyncGenerator[LoadedTranscript]:
        """Have a transcript for oneself.

        Raises:
            LifebusError: the journal cannot be read.
        """
        found = self._loaded.setdefault(session_id, LoadedTranscript(session_id))
        self._loaded.move_to_end(session_id)
        found.users += 1
        try:
            async with found.lock:
                # Whoever began a change may have been cancelled before its end; the next one has to see it.
                if found.changing is not None:
                    await found.changing.wait()
                if not found.is_read:
                    await self._read(found)
                yield found
        finally:
            found.users -= 1
            self._let_go()

    def session_ids(self) -> set[str]:
        """Return the sessions whose transcripts are in memory and not empty."""
        return {name for name in self._loaded if self.has(name)}

    def has(self, session_id: str) -> bool:
        """Return whether a transcript is in memory and not empty."""
        found = self._loaded.get(session_id)
        return found is not None and bool(len(found.state) or found.state.last)

    def forget(self, session_id: str) -> None:
        """Let go of a transcript that is gone; whoever holds it has it still."""
        self._loaded.pop(session_id, None)

    async def _read(self, found: LoadedTranscript) -> None:
        state, head, size = TranscriptState(), 0, 0
        async for page in pages_of(self._journal, transcript_stream(found.session_id)):
            for record in page.records:
                state.apply(decode_record(record.body))
                size += len(record.body)
            head = page.records[-1].number if page.records else page.head
        found.state, found.head, found.size, found.is_read = state, head, size, True

    def _let_go(self) -> None:
        """Let go of those that were used longest ago, while all together are too large."""
        size = sum(one.state.size for one in self._loaded.values())
        for one in [*self._loaded.values()]:
            if len(self._loaded) <= MAX_LOADED and size <= MAX_LOADED_BYTES:
                return
            if not one.users:
                size -= one.state.size
                del self._loaded[one.session_id]
