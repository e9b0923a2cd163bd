"""What a consumer is handed, against a small model: nothing is skipped, whatever is acknowledged, refused or lost."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lifebus_broker.consumers.deliveries import ALONE_FROM, DeliveryState
from lifebus_broker.ports import Record
from lifebus_broker.state.consumer_state import (
    ConsumerEvicted,
    ConsumerState,
    WholeState,
    encode_record,
    reduce_consumer,
)
from lifebus_contract.consumers import MAX_TRIES, ConsumerSettings
from support.effort import effort

SETTINGS = ConsumerSettings(max_in_flight=4, ack_wait_ms=10_000, retry_ms=1_000)
START = ConsumerState(settings=SETTINGS, client_id="c", epoch="e", scanned=0)


class Consumption(RuleBasedStateMachine):
    """A ledger whose odd positions are for the consumer, and a broker that may die at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.head = 0
        self.now = 0.0
        self.notes: list[Record] = []
        self.deliveries = DeliveryState(START)
        self.held: set[int] = set()
        self.given: dict[int, int] = {}
        self.done: set[int] = set()
        self.dead: set[int] = set()
        self.write(WholeState(START))

    def write(self, note: object) -> None:
        self.notes.append(Record("cursor/n", len(self.notes) + 1, 0, msgspec.json.encode(note)))

    def hand(self, position: int) -> None:
        attempt = self.deliveries.deliver(position, self.now)
        assert position not in self.done, "what is settled never comes again while the broker lives"
        assert attempt <= MAX_TRIES
        self.held.add(position)
        self.given[position] = self.given.get(position, 0) + 1

    @rule(more=st.integers(1, 5))
    def receipts_come(self, more: int) -> None:
        self.head += more

    @rule(limit=st.integers(1, 6))
    def fetch(self, limit: int) -> None:
        self.deliveries.expire(self.now)
        for position in self.deliveries.exhausted():
            self.deliveries.give_up(position)
            self.dead.add(position)
        due = self.deliveries.due(self.now, limit)
        for position in due:
            self.hand(position)
        room = min(self.deliveries.room(self.now), limit - len(due))
        fresh = [position for position in range(self.deliveries.scanned + 1, self.head + 1) if position % 2][:room]
        for position in fresh:
            self.hand(position)
        if room > len(fresh):
            self.deliveries.scan_to(self.head)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.held))))
        self.deliveries.settle(chosen)
        self.done |= chosen
        self.held -= chosen

    @rule(data=st.data())
    def acknowledge_through(self, data: st.DataObject) -> None:
        through = data.draw(st.integers(0, self.deliveries.scanned))
        self.deliveries.settle(through=through)
        self.done |= {position for position in self.given if position <= through}
        self.held -= self.done

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from([None, 0.0, 5.0]))
    def refuse(self, data: st.DataObject, delay: float | None) -> None:
        self.deliveries.nack([data.draw(st.sampled_from(sorted(self.held)))], self.now, delay)

    @rule(seconds=st.sampled_from([0.5, 20.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(data=st.data())
    def the_consumer_leaves(self, data: st.DataObject) -> None:
        unseen = data.draw(st.sets(st.sampled_from(sorted(self.held)))) if self.held else set[int]()
        self.deliveries.release(unseen)
        self.held.clear()

    @rule()
    def progress_is_saved(self) -> None:
        progress = self.deliveries.take_progress()
        if progress is not None:
            self.write(progress)
        durable = reduce_consumer(self.notes)
        assert durable is not None
        assert durable.open == self.deliveries.state.open
        if progress is not None:
            assert durable == self.deliveries.state

    @rule()
    def everything_is_saved(self) -> None:
        self.write(WholeState(self.deliveries.take_state()))
        assert reduce_consumer(self.notes) == self.deliveries.state

    @rule()
    def the_broker_dies(self) -> None:
        state = reduce_consumer(self.notes)
        assert state is not None
        self.deliveries, self.now = DeliveryState(state), 0.0
        self.held.clear()
        settled = {position for position in self.given if position <= state.scanned and position not in state.open}
        self.done &= settled
        self.dead &= settled

    @invariant()
    def everything_up_to_the_position_is_settled(self) -> None:
        odd = {position for position in range(1, self.deliveries.position + 1) if position % 2}
        assert odd <= self.done | self.dead
        assert self.deliveries.position <= self.deliveries.scanned <= self.head

    @invariant()
    def no_more_is_out_than_agreed(self) -> None:
        assert self.deliveries.in_flight <= self.deliveries.open <= SETTINGS.max_in_flight
        assert self.deliveries.in_flight <= 1 or all(
            self.deliveries.state.open[position] <= ALONE_FROM for position in self.held & {*self.deliveries.state.open}
        )

    def teardown(self) -> None:
        """A consumer that acknowledges everything gets everything that is not settled or dead."""
        for _ in range(self.head + 3 * MAX_TRIES):
            self.time_passes(100.0)
            self.fetch(6)
            held = set(self.held)
            self.deliveries.settle(held)
            self.done |= held
            self.held.clear()
        odd = {position for position in range(1, self.head + 1) if position % 2}
        assert odd == self.done | self.dead
        assert self.deliveries.position == self.deliveries.scanned


Consumption.TestCase.settings = settings(max_examples=effort(25, 600), stateful_step_count=40, deadline=None)
TestConsumption = Consumption.TestCase


def test_notes_of_a_consumer_that_was_evicted_say_nothing() -> None:
    bodies = [encode_record(WholeState(START)), encode_record(ConsumerEvicted())]
    assert reduce_consumer(Record("cursor/n", number, 0, body) for number, body in enumerate(bodies, 1)) is None


def test_pauses_grow_to_a_minute() -> None:
    deliveries, pauses, now = DeliveryState(START), list[float](), 0.0
    for _ in range(MAX_TRIES):
        deliveries.deliver(1, now)
        deliveries.nack([1], now)
        due = deliveries.next_due(now)
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert deliveries.exhausted() == [1]
