"""Transcripts of sessions (docs/transcripts.md)."""

from lifebus._internal.connection import Connection
from lifebus_contract.transcripts import (
    SequencedEntry,
    TranscriptEntry,
    TranscriptInfo,
    TranscriptPage,
)
from lifebus_transports.messages.transcripts import (
    ShowTranscript,
    TranscriptInfos,
    TranscriptsQuery,
    UpsertedEntry,
    UpsertEntry,
)


class Transcripts:
    """The transcripts of a broker; every call is bounded by `timeout` seconds.

    To follow one: `page`, then ``bus.signals(adapter="lifebus", thread="transcript/" + session_id, since=…)`` behind
    the page's `through`.
    """

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def upsert(self, session_id: str, entry: TranscriptEntry) -> TranscriptEntry:
        """Merge an entry into the one of its message id; return it as it is then, once that is durable.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``: nobody has heard of the session; ``too_large``.
            LifebusError: it was refused, or no answer came.
        """
        body = UpsertEntry(session_id=session_id, entry=entry)
        answer = await self._connection.ask("transcript_upsert", body, UpsertedEntry, timeout=self._timeout)
        return answer.entry

    async def page(self, session_id: str, after: int = 0, limit: int = 64) -> TranscriptPage:
        """Return entries of a transcript in their order, those behind a sequence.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = ShowTranscript(session_id=session_id, after=after, limit=limit)
        return await self._connection.ask("transcript_show", body, TranscriptPage, timeout=self._timeout)

    async def entries(self, session_id: str) -> list[TranscriptEntry]:
        """Return all entries of a transcript that are kept, in their order.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        found: list[SequencedEntry] = []
        after: int | None = 0
        while after is not None:
            page = await self.page(session_id, after, 256)
            found += page.entries
            after = page.next
        return [one.entry for one in found]

    async def info(self, session_id: str) -> TranscriptInfo:
        """Return how a transcript stands; of a deleted session, when that was.

        Raises:
            InvalidRequest: ``no_session``.
            LifebusError: it was refused, or no answer came.
        """
        body = TranscriptsQuery(session_id=session_id)
        answer = await self._connection.ask("transcript_list", body, TranscriptInfos, timeout=self._timeout)
        return answer.transcripts[0]

    async def list(self, *, deleted: bool = False, system_owned: bool = False) -> list[TranscriptInfo]:
        """Return the transcripts that are kept, by session id.

        Raises:
            LifebusError: it was refused, or no answer came.
        """
        found: list[TranscriptInfo] = []
        after: str | None = None
        while True:
            body = TranscriptsQuery(after=after, limit=256, deleted=deleted, system_owned=system_owned)
            answer = await self._connection.ask("transcript_list", body, TranscriptInfos, timeout=self._timeout)
            found += answer.transcripts
            after = answer.next
            if after is None:
                return found
