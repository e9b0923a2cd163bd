"""The memory between proxy and observer: what is recorded is what was read, and what is not recorded is counted."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.observer.recording import DIRECTIONS, Chunk, Ending, Recording
from lifebus.proxy.shared_memory import CHUNK_BYTES, IN, OUT, RING_BYTES, SharedMemory


class Pair:
    """Both sides of one memory, in one process."""

    def __init__(self) -> None:
        self.memory = SharedMemory()
        self.recording = Recording(self.memory.file, self.memory.records)

    def put(self, direction: int, data: bytes) -> None:
        ring = self.memory.rings[direction]
        ring.reserve()[: len(data)] = data
        ring.commit(len(data))

    def take(self) -> list[Chunk]:
        found: list[Chunk] = []
        while chunks := self.recording.read():
            found += chunks
        return found

    def close(self, code: int | None = 0) -> None:
        if code is None:
            os.close(self.memory.writer)
        else:
            self.memory.close(code)
        assert self.take() == []
        assert self.recording.read() is None
        self.memory.close_reading_end()
        os.close(self.memory.file)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([IN, OUT]), st.integers(1, CHUNK_BYTES), st.booleans()), max_size=400))
def test_an_observer_that_keeps_up_gets_every_byte_in_the_order_in_which_it_came(
    steps: list[tuple[int, int, bool]],
) -> None:
    pair = Pair()
    put: list[tuple[str, bytes]] = []
    seen: list[Chunk] = []
    for number, (direction, length, look) in enumerate(steps):
        data = bytes([number % 256]) * length
        put.append((("in", "out")[direction], data))
        pair.put(direction, data)
        if look or number % 64 == 63:
            seen += pair.take()
    seen += pair.take()
    assert [(chunk.direction, chunk.data) for chunk in seen] == put
    assert all(chunk.lost == 0 for chunk in seen)
    pair.close()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, CHUNK_BYTES), st.booleans()), max_size=12))
def test_of_an_observer_that_does_not_keep_up_every_byte_is_seen_or_counted(
    bursts: list[tuple[int, int, bool]],
) -> None:
    pair = Pair()
    put = seen = lost = 0
    for count, length, look in bursts:
        for _ in range(count):
            pair.put(OUT, b"x" * length)
            put += length
        for chunk in pair.take() if look else ():
            seen, lost = seen + len(chunk.data), lost + chunk.lost
    for chunk in pair.take():
        seen, lost = seen + len(chunk.data), lost + chunk.lost
    pair.put(OUT, b"whoever has caught up is seen once more")
    for chunk in pair.take():
        seen, lost = seen + len(chunk.data), lost + chunk.lost
    assert seen + lost == put + len(b"whoever has caught up is seen once more")
    assert pair.recording.ending().lost == {"in": 0, "out": 0}
    pair.close()


def test_what_is_lost_at_the_very_end_and_how_it_ended_stand_in_the_head() -> None:
    pair = Pair()
    for _ in range(RING_BYTES // CHUNK_BYTES + 3):
        pair.put(IN, b"x" * CHUNK_BYTES)
    pair.take()
    pair.close(-9)
    ending = pair.recording.ending()
    assert ending == Ending(-9, {"in": 3 * CHUNK_BYTES, "out": 0}, at_ms=ending.at_ms)
    assert ending.at_ms is not None


def test_a_proxy_that_says_nothing_at_its_end_was_killed() -> None:
    pair = Pair()
    pair.close(None)
    assert pair.recording.ending().code is None


def test_without_an_observer_nothing_is_recorded_any_more_and_bytes_still_find_room() -> None:
    pair = Pair()
    pair.memory.close_reading_end()
    for _ in range(3):
        pair.put(OUT, b"x" * CHUNK_BYTES)
    pair.memory.close(0)
    assert pair.recording.ending().lost["out"] == 3 * CHUNK_BYTES
    os.close(pair.memory.file)


def test_room_is_decided_after_the_read_which_may_have_waited_long() -> None:
    pair = Pair()
    for _ in range(RING_BYTES // CHUNK_BYTES + 3):
        pair.put(OUT, b"x" * CHUNK_BYTES)
    ring = pair.memory.rings[OUT]
    room = ring.reserve()  # the proxy waits for bytes, in the spare buffer
    pair.take()
    room[:6] = b"later\n"
    ring.commit(6)
    came = [(chunk.data, chunk.lost, chunk.begins_line) for chunk in pair.take()]
    assert came == [(b"later\n", 3 * CHUNK_BYTES, False)]
    pair.close()


def test_whether_a_chunk_begins_a_line_is_known_also_where_what_was_before_is_missing() -> None:
    pair = Pair()
    pair.put(OUT, b"x" * CHUNK_BYTES)
    for _ in range(RING_BYTES // CHUNK_BYTES):
        pair.put(OUT, b"x" * (CHUNK_BYTES - 1) + b"\n")
    pair.take()
    pair.put(OUT, b"a line\n")
    (chunk,) = pair.take()
    assert (chunk.data, chunk.begins_line) == (b"a line\n", True)
    assert chunk.lost > 0
    pair.close()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([IN, OUT]), st.integers(1, CHUNK_BYTES), st.booleans()), max_size=100),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_an_observer_that_takes_over_gets_what_was_left_unread_and_counts_what_was_not_reported(
    steps: list[tuple[int, int, bool]], reported: int, killed: int
) -> None:
    pair = Pair()
    passed, at = dict.fromkeys(DIRECTIONS, 0), (0, 0)
    for number, (direction, length, look) in enumerate(steps):
        pair.put(direction, b"x" * length)
        passed[DIRECTIONS[direction]] += length
        if number == reported:
            pair.take()
            at = (passed["in"], passed["out"])
            pair.recording.report(at)
        elif look and number < killed:
            pair.take()  # read, and lost with the first observer
    pair.recording = Recording(pair.memory.file, pair.memory.records, is_first=False)
    seen, lost = dict.fromkeys(DIRECTIONS, 0), dict.fromkeys(DIRECTIONS, 0)
    for chunk in pair.take():
        seen[chunk.direction] += len(chunk.data)
        lost[chunk.direction] += chunk.lost
    pair.close()
    ending = pair.recording.ending().lost
    for name, before in zip(DIRECTIONS, at, strict=True):
        assert before + seen[name] + lost[name] + ending[name] == passed[name]
