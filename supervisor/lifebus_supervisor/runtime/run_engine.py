"""What makes runs go on: whatever comes in is recorded with all that follows from it, then acted on.

There is no task for a run, only for each try that runs: a waiting run costs memory and nothing else.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.ledger.records import error_of
from lifebus_broker.ports import Record, Refusal
from lifebus_contract import LifebusError
from lifebus_contract.flows import Outcome, OutcomeKind
from lifebus_contract.runs import StepStatus
from lifebus_supervisor.runtime.active_run import ActiveRun, Input, Make, awaited_settle
from lifebus_supervisor.runtime.bus.receipt_emitter import MAX_WAITING, ReceiptEmitter, RunReceipts
from lifebus_supervisor.runtime.bus.receipts import emissions_of
from lifebus_supervisor.runtime.clocks import Clocks
from lifebus_supervisor.runtime.due.due_times import DueTimes
from lifebus_supervisor.runtime.ports import Questions, TryRunner
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd, carry_on, decide, end_records
from lifebus_supervisor.runtime.rules.run_questions import question_of
from lifebus_supervisor.runtime.rules.run_reducer import apply, apply_each
from lifebus_supervisor.runtime.run_journal import RunJournal, new_records
from lifebus_supervisor.runtime.run_records import (
    BROKER,
    Answered,
    Asked,
    ReceiptsEmitted,
    RetryRequested,
    RunEnded,
    RunRecord,
    TryStarted,
)
from lifebus_supervisor.runtime.run_state import RunState, open_questions

_AGAIN_S: Final = 1.0
"""After so many seconds what could not be written is tried again."""

_EMITTED_EVERY: Final = 64
"""After so many records it is noted up to which one the receipts are durable."""

_log = structlog.get_logger("lifebus.runtime")


class _Batch(Struct, frozen=True, kw_only=True):
    """What is written in one append: records, the state after each of them, and the inputs that they came from."""

    records: Sequence[RunRecord]
    states: Sequence[RunState]
    inputs: Sequence[Input]


class RunEngine:
    """Records and acts.  `tasks` owns the tries; `on_change` is called with a run after each durable change."""

    def __init__(  # noqa: PLR0917  all that it acts on
        self,
        journal: RunJournal,
        questions: Questions,
        runner: TryRunner,
        emitter: ReceiptEmitter,
        clocks: Clocks,
        tasks: TaskGroup,
    ) -> None:
        self.journal = journal
        self.questions = questions
        self.clocks = clocks
        self.is_stopping = False
        self.on_change: Callable[[ActiveRun], None] = lambda _: None
        self.runner = runner
        self._emitter = emitter
        self._tasks = tasks
        self._due = DueTimes(self.advance)

    def put(self, run: ActiveRun, given: Input) -> None:
        """Take something that came in for a run; returns at once."""
        run.inputs.append(given)
        self.advance(run)

    async def record(self, run: ActiveRun, make: Make) -> None:
        """Have something recorded, and return once it is durable.

        Raises:
            LifebusError: it was not recorded.
        """
        settle, durable = awaited_settle()
        self.put(run, Input(make, settle))
        await durable

    def prepare(self, run: ActiveRun) -> None:
        """Have the receipts of a run emitted behind those that are durable already."""
        run.receipts = RunReceipts(self._emitter, run.state.emitted, partial(self._receipts_emitted, run))

    def advance(self, run: ActiveRun) -> None:
        """Record what has come in and what follows from it, unless something is being written; returns at once."""
        if run.is_writing:
            return
        batch = self._next_batch(run, self.clocks.now_ms())
        if not batch.records:
            self._settle(batch.inputs, None)
            self._look_again(run)
            return
        run.is_writing = True
        last = batch.records[-1]
        if isinstance(last, Asked):
            self._tasks.start_soon(self._ask, run, batch, last)
        else:
            self._append(run, batch)

    def stop(self) -> None:
        """Begin nothing any more; what runs is ended by the task group."""
        self.is_stopping = True
        self._due.close()

    def _next_batch(self, run: ActiveRun, now_ms: int) -> _Batch:
        records: list[RunRecord] = [*run.unwritten]
        states: list[RunState] = [run.state for _ in records]
        taken: list[Input] = []
        while run.inputs and not (records and isinstance(records[-1], Asked)):
            given = run.inputs.pop(0)
            state = states[-1] if states else run.state
            try:
                made = given.make(state, now_ms)
                after = apply_each(state, made)
            except LifebusError as fault:
                self._settle([given], fault)
                continue
            records += made
            states += after
            taken.append(given)
        self._add_consequences(run, records, states, now_ms)
        receipts = run.receipts
        if records and run.is_ours and receipts is not None and receipts.emitted - run.state.emitted >= _EMITTED_EVERY:
            self._add(ReceiptsEmitted(at_ms=now_ms, through=receipts.emitted), records, states, run.state)
        return _Batch(records=records, states=states, inputs=taken)

    def _add_consequences(self, run: ActiveRun, records: list[RunRecord], states: list[RunState], now_ms: int) -> None:
        """Add what follows, where the broker runs it: another owner decides by itself."""
        state = states[-1] if states else run.state
        is_ours = state.is_attached and state.owner == BROKER
        run.is_held = is_ours and run.receipts is not None and run.receipts.waiting >= MAX_WAITING
        if is_ours and not run.is_held and not self.is_stopping and not (records and isinstance(records[-1], Asked)):
            following, _ = carry_on(state, now_ms)
            states += apply_each(state, following)
            records += following

    @staticmethod
    def _add(record: RunRecord, records: list[RunRecord], states: list[RunState], before: RunState) -> None:
        """Add a record before a question, which has to be the last one."""
        at = len(records) - 1 if isinstance(records[-1], Asked) else len(records)
        rest = records[at:]
        del records[at:], states[at:]
        records.append(record)
        states.append(apply(states[-1] if states else before, record))
        states += apply_each(states[-1], rest)
        records += rest

    async def _ask(self, run: ActiveRun, batch: _Batch, asked: Asked) -> None:
        """Write a question and the records in one append; one that is there already was written without them."""
        if self.questions.get(asked.question_id) is not None:
            self._append(run, batch)
            return
        question = question_of(batch.states[-1], asked)
        try:
            await self.questions.ask(question, new_records(run.run_id, batch.records))
        except LifebusError as fault:
            self._failed(run, batch, fault)
            return
        self._committed(run, batch)

    def _append(self, run: ActiveRun, batch: _Batch) -> None:
        refusal = self.journal.append(run.run_id, batch.records, partial(self._written, run, batch))
        if refusal is not None:
            self._failed(run, batch, error_of(refusal))

    def _written(self, run: ActiveRun, batch: _Batch, result: list[Record] | Refusal) -> None:
        if isinstance(result, Refusal):
            self._failed(run, batch, error_of(result))
        else:
            self._committed(run, batch)

    def _failed(self, run: ActiveRun, batch: _Batch, fault: LifebusError) -> None:
        """Nothing was written: whoever waits is told, and what is a fact is written later."""
        run.is_writing = False
        run.inputs[:0] = [one for one in batch.inputs if one.settle is None]
        self._settle([one for one in batch.inputs if one.settle is not None], fault)
        if fault.code != "closed":
            _log.warning("run_not_recorded", run_id=run.run_id, code=fault.code, detail=fault.detail)
            self._due.set(run, _AGAIN_S)

    def _committed(self, run: ActiveRun, batch: _Batch) -> None:
        before = run.state
        run.is_writing, run.unwritten, run.state = False, (), batch.states[-1]
        if run.receipts is None:
            self.prepare(run)
        # Before the receipts, which ask whether something runs.
        self._begin(run, batch.records)
        receipts = run.receipts
        for record, state in zip(batch.records, batch.states, strict=True):
            if receipts is not None and not isinstance(record, ReceiptsEmitted):
                receipts.add(state.number, emissions_of(state, record))
        self._withdraw(before, run.state, batch.records)
        self._settle(batch.inputs, None)
        run.notify()
        self.on_change(run)
        # Nothing else can be due: whatever followed was written with it.
        if run.inputs or run.is_held or isinstance(batch.records[-1], Asked):
            self.advance(run)
        elif run.is_ours:
            self._look_again(run)

    def _begin(self, run: ActiveRun, records: Sequence[RunRecord]) -> None:
        """Begin the tries that are durable now."""
        for record in records:
            if isinstance(record, TryStarted) and run.is_ours:
                cancelled = run.tries[record.step] = anyio.Event()
                self._tasks.start_soon(self._run_try, run, record.step, record.number, cancelled)

    def _look_again(self, run: ActiveRun) -> None:
        """Stop what is to be stopped, and decide again when the next pause is over."""
        if not run.is_ours:
            self._due.set(run, None)
            return
        now_ms = self.clocks.now_ms()
        found = decide(run.state, now_ms)
        for step in found.stops:
            if step in run.tries:
                run.tries[step].set()
        # A pause that has ended since it was decided what follows is over now, and no longer to come.
        is_due = found.acts and not run.is_held and not self.is_stopping
        due_at_ms = now_ms if is_due else found.due_at_ms
        self._due.set(run, None if due_at_ms is None else (due_at_ms - now_ms) / 1000)

    async def _run_try(self, run: ActiveRun, step: str, number: int, cancelled: anyio.Event) -> None:
        try:
            seen = await self.runner.run(run.state, step, cancelled)
        except Exception as fault:  # noqa: BLE001  a defect of ours costs this try, and is asked about if it stays
            _log.exception("try_failed", run_id=run.run_id, step=step)
            seen = ObservedEnd(outcome=Outcome(kind=OutcomeKind.INTERRUPTED, detail=type(fault).__name__))
        run.tries.pop(step, None)
        self.put(run, Input(partial(self._end, step, number, seen)))

    def _end(self, step: str, number: int, seen: ObservedEnd, state: RunState, now_ms: int) -> Sequence[RunRecord]:
        known = state.steps[step]
        if known.status is not StepStatus.RUNNING or known.number != number:
            return ()
        return end_records(state, step, seen, now_ms=now_ms, fraction=self.clocks.draw())

    def _withdraw(self, before: RunState, after: RunState, records: Sequence[RunRecord]) -> None:
        """Take back the questions that nobody has to answer any more."""
        if not any(isinstance(one, RunEnded | RetryRequested) for one in records):
            return
        answered = {one.question_id for one in records if isinstance(one, Answered)}
        for name in open_questions(before) - open_questions(after) - answered:
            self._tasks.start_soon(self.take_back, name)

    async def take_back(self, question_id: str) -> None:
        """Withdraw a question; one that was answered in this moment stays answered."""
        try:
            await self.questions.withdraw(question_id)
        except LifebusError as fault:
            _log.info("question_not_withdrawn", question_id=question_id, code=fault.code)

    def forget(self, run: ActiveRun) -> None:
        """Drop the records of a run that is over; nothing of it is known any more."""
        self._tasks.start_soon(self._forget, run)

    async def _forget(self, run: ActiveRun) -> None:
        try:
            await self.journal.forget(run.run_id, run.state.number)
        except LifebusError as fault:
            _log.warning("run_not_forgotten", run_id=run.run_id, code=fault.code)

    def _receipts_emitted(self, run: ActiveRun) -> None:
        receipts = run.receipts
        if receipts is None or receipts.waiting >= MAX_WAITING:
            return
        is_idle = not run.tries and (run.is_ours or run.state.ended is not None)
        if is_idle and not receipts.waiting and receipts.emitted > max(run.state.emitted, 1):
            # Nothing else will be written soon: the next start does not have to emit them again.  Of a client's run
            # nothing is written meanwhile: it would have to read that before it writes something itself.
            self.put(run, Input(partial(_note_emitted, receipts.emitted)))
        elif run.is_held:
            self.advance(run)

    @staticmethod
    def _settle(inputs: Sequence[Input], fault: LifebusError | None) -> None:
        for one in inputs:
            if one.settle is not None:
                one.settle(fault)


def _note_emitted(through: int, state: RunState, now_ms: int) -> Sequence[RunRecord]:
    if through <= state.emitted:
        return ()
    return (ReceiptsEmitted(at_ms=now_ms, through=through),)
