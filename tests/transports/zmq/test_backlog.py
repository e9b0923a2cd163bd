"""What waits to be served: each connection in its turn, its messages in their order, never more than the bounds."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lifebus_transports.zmq.backlog import MAX_PEER_MESSAGES, Backlog
from support.effort import effort

ROOM, SHARE = 1_000, 400


def taken(backlog: Backlog[str]) -> list[str]:
    taken = []
    while backlog:
        taken.append(backlog.take())
    return taken


def test_each_connection_has_its_turn_and_its_messages_keep_their_order() -> None:
    backlog: Backlog[str] = Backlog()
    for message in ("a1", "a2", "a3", "b1", "c1", "c2"):
        assert backlog.put(message[:1].encode(), message, 10)
    assert taken(backlog) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_connection_has_its_share_and_a_new_one_is_heard_all_the_same() -> None:
    backlog: Backlog[str] = Backlog(ROOM, SHARE)
    assert backlog.put(b"a", "a1", 300)
    assert not backlog.put(b"a", "a2", 101)
    assert backlog.put(b"a", "a3", 100)
    assert all(backlog.put(peer, "first", 300) for peer in (b"b", b"c"))
    assert not backlog.put(b"b", "second", 100), "the third part of the room is less than the share of one"
    assert backlog.put(b"d", "first", 300), "there is a first message of everybody"
    assert backlog.size == 1_300


def test_beyond_twice_the_room_not_even_a_first_message_waits() -> None:
    backlog: Backlog[str] = Backlog(ROOM, SHARE)
    assert [backlog.put(b"%d" % peer, "first", 300) for peer in range(8)] == [True] * 6 + [False] * 2


def test_many_messages_without_a_byte_are_bounded_as_well() -> None:
    backlog: Backlog[int] = Backlog()
    assert sum(backlog.put(b"a", number, 0) for number in range(MAX_PEER_MESSAGES + 5)) == MAX_PEER_MESSAGES


def test_what_a_connection_left_is_dropped_and_its_room_is_free_again() -> None:
    backlog: Backlog[str] = Backlog()
    for message in ("a1", "b1", "a2"):
        backlog.put(message[:1].encode(), message, 10)
    assert (backlog.drop(b"a"), backlog.drop(b"a"), backlog.size) == (2, 0, 10)
    assert taken(backlog) == ["b1"]
    with pytest.raises(KeyError):
        backlog.take()


class BacklogMachine(RuleBasedStateMachine):
    """Compared with a list of queues, whose first one is served next."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog: Backlog[int] = Backlog(ROOM, SHARE)
        self.queues: dict[bytes, deque[tuple[int, int]]] = {}
        self.turns: list[bytes] = []
        self.number = 0

    @rule(peer=st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), size=st.integers(0, 350))
    def put(self, peer: bytes, size: int) -> None:
        self.number += 1
        queue = self.queues.get(peer)
        if queue is None:
            fits = self.total() + size <= 2 * ROOM
        else:
            fits = sum(size for _, size in queue) + size <= min(SHARE, ROOM // len(self.queues))
        assert self.backlog.put(peer, self.number, size) == fits
        if fits:
            if queue is None:
                self.turns.append(peer)
            self.queues.setdefault(peer, deque()).append((self.number, size))

    @rule()
    def take(self) -> None:
        if not self.turns:
            assert not self.backlog
            return
        peer = self.turns.pop(0)
        assert self.backlog.take() == self.queues[peer].popleft()[0]
        if self.queues[peer]:
            self.turns.append(peer)
        else:
            del self.queues[peer]

    @rule(peer=st.sampled_from([b"a", b"c", b"e"]))
    def drop(self, peer: bytes) -> None:
        assert self.backlog.drop(peer) == len(self.queues.pop(peer, ()))
        self.turns = [other for other in self.turns if other != peer]

    @invariant()
    def the_sizes_add_up(self) -> None:
        assert self.backlog.size == self.total()

    def total(self) -> int:
        return sum(size for queue in self.queues.values() for _, size in queue)


TestBacklogAgainstAModel = BacklogMachine.TestCase
TestBacklogAgainstAModel.settings = settings(max_examples=effort(60, 2_000), deadline=None)
