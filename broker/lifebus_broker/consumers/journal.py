"""Writes the state of a named consumer into the journal.

One write of a consumer is under way at a time; what happens meanwhile goes into the next one.  After a refusal the next
record holds the whole state, so that no later record builds on one that was refused.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from lifebus_broker.consumers.deliveries import DeliveryState
from lifebus_broker.ledger.records import append_records
from lifebus_broker.ports import Journal, NewRecord
from lifebus_broker.state.consumer_state import ConsumerEvicted, WholeState, encode_record
from lifebus_contract import LifebusError
from lifebus_contract.consumers import DeadLetter

CHECKPOINT_RECORDS: Final = 256
"""Records after which the whole state is written and the older ones are dropped."""

TOGETHER_S: Final = 0.01
"""The longest time that an acknowledgement waits for a read of the ledger, to be on record together with its tries."""

_EVERYTHING: Final = 2**53


class _Write:
    """One write: `over` is set when it has ended, `fault` says why it failed."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: LifebusError | None = None


class ConsumerLog:
    """Writes the records of one consumer; `deliveries` returns its state, `records` is how many it has already.

    `tasks` owns the writing.
    """

    def __init__(
        self, name: str, journal: Journal, tasks: TaskGroup, deliveries: Callable[[], DeliveryState], records: int
    ) -> None:
        self._name, self._journal, self._tasks, self._deliveries = name, journal, tasks, deliveries
        self._records = records
        self._next = _Write()
        self._dead_letters: list[NewRecord] = []
        self._requested = self._writing = self._whole = self._ending = self._ended = False
        self._changing = 0
        self._changed = anyio.Event()

    def rewrite(self) -> None:
        """Have the next record hold the whole state."""
        self._whole = True

    def add_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Have the next write hold a dead letter as well."""
        self._dead_letters.append(NewRecord(dead_letter_stream(self._name), msgspec.msgpack.encode(dead_letter)))

    def save_soon(self) -> None:
        """Write what is unsaved, if it is worth a write; nobody waits for it."""
        if self._dead_letters or self._whole or self._deliveries().unsaved:
            self._request()

    @contextmanager
    def change_under_way(self) -> Generator[None]:
        """While receipts are about to be handed out: a write that is asked for waits a moment, and takes them along.

        A consumer acknowledges and asks for more at once: that is one commit then, and not one after the other.
        """
        self._changing += 1
        try:
            yield
        finally:
            self._changing -= 1
            if not self._changing:
                self._changed.set()
                self._changed = anyio.Event()

    async def saved(self) -> None:
        """Return when everything that happened so far is durable.

        Raises:
            LifebusError: it cannot be made durable now; it is tried again with whatever comes next.
        """
        write = self._next  # not the one under way, which may have been put together before the last change
        self._request()
        await write.over.wait()
        if write.fault is not None:
            raise write.fault

    async def end(self) -> None:
        """Delete the consumer and its dead letters, durably.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        self._ending = True
        try:
            await self.saved()
        except LifebusError:
            self._ending = False
            raise
        for stream in (record_stream(self._name), dead_letter_stream(self._name)):
            await self._journal.drop(stream, _EVERYTHING)

    def _request(self) -> None:
        self._requested = True
        if not self._writing:
            self._writing = True
            self._tasks.start_soon(self._run)

    async def _run(self) -> None:
        """Write until nobody asks for it any more."""
        try:
            while self._requested:
                await anyio.lowlevel.checkpoint()  # whoever came with it in one message is heard before
                if self._changing:
                    with anyio.move_on_after(TOGETHER_S):
                        await self._changed.wait()
                self._requested = False
                write, self._next = self._next, _Write()
                write.fault = await self._write()
                write.over.set()
        finally:
            self._writing = False

    async def _write(self) -> LifebusError | None:
        """Write once; return why it failed, None if it did not."""
        if self._ended:
            return None
        ending, whole = self._ending, self._whole or self._records >= CHECKPOINT_RECORDS
        dead_letters, self._dead_letters, self._whole = self._dead_letters, [], False
        body = encode_record(ConsumerEvicted()) if ending else self._body(whole=whole)
        records = [NewRecord(record_stream(self._name), body)] if body is not None else []
        if not records and not dead_letters:
            return None
        try:
            # Dead letters and the progress that settles them are one append: neither is durable without the other.
            written = await append_records(self._journal, [*records, *dead_letters])
            self._ended, self._records = ending, 1 if whole else self._records + 1
            if whole and not ending:
                await self._journal.drop(record_stream(self._name), written[0].number - 1)
        except LifebusError as fault:
            # What was refused is in no record: the next one starts from the whole state.
            self._whole, self._dead_letters = True, dead_letters + self._dead_letters
            return fault
        return None

    def _body(self, *, whole: bool) -> bytes | None:
        """Return the next record, None when there is nothing worth a write."""
        if whole:
            return encode_record(WholeState(self._deliveries().take_state()))
        progress = self._deliveries().take_progress()
        return None if progress is None else encode_record(progress)


def record_stream(name: str) -> str:
    """Return the stream of the journal that holds a consumer's records."""
    return f"cursor/{name}"


def dead_letter_stream(name: str) -> str:
    """Return the stream of the journal that holds a consumer's dead letters."""
    return f"dead-dead_letter/{name}"
