"""Runs with limits under random calls, ends, times and answers: what must hold of their records, whatever happens."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract.flows import Budget
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import CostRecord, StepStatus
from lifebus_supervisor.runtime.limits.recording import counted
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd, carry_on, end_records, interrupt
from lifebus_supervisor.runtime.rules.run_reducer import apply, reduce_run
from lifebus_supervisor.runtime.run_records import (
    BROKER,
    Answered,
    Asked,
    PressureChanged,
    RunAttached,
    RunRecord,
    RunSubmitted,
    TryStarted,
    decode_record,
    encode_record,
)
from lifebus_supervisor.runtime.run_state import RunState
from support.flows import exited, flow, step

TOKENS, TIME_MS, LIMIT_MS, CONTEXT = 400, 2_500, 800, 300

ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 700)),
        st.tuples(st.just("cost"), st.integers(0, 400)),
        st.tuples(st.just("end"), st.sampled_from([0, 0, 1, 2])),
        st.tuples(st.just("answer"), st.sampled_from([AnswerAction.PROCEED, AnswerAction.PROCEED, AnswerAction.RETRY])),
        st.tuples(st.just("restart"), st.integers(0, 9_000)),
    ),
    min_size=8,
    max_size=40,
)


class World:
    """One run whose records are kept as a journal keeps them; the sums are counted here, too, from what was done."""

    def __init__(self) -> None:
        steps = [step(name, time_limit_ms=LIMIT_MS, max_retries=1) for name in "abc"]
        budget = Budget(tokens=TOKENS, time_ms=TIME_MS)
        definition = flow("/", *steps, budget=budget, context_tokens=CONTEXT, max_parallel=2)
        self.now_ms, self.calls, self.tokens = 1_000_000, 0, 0
        first = RunSubmitted(at_ms=self.now_ms, definition=definition, by="me")
        self.records: list[RunRecord] = [first]
        self.state = reduce_run("r", [first])
        self.put([RunAttached(at_ms=self.now_ms, owner=BROKER)])

    def put(self, records: list[RunRecord]) -> None:
        while records:
            for record in records:
                self.check(self.state, record)
                self.state = apply(self.state, record)
                self.records.append(decode_record(encode_record(record)))
            records, _ = carry_on(self.state, self.now_ms)

    def check(self, before: RunState, record: RunRecord) -> None:
        """Hold a record to what was there before it."""
        if isinstance(record, TryStarted):
            # Nothing begins where a budget is nearly used up, or somebody is asked about it.
            use = before.limits.use(self.now_ms)
            since = before.limits.grant.since
            assert (use.tokens - since.tokens) * 100 < TOKENS * 80
            assert (use.time_ms - since.time_ms) * 100 < TIME_MS * 80
            assert before.question_id is None

    def running(self) -> list[str]:
        return [name for name, one in self.state.steps.items() if one.status is StepStatus.RUNNING]

    def act(self, what: str, value: int | AnswerAction) -> None:
        running = self.running()
        match what, value:
            case "pass", int():
                self.now_ms += value
                self.put(carry_on(self.state, self.now_ms)[0])
            case "cost", int() if running:
                cost = CostRecord(run_id="r", step_id=running[0], key=f"k{self.calls % 7}", input_tokens=value)
                self.calls += 1
                self.put(list(counted(cost, self.state, self.now_ms)))
            case "end", int() if running:
                seen = ObservedEnd(outcome=exited(value))
                self.put(end_records(self.state, running[0], seen, now_ms=self.now_ms, fraction=0))
            case "answer", AnswerAction():
                self.answer(value)
            case "restart", int() if self.state.ended is None:
                self.state = reduce_run("r", self.records)
                self.now_ms += value
                self.put([*interrupt(self.state, self.now_ms), RunAttached(at_ms=self.now_ms, owner=BROKER)])
            case _:
                pass

    def answer(self, action: AnswerAction) -> None:
        state = self.state
        asked = {one.question_id: name for name, one in state.steps.items() if one.question_id is not None}
        if state.question_id is not None:
            kind, name, question_id = QuestionKind.BUDGET, None, state.question_id
            action = AnswerAction.PROCEED
        elif asked:
            question_id, name = next(iter(asked.items()))
            kind = QuestionKind.ESCALATION
        else:
            return
        answer = Answered(
            at_ms=self.now_ms, step=name, question_id=question_id, question_kind=kind, action=action, responder="ann"
        )
        self.put([answer])


@given(ACTS)
def test_nothing_begins_beyond_a_budget_and_every_crossing_is_one_record(
    acts: list[tuple[str, int | AnswerAction]],
) -> None:
    world = World()
    for what, value in acts:
        world.act(what, value)
    # What is durable leads to the same state.
    assert reduce_run("r", world.records) == world.state
    # Of the run: near and not near take turns.
    changes = [bool(one.near) for one in world.records if isinstance(one, PressureChanged) and one.step is None]
    assert changes[:1] in ([], [True])
    assert all(before is not after for before, after in pairwise(changes))
    # Of a step: the same within each of its tries.
    of_try: dict[str, list[bool]] = {}
    for record in world.records:
        if isinstance(record, TryStarted):
            of_try[record.step] = []
        elif isinstance(record, PressureChanged) and record.step is not None:
            near = of_try[record.step]
            assert bool(record.near) is not (near[-1] if near else False)
            near.append(bool(record.near))
    asked = [one.question_id for one in world.records if isinstance(one, Asked)]
    assert len(asked) == len(set(asked))
