"""What happens to a named consumer, written into the journal.

One note of a consumer is in the air at a time, and what happens meanwhile goes into the next one.  After a refusal the
next note holds everything: one that the journal refused can so never be missed by a later one.
"""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from lifebus_broker.consumers.deliveries import Deliveries
from lifebus_broker.ledger.records import write_notes
from lifebus_broker.ports import Journal, NewRecord
from lifebus_broker.state.consumer_state import Gone, Whole, encode_note
from lifebus_contract import LifebusError
from lifebus_contract.consumers import DeadLetter

CHECKPOINT_NOTES: Final = 256
"""Notes after which the whole state is written and the older ones are dropped."""

_EVERYTHING: Final = 2**53


class _Round:
    """One write, and who waits for it."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: LifebusError | None = None


class ConsumerLog:
    """The notes of one consumer; `deliveries` returns its present state, `notes` is how many it has already.

    `tasks` owns the writing.
    """

    def __init__(
        self, name: str, journal: Journal, tasks: TaskGroup, deliveries: Callable[[], Deliveries], notes: int
    ) -> None:
        self._name, self._journal, self._tasks, self._deliveries = name, journal, tasks, deliveries
        self._notes = notes
        self._round = _Round()
        self._letters: list[NewRecord] = []
        self._asked = self._writing = self._whole = self._ending = self._ended = False

    def rewrite(self) -> None:
        """Have the next note hold the whole state."""
        self._whole = True

    def bury(self, letter: DeadLetter) -> None:
        """Have the next write hold a dead letter as well."""
        self._letters.append(NewRecord(dead_stream(self._name), msgspec.msgpack.encode(letter)))

    def save_soon(self) -> None:
        """Write what is unsaved, if that is anything of weight; nobody waits for it."""
        if self._letters or self._whole or self._deliveries().unsaved:
            self._ask()

    async def saved(self) -> None:
        """Return when everything that happened so far is durable.

        Raises:
            LifebusError: it cannot be made durable now; it is tried again with whatever comes next.
        """
        round_ = self._round
        self._ask()
        await round_.over.wait()
        if round_.fault is not None:
            raise round_.fault

    async def end(self) -> None:
        """Forget the consumer and its dead letters, durably.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._ending = True
        try:
            await self.saved()
        except LifebusError:
            self._ending = False
            raise
        for stream in (note_stream(self._name), dead_stream(self._name)):
            await self._journal.drop(stream, _EVERYTHING)

    def _ask(self) -> None:
        self._asked = True
        if not self._writing:
            self._writing = True
            self._tasks.start_soon(self._run)

    async def _run(self) -> None:
        """Write as long as somebody asks for it."""
        try:
            while self._asked:
                self._asked = False
                round_, self._round = self._round, _Round()
                round_.fault = await self._write()
                round_.over.set()
        finally:
            self._writing = False

    async def _write(self) -> LifebusError | None:
        """Write once; return why it could not be done."""
        if self._ended:
            return None
        ending, whole = self._ending, self._whole or self._notes >= CHECKPOINT_NOTES
        letters, self._letters, self._whole = self._letters, [], False
        body = encode_note(Gone()) if ending else self._body(whole=whole)
        news = [NewRecord(note_stream(self._name), body)] if body is not None else []
        if not news and not letters:
            return None
        try:
            written = await write_notes(self._journal, [*news, *letters])
            self._ended, self._notes = ending, 1 if whole else self._notes + 1
            if whole and not ending:
                await self._journal.drop(note_stream(self._name), written[0].number - 1)
        except LifebusError as fault:
            self._whole, self._letters = True, letters + self._letters
            return fault
        return None

    def _body(self, *, whole: bool) -> bytes | None:
        """Return the next note, None when there is nothing of weight."""
        if whole:
            return encode_note(Whole(self._deliveries().take_state()))
        progress = self._deliveries().take_progress()
        return None if progress is None else encode_note(progress)


def note_stream(name: str) -> str:
    """Return the stream of the journal that holds a consumer's notes."""
    return f"cursor/{name}"


def dead_stream(name: str) -> str:
    """Return the stream of the journal that holds a consumer's dead letters."""
    return f"dead-letter/{name}"
