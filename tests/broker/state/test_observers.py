"""How far the observations of each origin are recorded: a reducer of records, which may be summed up at any time."""

from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.state.observers import MAX_ORIGINS, Origins, encode_throughs

NOTES = st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 100), max_size=3), max_size=20)


def replayed(bodies: list[bytes]) -> Origins:
    origins = Origins()
    for body in bodies:
        origins.apply(body)
    return origins


@given(NOTES, st.integers(0, 20), st.integers(0, 20))
def test_a_summary_stands_for_the_notes_before_it_wherever_it_is_written(
    reported: list[dict[str, int]], summed: int, written: int
) -> None:
    bodies = [encode_throughs(one) for one in reported]
    summed = min(summed, len(bodies))
    written = max(summed, min(written, len(bodies)))
    summary = replayed(bodies[:summed]).summary()
    pruned = [*bodies[summed:written], summary, *bodies[written:]]
    whole, short = replayed(bodies), replayed(pruned)
    assert [short.through(name) for name in "abcde"] == [whole.through(name) for name in "abcde"]


def test_the_origin_that_was_silent_longest_is_forgotten_first() -> None:
    origins = Origins()
    for number in range(MAX_ORIGINS):
        origins.apply(encode_throughs({f"o{number}": 1}))
    origins.apply(encode_throughs({"o0": 2}))
    origins.apply(encode_throughs({"new": 1}))
    assert [origins.through(name) for name in ("o0", "o1", "o2", "new")] == [2, 0, 1, 1]
