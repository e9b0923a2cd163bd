"""A store of transcripts with its log of signals and its filler, over any journal."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from lifebus_adapters.app_server.reader import Observed, SignalSeen
from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Journal
from lifebus_broker.signals.log import SignalLog, StoredSignal
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.transcripts.filler import TranscriptFiller
from lifebus_supervisor.transcripts.session_marks import SessionMarks
from lifebus_supervisor.transcripts.store import TranscriptStore
from support.adapters.app_server_recordings import read_messages
from support.patience import PATIENCE_S

T = TypeVar("T")

MIB = 1_048_576
ADAPTER = "codex"


class Directory:
    """Knows the sessions that a test names."""

    def __init__(self, *sessions: str) -> None:
        self.sessions = set(sessions)

    async def knows(self, session_id: str) -> bool:
        return session_id in self.sessions


class Clock:
    """Milliseconds that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_795_297_000_000

    def __call__(self) -> int:
        return self.now_ms


class Box:
    """A store over a journal; `events` are the deltas that were published, in order."""

    def __init__(
        self, journal: Journal, log: SignalLog, marks: SessionMarks, sessions: Sequence[str], *, keeps: bool
    ) -> None:
        self.journal, self.log, self.marks, self.clock = journal, log, marks, Clock()
        self.directory = Directory(*sessions)
        self.store = TranscriptStore(journal, log, marks, self.directory, keeps=keeps, now_ms=self.clock)
        self.filler = TranscriptFiller(self.store, log)
        self.events: list[dict[str, Any]] = []
        self.numbers: list[int] = []
        self._observed = 0
        log.listen(self._on_signals)

    def _on_signals(self, adapter_id: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        if adapter_id == "lifebus":
            assert thread.startswith("transcript/")
            assert {one.event_type for one in signals} == {"transcript_updated"}
            self.events += [json.loads(one.signal) for one in signals]
            self.numbers += [one.sequence for one in signals]

    async def observe(self, observed: Sequence[Observed]) -> None:
        """Record signals as the observer of an app-server has them recorded."""
        seen = [_Seen(one.thread or "", one.event_type, one.signal) for one in observed if isinstance(one, SignalSeen)]
        self._observed += 1
        await self.log.record("o", self._observed, ADAPTER, seen)

    async def say(self, *messages: Any, fill: bool = True) -> None:
        """Record what an app-server says, each time as one that is new; and fill the transcripts."""
        await self.observe(read_messages(*messages))
        if fill:
            await self.filler.fill_all()

    async def entries(self, session: str = "t1") -> list[TranscriptEntry]:
        return [one.entry for one in await self.store.read(session)]


class _Seen(msgspec.Struct, frozen=True):
    thread: str
    event_type: str
    signal: bytes


async def box_over(
    journal: Journal,
    *sessions: str,
    keeps: bool = True,
    signals: Journal | None = None,
    epoch: str = "e1",
    keep_bytes: int = 64 * MIB,
) -> Box:
    log = await SignalLog.open(signals or journal, epoch=epoch, keep_bytes=keep_bytes)
    return Box(journal, log, await SessionMarks.open(journal), sessions, keeps=keeps)


@asynccontextmanager
async def transcript_box(*sessions: str, keeps: bool = True) -> AsyncGenerator[Box]:
    ledger = await open_unkept()
    try:
        yield await box_over(ledger.journal, *sessions, keeps=keeps)
    finally:
        await ledger.aclose()


async def until_read(read: Callable[[], Awaitable[T]], holds: Callable[[T], object]) -> T:
    """What is read once it is as it should be; transcripts are filled beside whoever asks."""
    found = await read()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds(found):
                await asyncio.sleep(0.01)
                found = await read()
    except TimeoutError:
        raise AssertionError(f"still {found!r} after {PATIENCE_S:g} s") from None
    return found


def entry(message_id: str = "m1", **changes: Any) -> TranscriptEntry:
    """An entry as somebody upserts it."""
    given: dict[str, Any] = {"turn_id": "u1", "role": EntryRole.SYSTEM, "type": "note", "content": "text"}
    status = EntryStatus(changes.pop("status", "complete"))
    return TranscriptEntry(message_id=message_id, status=status, **given | changes)
