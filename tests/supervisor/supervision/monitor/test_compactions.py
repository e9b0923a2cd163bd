"""How many compactions are proved and not on record, whoever proves them and in whatever order."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lifebus_adapters.shared.telemetry import Compacted
from lifebus_supervisor.supervision.monitor import compactions
from lifebus_supervisor.supervision.monitor.compactions import CompactionState


def proof(key: str) -> Compacted:
    return Compacted(session="s", key=key)


def with_files(state: CompactionState, *keys: str, is_old: bool = False) -> CompactionState:
    for key in keys:
        state = compactions.on_proof(state, proof(key), "rollout", is_old=is_old)
    return state


def loaded(recorded: int = 0, recent: int = 0, before: int = 0, *, is_new: bool = False) -> CompactionState:
    return compactions.on_loaded(CompactionState(), recorded=recorded, recent=recent, before=before, is_new=is_new)


def test_a_proof_counts_once_and_is_covered_by_a_record() -> None:
    state = with_files(loaded(), "a", "a")
    assert (state.unrecorded(0), state.unrecorded(1), state.unrecorded(2)) == (1, 0, -1)


def test_the_newest_proofs_are_the_unrecorded_ones() -> None:
    state = with_files(loaded(), "a", "b", "c")
    assert list(state.unrecorded_proofs(1)) == ["b", "c"]
    assert state.unrecorded_proofs(3) == {}


def test_proofs_from_before_supervision_are_no_news() -> None:
    state = with_files(loaded(is_new=True), "a", "b", is_old=True)
    assert (state.before_supervision, state.unrecorded(0)) == (2, 0)
    assert list(with_files(state, "c").unrecorded_proofs(0)) == ["c"]


def test_a_file_that_holds_less_than_the_ledger_owes_nothing() -> None:
    state = compactions.on_history_read(with_files(loaded(recorded=3), "c"))
    assert (state.absent_from_files, state.unrecorded(3)) == (2, 0)
    assert list(with_files(state, "d").unrecorded_proofs(3)) == ["d"]


def test_recent_records_may_not_be_in_the_file_yet() -> None:
    state = compactions.on_history_read(loaded(recorded=3, recent=1))
    assert state.absent_from_files == 2
    assert with_files(state, "late").unrecorded(3) == 0


def test_what_the_file_lacks_it_lacks_also_after_the_session_was_forgotten() -> None:
    state = with_files(compactions.on_history_read(loaded(recorded=1)), "b")
    assert (state.absent_from_files, state.unrecorded(2)) == (1, 0)
    kept = compactions.read_so_far(state)
    again = compactions.on_loaded(kept, recorded=2, recent=1, before=0, is_new=False)
    assert again.unrecorded(2) == 0
    assert list(with_files(again, "c").unrecorded_proofs(2)) == ["c"]


def test_an_app_server_is_counted_from_where_it_was_first_seen() -> None:
    state = compactions.on_app_server(loaded(recorded=2), 2)
    state = compactions.on_app_server_proof(state, proof("a"), "app_server")
    assert [one.source for one in state.unrecorded_proofs(2).values()] == ["app_server"]
    assert state.unrecorded(3) == 0


def test_a_thread_that_is_opened_anew_owes_nothing_for_what_others_recorded_meanwhile() -> None:
    state = compactions.on_app_server(CompactionState(), 0)
    state = compactions.on_app_server(state, 2, opens_thread=True)
    state = compactions.on_app_server_proof(state, proof("a"), "app_server")
    assert (state.unrecorded(2), state.unrecorded(3)) == (1, 0)


def test_the_wait_for_a_hook_begins_once_and_ends_when_all_is_recorded() -> None:
    state = with_files(loaded(), "a")
    for tick in (4, 5):
        state = compactions.on_evaluation(state, recorded=0, tick=tick, awaits_hook=True)
        assert state.waiting_since_tick == 4
    assert compactions.on_evaluation(state, recorded=1, tick=6, awaits_hook=True).waiting_since_tick is None


def test_nobody_waits_where_no_hook_reports() -> None:
    state = compactions.on_evaluation(with_files(loaded(), "a"), recorded=0, tick=4, awaits_hook=False)
    assert state.waiting_since_tick is None


class CompactionMachine(RuleBasedStateMachine):
    """A harness that compacts, a file and hooks that tell of it late, and a supervisor that records what is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[str] = []
        self.read = self.recorded = 0
        self.state = loaded(is_new=True)

    @rule()
    def compact(self) -> None:
        self.happened.append(f"c{len(self.happened)}")

    @precondition(lambda self: self.read < len(self.happened))
    @rule(count=st.integers(1, 3))
    def read_file(self, count: int) -> None:
        keys = self.happened[self.read : self.read + count]
        self.state = with_files(self.state, *keys)
        self.read += len(keys)

    @precondition(lambda self: self.recorded < len(self.happened))
    @rule()
    def hook_records(self) -> None:
        self.recorded += 1

    @rule()
    def record_unrecorded(self) -> None:
        self.recorded += len(self.state.unrecorded_proofs(self.recorded))
        assert self.state.unrecorded(self.recorded) <= 0

    @rule()
    def restart(self) -> None:
        """Begin again with what is on record, and read the file as history; it lags behind hooks by little."""
        self.state = loaded(self.recorded, recent=max(0, self.recorded - self.read))
        self.state = compactions.on_history_read(with_files(self.state, *self.happened[: self.read]))

    @invariant()
    def nothing_is_recorded_twice(self) -> None:
        assert self.recorded <= len(self.happened)

    @invariant()
    def the_file_never_proves_more_than_happened(self) -> None:
        assert self.recorded + max(0, self.state.unrecorded(self.recorded)) <= len(self.happened)


TestCompactionMachine = CompactionMachine.TestCase
