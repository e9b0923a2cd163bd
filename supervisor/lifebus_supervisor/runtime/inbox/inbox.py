"""The inbox: every question that waits for a person, and the newest settled ones; durable in the journal.

A question is asked once, however often `ask` is called with its id, and is settled once: by an answer, or by whoever
asked it.  There is no time limit; without an answer it stays open.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import anyio
import msgspec
import structlog
from msgspec import Struct

from lifebus_broker.ledger.records import append_records, error_of, find_stream, pages_of
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError, StateConflict
from lifebus_contract.questions import Question, QuestionAnswer, QuestionInfo
from lifebus_supervisor.runtime.inbox.answers import (
    check_answer,
    check_open,
    check_same,
    checked_form,
    checked_question,
)
from lifebus_supervisor.runtime.inbox.records import (
    InboxRecord,
    QuestionAnswered,
    QuestionAsked,
    QuestionState,
    QuestionWithdrawn,
    WholeQuestion,
    apply,
    encode_record,
    reduce_question,
)

STREAMS: Final = "question/"
"""What the names of the questions' streams begin with."""

MAX_OPEN: Final = 10_000
"""Most questions that wait at once."""

MAX_SETTLED: Final = 4_096
"""Most settled questions that are kept; beyond that those settled first are forgotten."""

CHECKPOINT_RECORDS: Final = 64
"""Records of one question after which its whole state is written and the older ones are dropped."""

Listener = Callable[[QuestionInfo], None]
"""Called on the event loop with a question that was asked, answered or withdrawn, once that is durable."""

_log = structlog.get_logger("lifebus.inbox")


class _Entry(Struct):
    """One question: its state, None until it is durable, and how many records it has; `queued` are not written yet.

    `deciding` is there while a record is on its way that asks or settles it.
    """

    state: QuestionState | None = None
    records: int = 0
    queued: int = 0
    deciding: anyio.Event | None = None


class Inbox:
    """Asks, answers and withdraws questions.  `clock` returns wall-clock milliseconds."""

    def __init__(self, journal: Journal, clock: Callable[[], int]) -> None:
        self._journal, self._clock = journal, clock
        self._entries: dict[str, _Entry] = {}
        self._open: set[str] = set()
        self._listeners: list[Listener] = []
        self._observers: list[Callable[[str], None]] = []

    async def open(self) -> None:
        """Read every question from the journal.

        Raises:
            LifebusError: the journal cannot be read, or holds records that this program does not know.
        """
        for stream in await self._journal.streams(STREAMS):
            # A stream whose records were all dropped is that of a forgotten question.
            if stream.head == stream.floor:
                continue
            records = await self._read(stream.stream)
            try:
                state = reduce_question(records)
            except msgspec.DecodeError as fault:
                raise InternalError(
                    f"the records of `{stream.stream[:80]}` cannot be read: {fault}; did a newer lifebus write them?",
                    code="ledger_damaged",
                ) from fault
            if state is not None:
                self._entries[state.question.question_id] = _Entry(state, len(records))
                self._mark(state)
        self._order_settled()

    def listen(self, listener: Listener) -> None:
        """Add a listener, called with every question that is asked or settled from now on; it must not block."""
        self._listeners.append(listener)

    def observe(self, observer: Callable[[str], None]) -> None:
        """Add an observer, called with the id of a question after every record of it; it must not block."""
        self._observers.append(observer)

    def get(self, question_id: str) -> QuestionInfo | None:
        """Return a question, None if there is none of this id, or it was settled long ago."""
        state = self.state(question_id)
        return None if state is None else state.info()

    def require(self, question_id: str) -> QuestionInfo:
        """Return a question.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return self._require(question_id)[1].info()

    def questions(self, *, open_only: bool = True) -> list[QuestionInfo]:
        """Return the questions in the order in which they were asked."""
        states = (self.state(name) for name in (self._open if open_only else self._entries))
        known = [state for state in states if state is not None]
        return [state.info() for state in sorted(known, key=_asking_order)]

    @property
    def open_count(self) -> int:
        """How many questions wait for an answer."""
        return len(self._open)

    @property
    def failing_count(self) -> int:
        """How many notifications of open questions have failed and are tried again."""
        states = (self.state(name) for name in self._open)
        return sum(one.failures > 0 for state in states if state is not None for one in state.channels.values())

    def state(self, question_id: str) -> QuestionState | None:
        """Return how a question stands, as the deliveries see it."""
        entry = self._entries.get(question_id)
        return None if entry is None else entry.state

    def states(self) -> Iterator[QuestionState]:
        """Yield how each question stands."""
        return (entry.state for entry in [*self._entries.values()] if entry.state is not None)

    async def ask(self, question: Question, also: Sequence[NewRecord] = ()) -> QuestionInfo:
        """Ask a person, and return the question once it is durable; asked again, a question is not asked twice.

        `also` are records that are written in the same atomic append; they are written only where the question is new.
        Cancelling the caller does not undo it.

        Raises:
            StateConflict: another question has this id, or it was settled so long ago that its answer is forgotten.
            InvalidRequest: it is too large, or breaks the contract.
            BrokerBusy: too many questions are open.
            LifebusError: it cannot be made durable now; nothing was written.
        """
        question = checked_question(question)
        name = question.question_id
        if name not in self._entries:
            await self._refuse_forgotten(name)
        while True:
            # Found anew each time: an entry whose first write failed is gone.
            entry = self._entries.setdefault(name, _Entry())
            if entry.deciding is None:
                break
            await entry.deciding.wait()
        if entry.state is not None:
            check_same(entry.state, question)
            return entry.state.info()
        try:
            if len(self._open) >= MAX_OPEN:
                raise BrokerBusy(f"{MAX_OPEN} questions are open; answer some", code="busy")
            return await self._decide(entry, name, QuestionAsked(question, self._clock()), also)
        finally:
            if entry.state is None and entry.deciding is None:
                self._entries.pop(name, None)

    async def answer(self, question_id: str, answer: QuestionAnswer) -> QuestionInfo:
        """Settle a question by a person's answer, and return it once that is durable.

        Exactly the same answer, its time included, may come again: it is the same one.

        Raises:
            StateConflict: it is settled already; the text says by whom, when and how.
            InvalidRequest: there is no such question, or it does not allow this answer.
            LifebusError: it cannot be made durable now; nothing was written.
        """
        answer = checked_form(answer)
        entry, state = await self._undecided(question_id)
        if state.answer == answer:
            return state.info()
        check_open(state)
        check_answer(state.question, answer)
        return await self._decide(entry, question_id, QuestionAnswered(answer, self._clock()))

    async def withdraw(self, question_id: str) -> QuestionInfo:
        """Settle a question without an answer, because nobody needs one any more; a second time changes nothing.

        Raises:
            StateConflict: it was answered already.
            InvalidRequest: there is no such question.
            LifebusError: it cannot be made durable now; nothing was written.
        """
        entry, state = await self._undecided(question_id)
        if state.withdrawn_at_ms is not None:
            return state.info()
        check_open(state)
        return await self._decide(entry, question_id, QuestionWithdrawn(self._clock()))

    async def note(self, question_id: str, record: InboxRecord) -> None:
        """Record what was done to deliver a question; one that is not there is passed over.

        Raises:
            LifebusError: it cannot be made durable now; nothing was written.
        """
        entry = self._entries.get(question_id)
        if entry is not None and entry.state is not None:
            await self._append(entry, question_id, record, ())

    async def _undecided(self, question_id: str) -> tuple[_Entry, QuestionState]:
        """Return a question once nothing that settles it is under way."""
        while True:
            entry, state = self._require(question_id)
            if entry.deciding is None:
                return entry, state
            await entry.deciding.wait()

    async def _decide(
        self,
        entry: _Entry,
        name: str,
        record: QuestionAsked | QuestionAnswered | QuestionWithdrawn,
        also: Sequence[NewRecord] = (),
    ) -> QuestionInfo:
        """Write what is there once in a question's life, while everybody else who would has to wait."""
        entry.deciding = anyio.Event()
        await self._append(entry, name, record, also)
        return self._require(name)[1].info()

    async def _append(self, entry: _Entry, name: str, record: InboxRecord, also: Sequence[NewRecord]) -> None:
        """Write a record; what follows from it happens when it is durable, also where the caller was cancelled."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.queued += 1

        def done(result: list[Record] | Refusal) -> None:
            entry.queued -= 1
            self._written(entry, record, result)
            if written.done():  # the caller was cancelled
                return
            if isinstance(result, Refusal):
                written.set_exception(error_of(result))
            else:
                written.set_result(None)

        refusal = self._journal.append([NewRecord(f"{STREAMS}{name}", encode_record(record)), *also], done)
        if refusal is not None:
            done(refusal)
        await written
        # Records that are queued are not in the state yet, and would be lost with what is dropped.
        if entry.records >= CHECKPOINT_RECORDS and not entry.queued and entry.state is not None:
            await self._checkpoint(entry, name, entry.state)

    def _written(self, entry: _Entry, record: InboxRecord, result: list[Record] | Refusal) -> None:
        is_decision = isinstance(record, QuestionAsked | QuestionAnswered | QuestionWithdrawn)
        if is_decision and entry.deciding is not None:
            entry.deciding.set()
            entry.deciding = None
        if isinstance(result, Refusal):
            if entry.state is None and isinstance(record, QuestionAsked):
                self._entries.pop(record.question.question_id, None)
            return
        entry.state, entry.records = apply(entry.state, record), entry.records + 1
        if entry.state is None:
            return
        self._mark(entry.state)
        if is_decision:
            self._announce(entry.state)
        for observer in self._observers:
            observer(entry.state.question.question_id)

    def _announce(self, state: QuestionState) -> None:
        info = state.info()
        for listener in self._listeners:
            try:
                listener(info)
            except Exception:  # noqa: BLE001  one that fails does not hurt the others
                _log.exception("listener_failed", question_id=state.question.question_id)

    def _mark(self, state: QuestionState) -> None:
        """Sort a question to the open or the settled ones."""
        name = state.question.question_id
        if state.is_open:
            self._open.add(name)
        elif name in self._open:
            self._open.remove(name)
            # The settled ones stand in the order in which they were settled.
            self._entries[name] = self._entries.pop(name)

    def _order_settled(self) -> None:
        self._entries = dict(sorted(self._entries.items(), key=lambda item: _settling_order(item[1])))

    async def forget_oldest(self) -> None:
        """Drop the records of settled questions beyond the newest `MAX_SETTLED`.

        Raises:
            LifebusError: the journal takes no writes now.
        """
        settled = [name for name in self._entries if name not in self._open and self.state(name) is not None]
        for name in settled[: max(0, len(settled) - MAX_SETTLED)]:
            await self._journal.drop(f"{STREAMS}{name}", 2**53)
            self._entries.pop(name, None)

    async def _checkpoint(self, entry: _Entry, name: str, state: QuestionState) -> None:
        """Write the whole state and drop what lies before it; where that fails, all that lies before it stays."""
        entry.records = 1  # at once, so that nobody else begins with it
        whole = NewRecord(f"{STREAMS}{name}", encode_record(WholeQuestion(state)))
        try:
            (record,) = await append_records(self._journal, [whole])
            await self._journal.drop(f"{STREAMS}{name}", record.number - 1)
        except LifebusError as fault:
            entry.records = CHECKPOINT_RECORDS
            _log.warning("checkpoint_failed", question_id=name, detail=fault.detail)

    async def _refuse_forgotten(self, name: str) -> None:
        stream = await find_stream(self._journal, f"{STREAMS}{name}")
        if stream is not None and stream.head == stream.floor:
            raise StateConflict(
                f"`{name[:64]}` was asked and settled so long ago that the answer is forgotten; use a new id",
                code="question_settled",
            )

    async def _read(self, stream: str) -> list[Record]:
        return [record async for page in pages_of(self._journal, stream) for record in page.records]

    def _require(self, question_id: str) -> tuple[_Entry, QuestionState]:
        entry = self._entries.get(question_id)
        if entry is None or entry.state is None:
            raise InvalidRequest(
                f"there is no question `{question_id[:64]}`; `lifebus inbox list` lists them", code="no_question"
            )
        return entry, entry.state


def _asking_order(state: QuestionState) -> tuple[int, str]:
    return state.question.asked_at_ms, state.question.question_id


def _settling_order(entry: _Entry) -> tuple[bool, int]:
    return (False, 0) if entry.state is None else (entry.state.is_open, entry.state.occasion_at_ms)
