"""What is dropped is decided by pure functions: age, size and space, and never more than they ask for."""

from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.ledger.retention import LEAST_ROWS, Held, Limits, PruneDecision, decide, excess, is_short

MIB = 1_048_576
NO_LIMIT = Limits()


def held(**changes: int) -> Held:
    return Held(**{"head": 100_000, "floor": 0, "bytes": 50 * MIB, **changes})


def nothing_to_free(_: int) -> int:
    raise AssertionError("nobody asked for space")


def test_without_limits_everything_stays() -> None:
    assert decide(held(aged=100_000), NO_LIMIT, nothing_to_free) is None


def test_what_is_too_old_goes_even_all_of_it() -> None:
    limits = Limits(keep_s=60)
    assert decide(held(aged=0), limits, nothing_to_free) is None
    assert decide(held(aged=7), limits, nothing_to_free) == PruneDecision(7, "age")
    assert decide(held(aged=100_000), limits, nothing_to_free) == PruneDecision(100_000, "age")


def test_what_was_dropped_is_not_dropped_again() -> None:
    assert decide(held(aged=7, floor=7), Limits(keep_s=60), nothing_to_free) is None


def test_what_is_too_much_goes_with_a_tenth_to_grow_into() -> None:
    wanted: list[int] = []

    def lighten(count: int) -> int:
        wanted.append(count)
        return 5_000

    assert decide(held(), Limits(keep_bytes=40 * MIB), lighten) == PruneDecision(5_000, "size")
    assert wanted == [14 * MIB]
    assert decide(held(), Limits(keep_bytes=50 * MIB), nothing_to_free) is None


def test_the_newest_receipts_are_not_taken_for_their_size() -> None:
    assert decide(held(), Limits(keep_bytes=1), lambda _: 100_000) == PruneDecision(100_000 - LEAST_ROWS, "size")
    assert decide(held(head=LEAST_ROWS), Limits(keep_bytes=1), lambda _: LEAST_ROWS) is None


def test_space_is_short_below_the_smaller_of_the_two_bounds() -> None:
    assert is_short(free=63 * MIB, total=100_000 * MIB, spare=64 * MIB)
    assert not is_short(free=64 * MIB, total=100_000 * MIB, spare=64 * MIB)
    assert not is_short(free=20 * MIB, total=1_000 * MIB, spare=64 * MIB)
    assert is_short(free=9 * MIB, total=1_000 * MIB, spare=64 * MIB)
    assert not is_short(free=0, total=1_000 * MIB, spare=0)


@given(st.data())
def test_a_cut_moves_the_floor_up_and_never_past_the_head(data: st.DataObject) -> None:
    head = data.draw(st.integers(0, 10_000))
    floor = data.draw(st.integers(0, head))
    what = held(head=head, floor=floor, bytes=data.draw(st.integers(0, 100)), aged=data.draw(st.integers(0, head + 5)))
    limits = Limits(keep_s=data.draw(st.sampled_from([None, 1])), keep_bytes=data.draw(st.sampled_from([None, 50])))
    cut = decide(what, limits, lambda count: floor + count)
    if cut is None:
        assert limits.keep_s is None or what.aged <= floor or head == floor
    else:
        assert floor < cut.floor <= head
        assert cut.reason == "age" or cut.floor <= head - LEAST_ROWS
        assert cut.reason != "size" or excess(what, limits.keep_bytes) > 0
