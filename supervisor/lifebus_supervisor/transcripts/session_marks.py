"""Which sessions were deleted, and which belong to the broker's own workers: known to every door, for good."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Protocol, Self

import msgspec
from msgspec import Struct

from lifebus_broker.ledger.records import append_records, pages_of
from lifebus_broker.ports import Journal, NewRecord, Record
from lifebus_contract import InvalidRequest
from lifebus_contract.transcripts import session_deleted

_STREAM: Final = "session-marks"


class SessionKind(StrEnum):
    """What a session is to those who may see it."""

    USER = "user"
    SYSTEM = "system"
    """It belongs to a worker of the broker: its transcript can be read and written, and no event tells of it."""
    DELETED = "deleted"
    """Nothing of it is kept, nothing is taken, and no event tells of it."""


class SessionKinds(Protocol):
    """Who knows what sessions are (fulfilled by `SessionMarks`)."""

    def kind_of(self, session_id: str) -> SessionKind:
        """Return what a session is; one that nobody marked is a user's."""
        ...


class _Marked(Struct, frozen=True, array_like=True):
    session_id: str
    at_ms: int
    kind: SessionKind


class SessionMarks:
    """The marks of sessions, all of them in memory once `load` has returned."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._system: set[str] = set()
        self._deleted: dict[str, int] = {}

    @classmethod
    async def open(cls, journal: Journal) -> Self:
        """Return the marks that a journal has.

        Raises:
            LifebusError: the journal cannot be read.
        """
        marks = cls(journal)
        await marks.load()
        return marks

    async def load(self) -> None:
        """Read the marks that the journal has.

        Raises:
            LifebusError: the journal cannot be read.
        """
        async for page in pages_of(self._journal, _STREAM):
            self._apply(page.records)

    def kind_of(self, session_id: str) -> SessionKind:
        """Return what a session is; one that nobody marked is a user's."""
        if session_id in self._deleted:
            return SessionKind.DELETED
        return SessionKind.SYSTEM if session_id in self._system else SessionKind.USER

    def deleted_at(self, session_id: str) -> int | None:
        """Return when a session was deleted, in milliseconds since the epoch; None where it was not."""
        return self._deleted.get(session_id)

    def deleted(self) -> Iterable[tuple[str, int]]:
        """Return the deleted sessions, each with when that was."""
        return self._deleted.items()

    async def mark_deleted(self, session_id: str, at_ms: int) -> None:
        """Record that a session was deleted; the first time counts.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        if session_id not in self._deleted:
            await self._write(_Marked(session_id, at_ms, SessionKind.DELETED))

    async def mark_system(self, session_id: str, at_ms: int) -> None:
        """Record that a session belongs to a worker of the broker; durable before the session is used.

        Raises:
            StateConflict: ``session_deleted``.
            LifebusError: it cannot be made durable now.
        """
        if not session_id or not session_id.isprintable():
            raise InvalidRequest("a session's id is not empty and can be printed", code="bad_identifier")
        if session_id in self._deleted:
            raise session_deleted(session_id)
        if session_id not in self._system:
            await self._write(_Marked(session_id, at_ms, SessionKind.SYSTEM))

    async def _write(self, marked: _Marked) -> None:
        await append_records(self._journal, [NewRecord(_STREAM, msgspec.msgpack.encode(marked))], self._apply)

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            marked = msgspec.msgpack.decode(record.body, type=_Marked)
            if marked.kind is SessionKind.DELETED:
                self._deleted.setdefault(marked.session_id, marked.at_ms)
            else:
                self._system.add(marked.session_id)
