"""The observer's queue: bounded, in order, numbered without holes, and honest about what it drops."""

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
)


def signal(number: int, size: int = 10) -> ObservedSignal:
    return ObservedSignal(thread="t", event_type=f"app_server.{number}", signal=b"x" * size)


def fact(number: int) -> ObservedFact:
    return ObservedFact(fact={"type": "TurnStarted", "session": f"s{number}"})


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
    put = [signal(number, size) if is_signal else fact(number) for number, (is_signal, size) in enumerate(sizes)]
    queue = ObservationQueue()
    for one in put:
        queue.add(one)
    sent: list[Observation] = []
    while (batch := queue.batch()) is not None:
        message = Observe(
            client_id="c" * 256, adapter_id="a", origin="o" * 256, first=batch.first, observations=batch.observations
        )
        assert len(encode_msgpack(message)) <= MAX_MESSAGE_BYTES
        sent += batch.observations
        queue.acknowledge(batch.first + len(batch.observations) - 1)
    assert sent == put


def test_a_batch_stays_the_same_until_it_is_acknowledged() -> None:
    queue = ObservationQueue()
    for number in range(3):
        queue.add(signal(number))
    before = queue.batch()
    queue.add(signal(3))
    assert queue.batch() == before
    queue.acknowledge(2)
    assert queue.batch() == ObservationBatch(3, (signal(2),))
    queue.acknowledge(3)
    assert queue.batch() == ObservationBatch(4, (signal(3),))


def test_signals_are_dropped_before_facts_and_stand_there_as_one_loss() -> None:
    queue = ObservationQueue()
    for number in range(limits.MAX_COUNT + 1):
        queue.add(fact(number) if number % 1_000 == 0 else signal(number))
    sent = drained(queue)
    facts = [one for one in sent if isinstance(one, ObservedFact)]
    lost = [one for one in sent if isinstance(one, ObservedLoss)]
    assert facts == [fact(number) for number in range(0, limits.MAX_COUNT + 1, 1_000)]
    assert sum(one.messages for one in lost) == limits.MAX_COUNT + 1 - len(facts)
    assert sum(one.bytes for one in lost) == 10 * sum(one.messages for one in lost)
    assert not any(isinstance(one, ObservedLoss) and isinstance(other, ObservedLoss) for one, other in pairwise(sent))


def test_facts_without_end_are_dropped_too() -> None:
    queue = ObservationQueue()
    for number in range(3 * limits.MAX_COUNT):
        queue.add(fact(number))
    assert len(queue) <= limits.MAX_COUNT
    sent = drained(queue)
    lost = sum(one.messages for one in sent if isinstance(one, ObservedLoss))
    assert lost + sum(isinstance(one, ObservedFact) for one in sent) == 3 * limits.MAX_COUNT


def test_bytes_are_bounded_as_well() -> None:
    queue = ObservationQueue()
    for number in range(400):
        queue.add(signal(number, 65_536))
    assert queue.remaining().messages == 400
    assert sum(len(one.signal) for one in drained(queue) if isinstance(one, ObservedSignal)) <= limits.MAX_BYTES


def test_the_one_that_the_broker_never_takes_is_counted_and_its_neighbours_are_sent() -> None:
    queue = ObservationQueue()
    put = [signal(number) for number in range(9)]
    for one in put:
        queue.add(one)
    sent: list[Observation] = []
    while (batch := queue.batch()) is not None:
        if put[5] in batch.observations:
            queue.refuse()
        else:
            assert batch.first == len(sent) + 1
            sent += batch.observations
            queue.acknowledge(len(sent))
    assert sent == [*put[:5], ObservedLoss(messages=1, bytes=10), *put[6:]]


def test_a_loss_that_is_refused_itself_is_let_go() -> None:
    queue = ObservationQueue()
    queue.add(ObservedLoss(bytes=1))
    queue.batch()
    queue.refuse()
    assert queue.batch() is None


def test_what_is_left_at_the_end_is_all_that_was_not_sent() -> None:
    queue = ObservationQueue()
    for one in (signal(1), ObservedLoss(messages=2, bytes=5), ObservedExit(exit_code=0)):
        queue.add(one)
    queue.batch()
    assert queue.remaining() == ObservedLoss(messages=4, bytes=15)
    assert len(queue) == 3
