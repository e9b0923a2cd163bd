"""The observer's queue: bounded, in order, numbered without holes, and honest about what it drops."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lifebus.observer import queue as limits
from lifebus.observer.queue import ObservationBatch, ObservationQueue
from lifebus_contract import encode_msgpack
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.messages.signals import (
    Observation,
    Observe,
    ObservedExit,
    ObservedFact,
    ObservedLoss,
    ObservedSignal,
    ObservedTurn,
)


def signal(number: int, size: int = 10) -> ObservedSignal:
    return ObservedSignal(thread="t", event_type=f"app_server.{number}", signal=b"x" * size)


def fact(number: int) -> ObservedFact:
    return ObservedFact(fact={"type": "TurnStarted", "session": f"s{number}"})


def put(queue: ObservationQueue, one: Observation) -> None:
    """Queue what one message says, alone: with it so many bytes of the wire are lost."""
    queue.add(one, WEIGHT)


WEIGHT = ObservedLoss(messages=1, bytes=7)


def messages_of(sent: Sequence[Observation]) -> int:
    """How many messages are counted as lost; all of them are known here."""
    counts = [one.messages for one in sent if isinstance(one, ObservedLoss)]
    known = [count for count in counts if count is not None]
    assert len(known) == len(counts)
    return sum(known)


def drained(queue: ObservationQueue) -> list[Observation]:
    """Send everything, each batch at once durable."""
    sent: list[Observation] = []
    while (batch := queue.batch()) is not None:
        assert batch.first == len(sent) + 1
        sent += batch.observations
        queue.acknowledge(len(sent))
    return sent


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 70_000)), max_size=60))
def test_everything_is_sent_in_order_in_messages_that_the_server_takes(sizes: list[tuple[bool, int]]) -> None:
    made = [signal(number, size) if is_signal else fact(number) for number, (is_signal, size) in enumerate(sizes)]
    queue = ObservationQueue()
    for one in made:
        put(queue, one)
    sent: list[Observation] = []
    while (batch := queue.batch()) is not None:
        message = Observe(
            client_id="c" * 256, adapter_id="a", origin="o" * 256, first=batch.first, observations=batch.observations
        )
        assert len(encode_msgpack(message)) <= MAX_MESSAGE_BYTES
        sent += batch.observations
        queue.acknowledge(batch.first + len(batch.observations) - 1)
    assert sent == made


def test_a_batch_stays_the_same_until_it_is_acknowledged() -> None:
    queue = ObservationQueue()
    for number in range(3):
        put(queue, signal(number))
    before = queue.batch()
    put(queue, signal(3))
    assert queue.batch() == before
    queue.acknowledge(2)
    assert queue.batch() == ObservationBatch(3, (signal(2),))
    queue.acknowledge(3)
    assert queue.batch() == ObservationBatch(4, (signal(3),))


def test_signals_are_dropped_before_facts_and_stand_there_as_one_loss() -> None:
    queue = ObservationQueue()
    for number in range(limits.MAX_COUNT + 1):
        put(queue, fact(number) if number % 1_000 == 0 else signal(number))
    sent = drained(queue)
    facts = [one for one in sent if isinstance(one, ObservedFact)]
    lost = [one for one in sent if isinstance(one, ObservedLoss)]
    assert facts == [fact(number) for number in range(0, limits.MAX_COUNT + 1, 1_000)]
    assert messages_of(lost) == limits.MAX_COUNT + 1 - len(facts)
    assert sum(one.bytes for one in lost) == 7 * messages_of(lost)
    assert not any(isinstance(one, ObservedLoss) and isinstance(other, ObservedLoss) for one, other in pairwise(sent))


def test_facts_without_end_are_dropped_too() -> None:
    queue = ObservationQueue()
    for number in range(3 * limits.MAX_COUNT):
        put(queue, fact(number))
    assert len(queue) <= limits.MAX_COUNT
    sent = drained(queue)
    lost = messages_of(sent)
    assert lost + sum(isinstance(one, ObservedFact) for one in sent) == 3 * limits.MAX_COUNT


def test_bytes_are_bounded_as_well() -> None:
    queue = ObservationQueue()
    for number in range(400):
        put(queue, signal(number, 65_536))
    assert queue.remaining().messages == 400
    assert sum(len(one.signal) for one in drained(queue) if isinstance(one, ObservedSignal)) <= limits.MAX_BYTES


def test_the_one_that_the_broker_never_takes_is_counted_and_its_neighbours_are_sent() -> None:
    queue = ObservationQueue()
    made = [signal(number) for number in range(9)]
    for one in made:
        put(queue, one)
    sent: list[Observation] = []
    while (batch := queue.batch()) is not None:
        if made[5] in batch.observations:
            queue.refuse()
        else:
            assert batch.first == len(sent) + 1
            sent += batch.observations
            queue.acknowledge(len(sent))
    assert sent == [*made[:5], WEIGHT, *made[6:]]


def test_a_loss_that_is_refused_itself_is_let_go() -> None:
    queue = ObservationQueue()
    queue.add(ObservedLoss(bytes=1))
    queue.batch()
    queue.refuse()
    assert queue.batch() is None


def test_what_is_left_at_the_end_is_all_that_was_not_sent() -> None:
    queue = ObservationQueue()
    for one in (signal(1), ObservedLoss(messages=2, bytes=5)):
        put(queue, one)
    queue.add(ObservedExit(exit_code=0))
    queue.batch()
    assert queue.remaining() == ObservedLoss(messages=3, bytes=12)
    assert len(queue) == 3


def test_a_number_of_messages_that_nobody_knows_stays_unknown() -> None:
    queue = ObservationQueue()
    for one in (signal(1), ObservedLoss(messages=None, bytes=5), signal(2)):
        put(queue, one)
    assert queue.remaining() == ObservedLoss(messages=None, bytes=19)


def test_a_message_that_says_two_things_is_lost_once() -> None:
    queue = ObservationQueue()
    put(queue, signal(1))
    queue.add(fact(1))
    assert queue.remaining() == WEIGHT


def test_a_broker_that_does_not_know_the_unknown_number_gets_the_loss_without_it() -> None:
    queue = ObservationQueue()
    queue.add(ObservedLoss(messages=None, bytes=5))
    queue.batch()
    queue.refuse()
    batch = queue.batch()
    assert batch is not None
    assert batch.observations == (ObservedLoss(bytes=5),)


def test_what_is_reported_is_what_the_broker_has_from_the_beginning_on() -> None:
    queue = ObservationQueue()
    queue.begin((3, 4))
    put(queue, signal(1))
    queue.add(fact(1), read=(3, 20))
    queue.add(signal(2), WEIGHT, read=(3, 40))
    queue.advance((9, 50))
    queue.batch()
    queue.acknowledge(1)
    assert queue.reported == (3, 4)  # the fact of the same message is not there yet
    queue.acknowledge(2)
    assert queue.reported == (3, 20)
    queue.acknowledge(3)
    assert queue.reported == (9, 50)  # nothing waits: what said nothing is done with as well


def test_what_was_reported_stays_so_when_more_comes() -> None:
    queue = ObservationQueue()
    queue.advance((30, 0))  # the client's line, which says nothing
    assert queue.reported == (30, 0)
    queue.advance((30, 20))
    queue.add(signal(1), WEIGHT, read=(30, 20))
    queue.advance((60, 20))
    assert queue.reported == (30, 0)  # and not the second line, which came behind what waits
    queue.batch()
    queue.acknowledge(1)
    assert queue.reported == (60, 20)


def test_the_end_of_a_workers_turn_is_kept_whatever_is_dropped() -> None:
    queue = ObservationQueue()
    begun = ObservedTurn(thread="w", turn="u", status="inProgress")
    end = ObservedTurn(thread="w", turn="u", status="completed")
    for one in (begun, end):
        queue.add(one)
    for number in range(3 * limits.MAX_COUNT):
        put(queue, fact(number))
    kept = []
    through = 0
    while (batch := queue.batch()) is not None:
        kept += [one for one in batch.observations if isinstance(one, ObservedTurn)]
        through += len(batch.observations)
        queue.acknowledge(through)
    assert kept == [end]
