"""When somebody was heard, and what telemetry shows without them."""

from hypothesis import given
from hypothesis import strategies as st

from lifebus_adapters.shared.telemetry import Activity, Fact, TurnStarted, Usage
from lifebus_supervisor.supervision.monitor import hooks
from lifebus_supervisor.supervision.monitor.hooks import HookState

WORK = Activity(session="s")


def after(
    *ticks: int,
    fact: Fact = WORK,
    in_frame: bool = False,
    in_turn: bool = False,
    settled: bool = True,
    history: bool = False,
    state: HookState | None = None,
) -> HookState:
    state = state or HookState()
    for tick in ticks:
        state = hooks.on_fact(state, fact, tick, in_frame=in_frame, in_turn=in_turn, settled=settled, history=history)
    return state


def test_work_outside_every_turn_is_uncovered_and_counted_by_ticks() -> None:
    state = after(3, 3, 5)
    assert (state.uncovered_since_tick, state.uncovered_ticks, state.proves_silence) == (3, 2, True)
    assert not after(3, 3).proves_silence


def test_work_in_a_frame_in_a_turn_soon_after_a_hook_or_long_ago_is_covered() -> None:
    assert after(1, 2, in_frame=True) == HookState()
    assert after(1, 2, in_turn=True) == HookState()
    assert after(1, 2, settled=False) == HookState()
    assert after(1, 2, history=True) == HookState()


def test_a_turn_without_a_name_is_work_and_one_that_compacts_is_not() -> None:
    state = after(1, fact=TurnStarted(session="s"), in_turn=True)
    assert (state.uncovered_ticks, state.proves_silence) == (1, True)
    hooked = hooks.on_hook(HookState(), "Stop", 7.0)
    assert not after(1, fact=TurnStarted(session="s"), state=hooked).proves_silence
    assert after(1, fact=TurnStarted(session="s", compacting=True)) == HookState()
    assert after(1, fact=TurnStarted(session="s", frame_id="t1")) == HookState()


def test_numbers_are_no_work() -> None:
    assert after(1, 2, fact=Usage(session="s", used_tokens=1, used_source="x")) == HookState()


@given(st.lists(st.integers(0, 5), max_size=8))
def test_a_hook_covers_whatever_was_seen_before(ticks: list[int]) -> None:
    state = hooks.on_hook(after(*sorted(ticks)), "Stop", 7.0)
    assert state == HookState(last_hook="Stop", last_hook_at=7.0, reported_at=7.0)


@given(st.lists(st.integers(0, 9), max_size=12))
def test_each_tick_with_work_counts_once(ticks: list[int]) -> None:
    state = after(*sorted(ticks))
    assert state.uncovered_ticks == len(set(ticks))
    assert state.uncovered_since_tick == min(ticks, default=None)


def test_an_app_reports_by_itself_only_where_no_hook_does() -> None:
    assert hooks.on_app(HookState(), hooked=False, now=3.0) == HookState(by_app=True, reported_at=3.0)
    assert not hooks.on_app(HookState(), hooked=True, now=3.0).by_app
    assert hooks.on_app(HookState(reported_at=1.0), hooked=False, now=None).reported_at == 1.0
    assert not hooks.on_hooked_session(HookState(by_app=True)).by_app
