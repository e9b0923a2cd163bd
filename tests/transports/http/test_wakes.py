"""When followers are woken: at once after a pause, together while a lot is recorded, and never later than the pace."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lifebus_transports.http.following.topics import Filters, parse_topic, topics_of
from lifebus_transports.http.following.wakes import PACE_S, Waiter, Wakes

RECEIPTS = topics_of(("receipts",), None, Filters())
SHORT_S = 0.002
"""What may lie between two wakes of one follower while little is recorded."""


class ManualLoop:
    """A loop whose time is what a test says; it knows timers alone."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Any:
        assert delay >= 0
        self._timers.append((self.now + delay, callback))
        # Nobody closes these wakes: there is nothing to cancel, but a timer that runs is no None.
        return self

    def run_until(self, until: float) -> None:
        """Let time pass."""
        while due := sorted((one for one in self._timers if one[0] <= until), key=lambda one: one[0])[:1]:
            self._timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


class Crowd:
    """Followers of all receipts, and the times at which they were woken."""

    def __init__(self, count: int) -> None:
        self.loop = ManualLoop()
        self.woken: list[float] = []
        self.wakes = Wakes(lambda _: self.woken.append(self.loop.now), self.loop)
        self.waiters = [Waiter() for _ in range(count)]
        self._stack = ExitStack()
        for one in self.waiters:
            self._stack.enter_context(self.wakes.waiting(RECEIPTS, one))

    def record(self) -> float:
        """Have a receipt be recorded now, and what is due now be done; return when that was."""
        self.wakes.receipts_recorded([])
        at = self.loop.now
        self.loop.run_until(at)
        return at

    def has_news(self) -> list[bool]:
        """Whether each of them is woken; they look."""
        return [bool(one.event.is_set() and one.take()) for one in self.waiters]


@pytest.mark.parametrize("count", [1, 10, 100, 5_000])
def test_what_comes_after_a_pause_wakes_at_once(count: int) -> None:
    crowd = Crowd(count)
    for _ in range(20):
        at = crowd.record()
        assert crowd.woken[-1:] == [at]
        assert crowd.has_news() == [True] * count
        crowd.loop.run_until(at + PACE_S)
    assert len(crowd.woken) == 20


def test_one_follower_of_a_few_records_waits_next_to_nothing() -> None:
    crowd = Crowd(1)
    for _ in range(100):
        at = crowd.record()
        crowd.loop.run_until(at + SHORT_S)
        assert crowd.woken[-1] <= at + SHORT_S / 2


def test_a_crowd_is_woken_less_often_than_one() -> None:
    counts: list[int] = []
    for count in (1, 100, 1_000):
        crowd = Crowd(count)
        for _ in range(1_000):
            crowd.loop.run_until(crowd.record() + 0.001)
        counts.append(len(crowd.woken))
    assert counts[0] > 5 * counts[1] > counts[2]
    assert counts[2] <= 1 + 1 / PACE_S  # what a second has


def test_while_a_lot_is_recorded_wakes_are_few_and_then_at_once_again() -> None:
    crowd = Crowd(1)
    for _ in range(10_000):
        crowd.loop.run_until(crowd.record() + 0.000_1)
    assert len(crowd.woken) < 2 / PACE_S
    for _ in range(10):
        crowd.loop.run_until(crowd.record() + 2 * PACE_S)
    at = crowd.record()
    assert crowd.woken[-1] == at
    crowd.loop.run_until(at + SHORT_S)
    assert crowd.record() == crowd.woken[-1]


@given(gaps=st.lists(st.floats(0, 2 * PACE_S), max_size=60), count=st.sampled_from([1, 3, 300]))
def test_nothing_waits_longer_than_the_pace_and_nothing_is_forgotten(gaps: list[float], count: int) -> None:
    crowd = Crowd(count)
    for gap in gaps:
        at = crowd.record()
        crowd.loop.run_until(at + gap)
        late = [one for one in crowd.woken if one >= at]
        assert late or gap < PACE_S
        assert not late or late[0] <= at + PACE_S * 1.000_001
    crowd.loop.run_until(crowd.loop.now + PACE_S)
    assert crowd.has_news() == [bool(gaps)] * count
    assert crowd.has_news() == [False] * count


def test_a_follower_learns_which_of_its_topics_have_more() -> None:
    loop = ManualLoop()
    forgotten: list[frozenset[tuple[str, str, str]]] = []
    wakes = Wakes(forgotten.append, loop)
    waiter, other = Waiter(), Waiter()
    topics = topics_of(("signals/codex/t", "queue"), None, Filters())
    with wakes.waiting(topics, waiter), wakes.waiting((parse_topic("queue", Filters()),), other):
        wakes.signals_recorded("codex", "t", ())
        wakes.signals_recorded("codex", "u", ())
        wakes.receipts_recorded([])
        loop.run_until(loop.now)
        assert (waiter.take(), other.take()) == ({topics[0].wakes}, set())
        wakes.order_changed(["queue", "transcripts"])
        loop.run_until(loop.now + PACE_S)
        assert (waiter.take(), other.take()) == ({topics[1].wakes}, {topics[1].wakes})
    # What was read of a topic that nobody follows any more may not be used again.
    assert {*forgotten[-2:]} == {frozenset({one.wakes}) for one in topics}
