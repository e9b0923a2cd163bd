"""Which process counts as the harness, and what its life says of the session."""

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lifebus_adapters import CallerProcess
from lifebus_supervisor.supervision.monitor import process
from lifebus_supervisor.supervision.monitor.process import ProcessState

ONE, TWO, THREE = (CallerProcess(pid=pid, started=f"boot:{pid}") for pid in (1, 2, 3))
PROCESSES = st.sampled_from([CallerProcess(pid=pid, started=f"boot:{pid}") for pid in range(1, 8)])


def called(*callers: CallerProcess | None, state: ProcessState | None = None) -> ProcessState:
    state = state or ProcessState()
    for caller in callers:
        state = process.on_call(state, caller)
    return state


def test_a_process_that_calls_twice_is_the_harness() -> None:
    assert called(ONE).harness is None
    assert called(ONE, ONE).harness == ONE


def test_a_candidate_that_outlives_its_call_is_the_harness_and_a_dead_one_is_forgotten() -> None:
    assert process.settle_candidate(called(ONE), True).harness == ONE
    forgotten = process.settle_candidate(called(ONE), False)
    assert (forgotten.harness, forgotten.known) == (None, frozenset())


def test_a_second_harness_leaves_the_first_one_among_the_others() -> None:
    state = called(ONE, ONE, TWO, TWO)
    assert (state.harness, state.others) == (TWO, (ONE,))
    again = called(ONE, state=state)
    assert (again.harness, again.others, again.candidate) == (TWO, (ONE,), None)


def test_a_named_process_is_the_harness_at_once() -> None:
    assert process.on_identified(ProcessState(), ONE).harness == ONE
    assert process.on_identified(called(ONE, ONE), None).harness == ONE


def test_the_process_that_ended_the_session_is_not_among_the_others_of_its_resume() -> None:
    state = called(TWO, TWO, state=process.on_session_ended(called(ONE, ONE)))
    assert (state.harness, state.others) == (TWO, ())


def test_a_call_by_the_process_that_ended_the_session_counts_again() -> None:
    ended = process.on_session_ended(called(ONE, ONE))
    assert process.with_alive(ended, frozenset())[1] is None
    assert process.with_alive(called(ONE, state=ended), frozenset())[1] is False


def test_nothing_is_known_while_a_newer_caller_may_be_the_harness() -> None:
    assert process.with_alive(called(ONE, ONE, TWO), frozenset())[1] is None


def test_the_newest_living_process_stands_for_a_dead_harness() -> None:
    state, alive = process.with_alive(called(ONE, ONE, TWO, TWO, THREE, THREE), frozenset({ONE, TWO}))
    assert (state.harness, state.others, alive) == (TWO, (ONE,), True)


def test_dead_ticks_are_counted_in_a_row_and_forgotten_at_a_hook() -> None:
    state = ProcessState()
    for alive in (False, False, True, False, None, False):
        state = process.on_liveness(state, alive)
    assert state.dead_ticks == 2
    assert process.on_hook(state).dead_ticks == 0


def test_a_process_that_announced_its_end_is_not_counted() -> None:
    assert process.on_liveness(process.on_exit_announced(ProcessState(), "it ends"), False).dead_ticks == 0


def test_the_ledger_names_the_process_only_where_none_is_known() -> None:
    assert process.on_recorded(ProcessState(), process.process_text(TWO)).harness == TWO
    assert process.on_recorded(called(ONE, ONE), process.process_text(TWO)).harness == ONE
    assert process.on_recorded(ProcessState(), None) == ProcessState()


@given(PROCESSES)
def test_a_process_survives_its_text(one: CallerProcess) -> None:
    assert process.process_of(process.process_text(one)) == one


@given(st.text(max_size=12))
@example("²@")
def test_text_that_names_no_process_names_none(text: str) -> None:
    named = process.process_of(text)
    assert named is None or process.process_text(named).partition("@")[2] == text.partition("@")[2]


class ProcessMachine(RuleBasedStateMachine):
    """Callers, deaths and ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ProcessState()
        self.dead: set[CallerProcess] = set()

    @rule(caller=PROCESSES)
    def call(self, caller: CallerProcess) -> None:
        self.dead.discard(caller)
        self.state = process.on_hook(process.on_call(self.state, caller))
        assert self.state.dead_ticks == 0

    @rule(caller=PROCESSES, number=st.integers(1, 4), is_outdated=st.booleans(), is_over=st.booleans())
    def call_late(self, caller: CallerProcess, number: int, is_outdated: bool, is_over: bool) -> None:
        before = self.state
        self.state = process.on_late_call(before, caller, f"call-{number}", is_outdated=is_outdated, is_over=is_over)
        assert self.state.dead_ticks == before.dead_ticks, "a late call is no sign of life"

    @rule(caller=PROCESSES)
    def identify(self, caller: CallerProcess) -> None:
        self.dead.discard(caller)
        self.state = process.on_identified(self.state, caller)
        assert caller in self.state.known

    @rule(which=PROCESSES)
    def die(self, which: CallerProcess) -> None:
        self.dead.add(which)

    @rule()
    def end_session(self) -> None:
        self.state = process.on_session_ended(self.state)
        assert self.state.ended_by == self.state.harness

    @rule()
    def tick(self) -> None:
        if (candidate := self.state.candidate) is not None:
            self.state = process.settle_candidate(self.state, candidate not in self.dead)
        living = self.state.known - self.dead
        self.state, alive = process.with_alive(self.state, living)
        before, self.state = self.state, process.on_liveness(self.state, alive)
        if alive is True:
            assert self.state.harness not in self.dead
            assert self.state.dead_ticks == 0
        if alive is False:
            assert not living
            assert self.state.dead_ticks == before.dead_ticks + 1
        assert not self.dead & set(self.state.others)

    @invariant()
    def names_each_process_once(self) -> None:
        named = [one for one in (self.state.harness, self.state.candidate, *self.state.others) if one is not None]
        assert len(named) == len(set(named))

    @invariant()
    def stays_small(self) -> None:
        assert len(self.state.others) <= 3


TestProcessMachine = ProcessMachine.TestCase
