"""What is dropped when signals take too much room: enough, no more than that, and from those who hold most."""

from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.ports import RecordStream
from lifebus_broker.signals.quota import RECENT, to_drop

STREAMS = st.lists(
    st.builds(
        lambda kept, floor, size: (kept, floor, kept * size),
        st.integers(1, 500),
        st.integers(0, 1_000),
        st.integers(1, 5_000),
    ),
    max_size=12,
)


def streams_of(sizes: list[tuple[int, int, int]]) -> list[RecordStream]:
    return [RecordStream(f"s{place}", floor + kept, floor, size) for place, (kept, floor, size) in enumerate(sizes)]


def left(stream: RecordStream, through: int) -> int:
    """Return the bytes that stay, notes being equally large."""
    return stream.bytes * (stream.head - through) // (stream.head - stream.floor)


@given(STREAMS, st.integers(0, 4_000_000))
def test_what_stays_fits_and_only_what_is_too_much_goes(sizes: list[tuple[int, int, int]], limit: int) -> None:
    streams = streams_of(sizes)
    dropped = {stream.stream: through for stream, through in to_drop(streams, limit)}
    kept = {one.stream: left(one, dropped.get(one.stream, one.floor)) for one in streams}
    if sum(one.bytes for one in streams) <= limit:
        assert dropped == {}
        return
    assert sum(kept.values()) <= limit
    assert all(one.floor < dropped.get(one.stream, one.head + 1) for one in streams)
    assert all(through <= one.head for one in streams if (through := dropped.get(one.stream)) is not None)


@given(STREAMS, st.integers(0, 4_000_000))
def test_of_the_recent_ones_who_holds_less_than_the_others_may_keep_loses_nothing(
    sizes: list[tuple[int, int, int]], limit: int
) -> None:
    streams = streams_of(sizes)
    dropped = {stream.stream for stream, _ in to_drop(streams, limit)}
    smallest_loser = min((one.bytes for one in streams if one.stream in dropped), default=0)
    assert all(one.bytes <= smallest_loser for one in streams if dropped and one.stream not in dropped)


def test_a_loud_thread_gives_up_what_a_quiet_one_keeps() -> None:
    quiet, loud = RecordStream("quiet", 10, 0, 100), RecordStream("loud", 1_000, 0, 10_000)
    assert to_drop([quiet, loud], 1_600) == [(loud, 860)]
    assert to_drop([loud, quiet], 1_600) == [(loud, 860)]


def test_threads_that_were_silent_longest_make_room_for_the_others() -> None:
    threads = [RecordStream(f"t{number}", 10, 0, 1_000) for number in range(RECENT + 10)]
    dropped = to_drop(threads, (RECENT + 5) * 1_000)
    assert [stream.stream for stream, _ in dropped] == [f"t{number}" for number in range(RECENT + 2, RECENT + 10)]
    assert [through for _, through in dropped] == [4, *[10] * 7]


def test_old_threads_keep_nothing_once_the_recent_ones_need_all_the_room() -> None:
    threads = [RecordStream(f"t{number}", 10, 0, 1_000) for number in range(3 * RECENT)]
    assert {through for _, through in to_drop(threads, RECENT * 1_000)} == {1, 10}


def test_without_room_everything_goes() -> None:
    stream = RecordStream("s", 10, 3, 70)
    assert to_drop([stream, RecordStream("empty", 5, 5, 0)], 0) == [(stream, 10)]
