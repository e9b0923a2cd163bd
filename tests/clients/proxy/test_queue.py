"""The observer's backlog: bounded, in order, numbered without holes, and honest about what it drops."""

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


def drained(backlog: ObservationQueue) -> list[Observation]:
    """Send everything, each batch at once durable."""
    told: list[Observation] = []
    while (batch := backlog.batch()) is not None:
        assert batch.first == len(told) + 1
        told += batch.observations
        backlog.settle(len(told))
    return told


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 70_000)), max_size=60))
def test_everything_is_told_in_order_in_messages_that_the_door_takes(sizes: list[tuple[bool, int]]) -> None:
    put = [signal(number, size) if is_signal else fact(number) for number, (is_signal, size) in enumerate(sizes)]
    backlog = ObservationQueue()
    for one in put:
        backlog.add(one)
    told: list[Observation] = []
    while (batch := backlog.batch()) is not None:
        message = Observe(
            client_id="c" * 256, adapter_id="a", origin="o" * 256, first=batch.first, observations=batch.observations
        )
        assert len(encode_msgpack(message)) <= MAX_MESSAGE_BYTES
        told += batch.observations
        backlog.settle(batch.first + len(batch.observations) - 1)
    assert told == put


def test_a_batch_stays_the_same_until_it_is_settled() -> None:
    backlog = ObservationQueue()
    for number in range(3):
        backlog.add(signal(number))
    before = backlog.batch()
    backlog.add(signal(3))
    assert backlog.batch() == before
    backlog.settle(2)
    assert backlog.batch() == ObservationBatch(3, (signal(2),))
    backlog.settle(3)
    assert backlog.batch() == ObservationBatch(4, (signal(3),))


def test_signals_are_dropped_before_facts_and_stand_there_as_one_loss() -> None:
    backlog = ObservationQueue()
    for number in range(limits.MAX_COUNT + 1):
        backlog.add(fact(number) if number % 1_000 == 0 else signal(number))
    told = drained(backlog)
    facts = [one for one in told if isinstance(one, ObservedFact)]
    lost = [one for one in told if isinstance(one, ObservedLoss)]
    assert facts == [fact(number) for number in range(0, limits.MAX_COUNT + 1, 1_000)]
    assert sum(one.messages for one in lost) == limits.MAX_COUNT + 1 - len(facts)
    assert sum(one.bytes for one in lost) == 10 * sum(one.messages for one in lost)
    assert not any(isinstance(one, ObservedLoss) and isinstance(other, ObservedLoss) for one, other in pairwise(told))


def test_facts_without_end_are_dropped_too() -> None:
    backlog = ObservationQueue()
    for number in range(3 * limits.MAX_COUNT):
        backlog.add(fact(number))
    assert len(backlog) <= limits.MAX_COUNT
    told = drained(backlog)
    lost = sum(one.messages for one in told if isinstance(one, ObservedLoss))
    assert lost + sum(isinstance(one, ObservedFact) for one in told) == 3 * limits.MAX_COUNT


def test_bytes_are_bounded_as_well() -> None:
    backlog = ObservationQueue()
    for number in range(400):
        backlog.add(signal(number, 65_536))
    assert backlog.left().messages == 400
    assert sum(len(one.signal) for one in drained(backlog) if isinstance(one, ObservedSignal)) <= limits.MAX_BYTES


def test_the_one_that_the_broker_never_takes_is_counted_and_its_neighbours_are_told() -> None:
    backlog = ObservationQueue()
    put = [signal(number) for number in range(9)]
    for one in put:
        backlog.add(one)
    told: list[Observation] = []
    while (batch := backlog.batch()) is not None:
        if put[5] in batch.observations:
            backlog.refuse()
        else:
            assert batch.first == len(told) + 1
            told += batch.observations
            backlog.settle(len(told))
    assert told == [*put[:5], ObservedLoss(messages=1, bytes=10), *put[6:]]


def test_a_loss_that_is_refused_itself_is_let_go() -> None:
    backlog = ObservationQueue()
    backlog.add(ObservedLoss(bytes=1))
    backlog.batch()
    backlog.refuse()
    assert backlog.batch() is None


def test_what_is_left_at_the_end_is_all_that_was_not_told() -> None:
    backlog = ObservationQueue()
    for one in (signal(1), ObservedLoss(messages=2, bytes=5), ObservedExit(exit_code=0)):
        backlog.add(one)
    backlog.batch()
    assert backlog.left() == ObservedLoss(messages=4, bytes=15)
    assert len(backlog) == 3
