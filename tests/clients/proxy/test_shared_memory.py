"""The memory between proxy and observer: what is recorded is what was read, and what is not recorded is counted."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.observer.recording import Chunk, Ending, Recording
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
    put, seen = [], []
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
    assert pair.recording.ending() == Ending(-9, {"in": 3 * CHUNK_BYTES, "out": 0})


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
