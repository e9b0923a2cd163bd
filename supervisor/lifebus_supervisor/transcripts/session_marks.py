"""Which sessions were deleted, and which belong to the broker's own workers: known to every door, for good."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, Protocol, Self

import anyio.to_thread
import msgspec
from msgspec import Struct

from lifebus_broker.ledger.records import append_records, pages_of
from lifebus_broker.ports import Journal, NewRecord, Record
from lifebus_broker.state.sealed import NewItems, SealedInMemory, SealedItems
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

    def changes(self, known: "_Marked | None") -> bool:
        """Whether it changes what a session is: a deleted one stays so, and the first time counts."""
        return known is None or (known.kind, self.kind) == (SessionKind.SYSTEM, SessionKind.DELETED)


_DECODER: Final = msgspec.msgpack.Decoder(_Marked)


class SessionMarks:
    """The marks of sessions, all of them known once `load` has returned."""

    def __init__(self, journal: Journal, new_items: NewItems = SealedInMemory) -> None:
        """Begin with nothing; the marks, which come to more and more, are kept where `new_items` keeps them."""
        self._journal = journal
        self._new_items = new_items
        self._marked: SealedItems = SealedInMemory()

    @classmethod
    async def open(cls, journal: Journal) -> Self:
        """Return the marks that a journal has, kept in memory.

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
        self._marked = await anyio.to_thread.run_sync(self._new_items)
        async for page in pages_of(self._journal, _STREAM):
            self._apply(page.records)

    def kind_of(self, session_id: str) -> SessionKind:
        """Return what a session is; one that nobody marked is a user's."""
        marked = self._get(session_id)
        return SessionKind.USER if marked is None else marked.kind

    def deleted_at(self, session_id: str) -> int | None:
        """Return when a session was deleted, in milliseconds since the epoch; None where it was not."""
        marked = self._get(session_id)
        return marked.at_ms if marked is not None and marked.kind is SessionKind.DELETED else None

    def deleted(self) -> Iterator[str]:
        """Yield the deleted sessions; none may be marked meanwhile."""
        marked = (_DECODER.decode(body) for _, body in self._marked.in_order())
        return (one.session_id for one in marked if one.kind is SessionKind.DELETED)

    def _get(self, session_id: str) -> _Marked | None:
        found = self._marked.get((_STREAM, session_id))
        return None if found is None else _DECODER.decode(found)

    async def mark_deleted(self, session_id: str, at_ms: int) -> None:
        """Record that a session was deleted; the first time counts.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        if self.kind_of(session_id) is not SessionKind.DELETED:
            await self._write(_Marked(session_id, at_ms, SessionKind.DELETED))

    async def mark_system(self, session_id: str, at_ms: int) -> None:
        """Record that a session belongs to a worker of the broker; durable before the session is used.

        Raises:
            StateConflict: ``session_deleted``.
            LifebusError: it cannot be made durable now.
        """
        if not session_id or not session_id.isprintable():
            raise InvalidRequest("a session's id is not empty and can be printed", code="bad_identifier")
        kind = self.kind_of(session_id)
        if kind is SessionKind.DELETED:
            raise session_deleted(session_id)
        if kind is SessionKind.USER:
            await self._write(_Marked(session_id, at_ms, SessionKind.SYSTEM))

    async def _write(self, marked: _Marked) -> None:
        await append_records(self._journal, [NewRecord(_STREAM, msgspec.msgpack.encode(marked))], self._apply)

    def _apply(self, records: Sequence[Record]) -> None:
        found: dict[str, _Marked] = {}
        for record in records:
            marked = _DECODER.decode(record.body)
            if marked.changes(found.get(marked.session_id) or self._get(marked.session_id)):
                found[marked.session_id] = marked
        self._marked.put(((_STREAM, name), msgspec.msgpack.encode(one)) for name, one in found.items())
