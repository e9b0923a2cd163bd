"""The clock of retention: what somebody sets on the wall drops nothing by itself."""

import pytest

from lifebus_broker.ledger.retention_clock import GRACE_S, RetentionClock

DAY = 86_400.0
START = 1_790_000_000.0
YEAR = 365 * DAY


class Clocks:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.wall, self.steady = START, 5_000.0

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def age_clock(self, newest: float | None) -> RetentionClock:
        return RetentionClock(lambda: self.wall, lambda: self.steady, None if newest is None else int(newest))


@pytest.mark.parametrize("newest", [None, START, START - 60, START - GRACE_S])
def test_as_long_as_nobody_sets_the_wall_clock_it_is_the_wall_clock(newest: float | None) -> None:
    clocks = Clocks()
    clock = clocks.age_clock(newest)
    for seconds in (0.0, 60.0, DAY, YEAR):
        clocks.go_on(seconds)
        assert clock() == pytest.approx(clocks.wall)


@pytest.mark.parametrize("newest", [None, START - 60])
@pytest.mark.parametrize("jump", [3_600.0, DAY, YEAR])
def test_a_jump_ahead_while_it_runs_ages_nothing(newest: float | None, jump: float) -> None:
    clocks = Clocks()
    clock = clocks.age_clock(newest)
    clocks.wall += jump
    assert clock() == pytest.approx(START)
    clocks.go_on(DAY)
    assert clock() == pytest.approx(START + DAY)


def test_a_jump_ahead_between_two_runs_ages_what_is_there_by_a_week_at_most() -> None:
    clocks = Clocks()
    clocks.wall += YEAR
    assert clocks.age_clock(START)() == pytest.approx(START + GRACE_S)


def test_a_clock_that_is_set_back_keeps_more_and_not_less() -> None:
    clocks = Clocks()
    clock = clocks.age_clock(START)
    clocks.wall -= DAY
    assert clock() == pytest.approx(START - DAY)


def test_receipts_from_a_future_that_was_none_do_not_take_the_clock_along() -> None:
    clocks = Clocks()
    assert clocks.age_clock(START + YEAR)() == pytest.approx(START)


def test_a_clock_that_was_not_set_yet_at_the_start_is_not_held_back_by_that() -> None:
    clocks = Clocks()
    clocks.wall = 0.0
    clock = clocks.age_clock(START - 60)
    clocks.wall = START
    assert clock() == pytest.approx(START - 60)
