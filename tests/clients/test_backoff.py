"""Pauses before asking again."""

from lifebus._internal.backoff import Backoff


def test_the_bound_of_a_pause_doubles_up_to_the_longest_and_falls_back_once_somebody_answers() -> None:
    bounds: list[float] = []

    def draw(least: float, most: float) -> float:
        assert least == 0
        bounds.append(most)
        return most / 2

    backoff = Backoff(0.5, 3.0, draw)
    assert [backoff.next() for _ in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]
    backoff.reset()
    backoff.next()
    assert bounds == [0.5, 1.0, 2.0, 3.0, 3.0, 0.5]


def test_pauses_are_spread_from_nothing_to_the_bound() -> None:
    backoff = Backoff(1.0, 1.0)
    pauses = [backoff.next() for _ in range(1000)]
    assert min(pauses) >= 0
    assert max(pauses) <= 1
    assert max(pauses) - min(pauses) > 0.5
