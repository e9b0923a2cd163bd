"""Runs under random ends, answers and crashes: nothing is skipped, nothing is done that was not, nobody is asked twice.

The oracle is the world outside: which processes began and how they ended, which questions people have seen.  It knows
nothing of the reducer, only what was durable when something was done.
"""

import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lifebus_contract.flows import FlowDefinition, OnFailure, Outcome, OutcomeKind, RetryPause
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import RunStatus, StepStatus
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd, attach, carry_on, decide, end_of_try
from lifebus_supervisor.runtime.rules.run_inputs import aborted
from lifebus_supervisor.runtime.rules.run_questions import question_of
from lifebus_supervisor.runtime.rules.run_reducer import MAX_INTERRUPTIONS, apply, reduce_run
from lifebus_supervisor.runtime.run_records import (
    BROKER,
    Answered,
    Asked,
    RetryRequested,
    RunAttached,
    RunEnded,
    RunRecord,
    RunSubmitted,
    TryEnded,
    TryStarted,
    decode_record,
    encode_record,
)
from lifebus_supervisor.runtime.run_state import RunState, is_retriable
from support.effort import effort
from support.flows import exited, flow, step

NAMES = "abcde"
ENDS = [exited(code) for code in (0, 0, 1, 1, 2, 2, 3, 70, 126)] + [
    Outcome(kind=OutcomeKind.SIGNALLED, signal=9),
    Outcome(kind=OutcomeKind.TIMED_OUT),
    Outcome(kind=OutcomeKind.CANNOT_START),
    Outcome(kind=OutcomeKind.UNVERIFIED, code=0),
]


@st.composite
def flows(draw: st.DrawFn) -> FlowDefinition:
    """Flows of up to five steps, each needing some of those before it."""
    count = draw(st.integers(1, len(NAMES)))
    steps = [
        step(
            name,
            *draw(st.lists(st.sampled_from(NAMES[:at]), unique=True, max_size=2)) if at else (),
            max_retries=draw(st.integers(0, 2)),
            pause=RetryPause(first_ms=draw(st.sampled_from([0, 500])), longest_ms=1_000),
            on_failure=draw(st.sampled_from([*OnFailure, OnFailure.ESCALATE])),
            approval=draw(st.sampled_from([None, None, "may it?"])),
        )
        for at, name in enumerate(NAMES[:count])
    ]
    return flow("/", *steps, max_parallel=draw(st.integers(1, 3)))


class Runs(RuleBasedStateMachine):
    """One run and the world around it."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: list[RunRecord] = []
        self.now_ms = 1_000_000
        # The world: what ran and how it ended, what people were asked, what they said.
        self.processes: dict[str, int] = {}
        self.succeeded: set[str] = set()
        self.passed_over: set[str] = set()
        self.counted: dict[str, int] = {}
        self.asked: dict[str, Asked] = {}
        self.open: dict[str, Asked] = {}

    @initialize(definition=flows())
    def submit(self, definition: FlowDefinition) -> None:
        self.definition = definition
        first = RunSubmitted(at_ms=self.now_ms, definition=definition, by="me")
        self.state = reduce_run("r", [first])
        self.durable.append(first)
        self._write([RunAttached(at_ms=self.now_ms, owner=BROKER)])

    def _write(self, records: list[RunRecord] | tuple[RunRecord, ...]) -> None:
        """Make records durable, with what follows from them, then act on them: one append after the other."""
        while True:
            state = self.state
            for record in records:
                state = apply(state, record)
            following: list[RunRecord] = []
            if not (records and isinstance(records[-1], Asked)):
                following, state = carry_on(state, self.now_ms)
            batch = [*records, *following]
            if not batch:
                return
            before, self.state = self.state, state
            self.durable += [decode_record(encode_record(one)) for one in batch]
            for record in batch:
                before = apply(before, record)
                self._act(before, record)
            records = []

    def _act(self, state: RunState, record: RunRecord) -> None:
        """Do in the world what became durable, and hold it to the rules."""
        match record:
            case TryStarted():
                self._begin(record)
            case TryEnded() if record.outcome.kind is not OutcomeKind.INTERRUPTED:
                self.processes.pop(record.step)
            case Asked():
                assert record.question_id not in self.asked, "asked twice"
                question = question_of(state, record)
                assert AnswerAction.ABORT in question.actions
                self.asked[record.question_id] = self.open[record.question_id] = record
            case RunEnded():
                self.open.clear()
                assert not self.processes, "something still runs"
                if record.status is RunStatus.COMPLETED:
                    assert self.succeeded | self.passed_over == {one.step_id for one in self.definition.steps}
            case _:
                pass

    def _begin(self, record: TryStarted) -> None:
        definition = next(one for one in self.definition.steps if one.step_id == record.step)
        assert record.step not in self.succeeded | self.passed_over, "runs again although it is done"
        assert set(definition.needs) <= self.succeeded | self.passed_over, "a step was skipped"
        assert record.step not in self.processes, "two at once"
        if definition.approval is not None:
            approvals = [one for one in self.asked.values() if one.question_kind is QuestionKind.APPROVAL]
            assert any(one.step == record.step and one.question_id not in self.open for one in approvals)
        self.processes[record.step] = record.number
        assert len(self.processes) <= self.definition.max_parallel

    @property
    def is_over(self) -> bool:
        return self.state.ended is not None

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), outcome=st.sampled_from(ENDS), fraction=st.floats(0, 1))
    def end(self, data: st.DataObject, outcome: Outcome, fraction: float) -> None:
        """A process ends."""
        name = data.draw(st.sampled_from(sorted(self.processes)))
        definition = self.state.steps[name].definition
        seen = ObservedEnd(outcome=outcome)
        record = end_of_try(self.state, name, seen, now_ms=self.now_ms, fraction=fraction)
        self.counted[name] = self.counted.get(name, 0) + 1
        if outcome == exited(0):
            self.succeeded.add(name)
        else:
            is_last = self.counted[name] > definition.max_retries or outcome.code in {2, 3, 126}
            is_last = is_last or outcome.kind is OutcomeKind.CANNOT_START
            assert (record.retry_at_ms is None) is is_last, "a pause after the last failure, or none before a retry"
            if is_last and definition.on_failure is OnFailure.SKIP:
                self.passed_over.add(name)
        self._write([record])

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        """A process is ended because the run is to end."""
        stops = decide(self.state, self.now_ms).stops
        if not stops:
            return
        name = data.draw(st.sampled_from(sorted(stops)))
        seen = ObservedEnd(outcome=Outcome(kind=OutcomeKind.ABORTED))
        self._write([end_of_try(self.state, name, seen, now_ms=self.now_ms, fraction=0)])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """A person answers, the broker is there."""
        self._answer(data)

    def _answer(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        asked = self.open.pop(name)
        actions: list[Any] = [AnswerAction.PROCEED, AnswerAction.ABORT, AnswerAction.MODIFY]
        if asked.question_kind is not QuestionKind.APPROVAL:
            actions += [AnswerAction.RETRY] * 5
        action = data.draw(st.sampled_from(actions))
        record = Answered(
            at_ms=self.now_ms,
            step=asked.step,
            question_id=name,
            question_kind=asked.question_kind,
            action=action,
            responder="p",
        )
        assert asked.step is not None
        if asked.question_kind is not QuestionKind.APPROVAL:
            if action is AnswerAction.PROCEED:
                self.passed_over.add(asked.step)
            self.counted[asked.step] = 0
        self._write([record])

    @rule(ms=st.sampled_from([1, 400, 2_000]))
    def wait(self, ms: int) -> None:
        """Time goes by."""
        self.now_ms += ms
        self._write([])

    @rule(chance=st.integers(0, 2))
    def crash(self, chance: int) -> None:
        """Everything but the records is gone, and somebody goes on with them."""
        if chance:
            return
        self.processes.clear()
        self.state = reduce_run("r", self.durable)
        if self.state.is_attached:
            self._write(attach(self.state, BROKER, "recovery", self.now_ms))

    @precondition(lambda self: not self.is_over)
    @rule(chance=st.integers(0, 19))
    def abort(self, chance: int) -> None:
        if chance == 0:
            self._write(list(aborted("me", "", self.state, self.now_ms)))

    @rule(name=st.sampled_from(NAMES))
    def retry(self, name: str) -> None:
        """A person wants a step again that nobody is asked about."""
        known = self.state.steps.get(name)
        if known is None or not is_retriable(self.state, known):
            return
        records: list[RunRecord] = [RetryRequested(at_ms=self.now_ms, step=name, by="me")]
        if self.is_over:
            records.append(RunAttached(at_ms=self.now_ms, owner=BROKER))
            self.counted.clear()
        self.counted[name] = 0
        self._write(records)

    @invariant()
    def what_is_done_was_done(self) -> None:
        if not self.durable:
            return
        for name, known in self.state.steps.items():
            assert (known.status is StepStatus.DONE) == (name in self.succeeded)
            assert (known.status is StepStatus.SKIPPED) == (name in self.passed_over)
            assert known.interruptions <= MAX_INTERRUPTIONS
        assert self.state == reduce_run("r", self.durable)
        assert self.state.number == len(self.durable)

    @invariant()
    def it_never_gets_stuck(self) -> None:
        if not self.durable or self.is_over:
            return
        found = decide(self.state, self.now_ms)
        assert not found.acts, "something that follows was not recorded"
        assert self.processes or self.open or found.due_at_ms is not None
        assert found.due_at_ms is None or found.due_at_ms > self.now_ms
        assert found.due_at_ms is None or found.due_at_ms < math.inf

    def teardown(self) -> None:
        """Whatever prefix is durable, going on with it starts nothing that is done and asks nothing that was asked."""
        for length in range(1, len(self.durable) + 1):
            prefix = self.durable[:length]
            state = reduce_run("r", prefix)
            if state.ended is not None:
                assert not decide(state, self.now_ms).acts
                continue
            asked = {one.question_id for one in prefix if isinstance(one, Asked)}
            for record in attach(state, BROKER, "x", self.now_ms):
                state = apply(state, record)
            done = {name for name, one in state.steps.items() if one.status.is_over}
            following, _ = carry_on(state, self.now_ms)
            assert not done & {one.step for one in following if isinstance(one, TryStarted)}
            assert not asked & {one.question_id for one in following if isinstance(one, Asked)}


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=effort(60, 3_000), stateful_step_count=effort(40, 120), deadline=None, derandomize=False
)
