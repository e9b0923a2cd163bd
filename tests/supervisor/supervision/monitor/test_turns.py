"""What telemetry shows of turns, beside those on record."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lifebus_adapters.shared.telemetry import Activity, Fact, TurnEnded, TurnStarted
from lifebus_broker.state.session_state import OpenFrame
from lifebus_supervisor.supervision.monitor import turns
from lifebus_supervisor.supervision.monitor.turns import TurnState

FRAME_IDS = st.sampled_from(["t1", "t2", "t3"])


def started(frame: str | None, *, compacting: bool = False) -> TurnStarted:
    return TurnStarted(session="s", frame_id=frame, compacting=compacting)


def ended(frame: str | None, **details: str) -> TurnEnded:
    return TurnEnded(session="s", frame_id=frame, details=dict(details))


def after(
    *facts: Fact,
    frames: tuple[str, ...] = (),
    recorded: tuple[str, ...] = (),
    history: bool = False,
    state: TurnState | None = None,
) -> TurnState:
    state = state or TurnState()
    its_frames = tuple(OpenFrame(frame_id=one) for one in frames)
    for tick, fact in enumerate(facts, 1):
        state = turns.on_fact(state, fact, "rollout", tick, its_frames, recorded, history=history)
    return state


def test_a_turn_that_no_receipt_opened_is_unannounced_since_it_was_first_seen() -> None:
    state = after(started("t1"), started("t1"), started("t2"))
    assert (state.unannounced, state.newest) == ({"t1": 1, "t2": 3}, "t2")


def test_a_turn_on_record_an_old_one_and_one_that_compacts_are_not_unannounced() -> None:
    assert after(started("t1"), recorded=("t1",)).unannounced == {}
    assert after(started("t1"), history=True).unannounced == {}
    assert after(started("t1", compacting=True)).unannounced == {}


def test_a_turn_of_which_only_the_completed_end_is_new_is_unannounced_too() -> None:
    assert after(started("t1"), ended("t1")).unannounced == {"t1": 1}
    begun = after(started("t1"), history=True)
    assert after(ended("t1"), state=begun).unannounced == {"t1": 1}
    assert after(ended("t1"), recorded=("t1",)).unannounced == {}
    assert after(started("t1", compacting=True), ended("t1")).unannounced == {}
    broken = TurnEnded(session="s", frame_id="t1", frame_end="interrupted")
    assert after(started("t1"), broken).unannounced == {}


def test_a_turn_is_over_once_its_end_is_the_last_sign_of_it() -> None:
    assert after(started("t1"), ended("t1")).is_over
    assert after(started("t1"), ended("t1"), history=True).is_over
    assert not after(ended("t1"), started("t2")).is_over
    assert not after(ended("t1"), Activity(session="s")).is_over


def test_an_opening_on_record_and_a_hook_cover_what_was_unannounced() -> None:
    state = after(started("t1"), started("t2"))
    assert turns.on_opened(state, "t1", None).unannounced == {"t2": 2}
    assert turns.on_hook(state).unannounced == {}


def test_an_end_without_a_name_is_that_of_the_newest_outermost_frame() -> None:
    frames = (OpenFrame(frame_id="t1"), OpenFrame(frame_id="t2"), OpenFrame(frame_id="a1", parent="t2"))
    state = turns.on_fact(TurnState(), ended(None), "rollout", 1, frames, (), history=False)
    assert list(state.ends) == ["t2"]
    assert after(ended(None)).ends == {}


def test_an_old_end_counts_for_a_frame_that_is_open_still_or_whose_hooks_come_late() -> None:
    assert list(after(ended("t1"), frames=("t1",), history=True).ends) == ["t1"]
    state = after(ended("t1"), history=True)
    assert (state.ends, list(turns.on_opened(state, "t1", None).ends)) == ({}, ["t1"])
    known = turns.on_fact(TurnState(), ended("t1"), "rollout", 1, (), ("t1",), history=True)
    assert turns.on_opened(known, "t1", None).ends == {}


def test_an_end_that_no_frame_is_open_for_waits_for_its_hooks() -> None:
    state = turns.on_evaluation(after(ended("t1"), ended("t2")), (), ("t2",))
    assert (state.ends, list(state.early_ends)) == ({}, ["t1"])


def test_of_old_ends_whose_hooks_never_came_the_newest_are_kept() -> None:
    state = after(*(ended(f"t{number}") for number in range(100)), history=True)
    assert list(state.early_ends) == [f"t{number}" for number in range(84, 100)]


def test_old_work_is_that_of_the_turn_that_the_file_shows_it_in() -> None:
    frames = [OpenFrame(frame_id="t2")]
    work = Activity(session="s")
    for facts, history, taken in (
        ((started("t1"), work), True, {"t1"}),
        ((started("t2"), work), True, {"t2"}),
        ((started(None), work), True, set()),
        ((started(None),), False, {"t2"}),
        ((work,), False, {"t2"}),
    ):
        state = TurnState()
        for fact in facts:
            state = turns.on_fact(state, fact, "rollout", 1, frames, ("t1", "t2"), history=history)
        assert state.taken == taken


def test_a_frame_inside_another_shows_that_one_at_work() -> None:
    state = turns.on_opened(turns.on_opened(TurnState(), "t1", None), "a1", "t1")
    assert list(state.taken) == ["t1"]
    assert state.last_opened == "t1"


def test_the_first_end_counts_and_one_with_details_explains_it() -> None:
    state = after(ended("t1"), ended("t1", kind="quota"), ended("t1", kind="other"), frames=("t1",))
    assert (state.ends["t1"].fact.details, state.ends["t1"].tick) == ({"kind": "quota"}, 1)


def test_ends_of_frames_that_are_closed_are_forgotten() -> None:
    state = after(ended("t1"), ended("t2"), frames=("t1", "t2"))
    assert list(turns.on_evaluation(state, [OpenFrame(frame_id="t2")], ("t1", "t2")).ends) == ["t2"]


def test_work_changes_nothing() -> None:
    assert after(Activity(session="s")) == TurnState()


class TurnMachine(RuleBasedStateMachine):
    """A file and hooks that tell of the same turns, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TurnState()
        self.tick = 0
        self.open: tuple[OpenFrame, ...] = ()
        self.recorded: tuple[str, ...] = ()

    def _take(self, fact: Fact, *, history: bool) -> None:
        self.state = turns.on_fact(self.state, fact, "rollout", self.tick, self.open, self.recorded, history=history)

    @rule(frame=FRAME_IDS, history=st.booleans())
    def file_starts(self, frame: str, history: bool) -> None:
        self._take(started(frame), history=history)
        assert self.state.newest == frame

    @rule(frame=FRAME_IDS, history=st.booleans())
    def file_ends(self, frame: str, history: bool) -> None:
        self._take(ended(frame), history=history)

    @rule(frame=FRAME_IDS)
    def hook_opens(self, frame: str) -> None:
        if all(one.frame_id != frame for one in self.open):
            self.open = (*self.open, OpenFrame(frame_id=frame))
        self.recorded = (*self.recorded, frame)
        self.state = turns.on_opened(turns.on_hook(self.state), frame, None)
        assert self.state.unannounced == {}

    @rule(frame=FRAME_IDS)
    def hook_closes(self, frame: str) -> None:
        self.open = tuple(one for one in self.open if one.frame_id != frame)
        self.state = turns.on_hook(self.state)

    @rule()
    def evaluate(self) -> None:
        self.tick += 1
        self.state = turns.on_evaluation(self.state, self.open, self.recorded)
        assert not (self.state.ends.keys() & {*self.recorded}) - {one.frame_id for one in self.open}

    @invariant()
    def no_turn_on_record_is_unannounced(self) -> None:
        assert not self.state.unannounced.keys() & set(self.recorded)

    @invariant()
    def nothing_is_both_unannounced_and_ended_before(self) -> None:
        assert all(seen.tick <= self.tick for seen in self.state.ends.values())
        assert all(tick <= self.tick for tick in self.state.unannounced.values())


TestTurnMachine = TurnMachine.TestCase
