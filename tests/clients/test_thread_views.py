"""The views of threads as a model test: every signal comes once and in its thread's order, or lies in a gap."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lifebus._internal.thread_views import SignalsSince, ThreadItem, ThreadViews
from lifebus._internal.view import Gap, Position
from lifebus_contract import InvalidRequest
from lifebus_transports.framing.frames import read_signal_topic, signal_topic
from lifebus_transports.messages.signals import SignalBeacon, ThreadHead, ThreadHeads, WireSignal
from support.clients.lossy_signals import ADAPTER, LossySignals, ModelLog
from support.effort import effort

NAMES = ["t1", "t2", "", "t1/x"]
THREADS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
PLACE = st.integers(0, 5)
MOVED = st.tuples(st.sampled_from(["deliver", "drop", "repeat", "lose"]), PLACE)
STEP = st.one_of(
    st.tuples(st.just("record"), THREADS),
    st.tuples(st.just("beacon"), st.none()),
    MOVED,
    MOVED,
    st.tuples(st.just("ask"), st.integers(1, 4)),
    st.tuples(st.just("answer"), st.none()),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("prune"), st.tuples(st.sampled_from(NAMES), PLACE)),
    st.tuples(st.just("restart"), st.booleans()),
)


def perform(bus: LossySignals, step: str, value: Any) -> None:
    acts: dict[str, Callable[[], None]] = {
        "record": lambda: bus.record(value),
        "beacon": bus.beacon,
        "ask": lambda: bus.ask(value),
        "answer": bus.answer,
        "cancel": bus.cancel,
        "prune": lambda: bus.prune(*value),
        "restart": lambda: bus.restart(new_history=value),
        "deliver": lambda: bus.deliver(value),
        "drop": lambda: bus.deliver(value, times=0),
        "repeat": lambda: bus.deliver(value, times=2),
        "lose": lambda: bus.lose(value),
    }
    acts[step]()


def check(bus: LossySignals) -> None:
    """Every signal of every thread that was followed, of the history that is now: seen once, in order, or in a gap."""
    for thread, stored in bus.log.signals.items():
        if bus.thread in {None, thread}:
            check_thread(bus, thread, [one.sequence for one in stored])
    for past in bus.past:
        for thread in past.signals:
            seen = numbers(bus, thread, past)
            assert seen == sorted(set(seen))


def numbers(bus: LossySignals, thread: str, log: ModelLog) -> list[int]:
    items = [found.item for found in bus.seen if found.thread == thread and isinstance(found.item, WireSignal)]
    return [one.sequence for one in items if one.signal.decode().split("/")[0] == log.epoch]


def check_thread(bus: LossySignals, thread: str, recorded: list[int]) -> None:
    seen = numbers(bus, thread, bus.log)
    gaps = [one.item for one in bus.seen if one.thread == thread and isinstance(one.item, Gap)]
    lost = {
        place
        for gap in gaps
        if gap.epoch == bus.log.epoch and gap.until is not None
        for place in range(gap.after + 1, gap.until + 1)
    }
    begin = 0 if bus.past else bus.begin.get(thread, 0)
    if any(gap.until is None for gap in gaps):  # another history may have lost its beginning
        lost |= set(range(1, min(seen[0] if seen else len(recorded) + 1, bus.log.floors.get(thread, 0) + 1)))
    assert seen == sorted(set(seen))
    assert lost.isdisjoint(seen)
    assert {gap.reason for gap in gaps} <= {"pruned", "epoch_changed"}
    assert set(recorded[begin:]) - lost <= set(seen)
    assert set(seen) <= set(recorded)


@pytest.mark.parametrize("thread", [None, "t1"], ids=["all threads", "one thread"])
@settings(max_examples=effort(100, 3_000), deadline=None)
@given(
    history=st.lists(st.sampled_from(NAMES), max_size=5),
    since=st.sampled_from([None, "start"]),
    steps=st.lists(STEP, max_size=40),
)
@example(history=[], since=None, steps=[("record", ["t1"]), ("deliver", 0), ("ask", 1), ("answer", None)])
@example(history=["t1"], since=None, steps=[("ask", 1), ("record", ["t1"]), ("deliver", 0), ("answer", None)])
def test_every_signal_is_seen_once_and_in_order_or_lies_in_a_gap(
    thread: str | None, history: list[str], since: SignalsSince, steps: list[tuple[str, Any]]
) -> None:
    bus = LossySignals(thread, since, history)
    bus.ask(1)
    bus.answer()  # the user waits for this before anything else
    for step, value in steps:
        perform(bus, step, value)
    bus.settle()
    check(bus)


@pytest.mark.parametrize("thread", [None, "t1"], ids=["all threads", "one thread"])
@settings(max_examples=effort(50, 1_000), deadline=None)
@given(history=st.lists(st.sampled_from(NAMES), max_size=5), steps=st.lists(STEP, max_size=20))
def test_a_follower_from_the_start_that_gets_signals_before_it_is_placed_misses_none(
    thread: str | None, history: list[str], steps: list[tuple[str, Any]]
) -> None:
    bus = LossySignals(thread, "start", history)
    for step, value in steps:
        perform(bus, step, value)
    bus.settle()
    check(bus)


@given(lost=st.integers(1, 5), beacons_lost=st.integers(0, 3), thread=st.sampled_from([None, "t1"]))
@settings(max_examples=60, deadline=None)
def test_the_loss_of_the_last_signals_is_noticed_by_the_next_beacon_that_arrives(
    lost: int, beacons_lost: int, thread: str | None
) -> None:
    bus = LossySignals(thread, "start", ["t1"])
    bus.settle()
    bus.record(["t1"] * lost)
    for _ in range(beacons_lost):
        bus.beacon()
    bus.pipe.clear()
    before = bus.views.ask()
    bus.beacon()
    bus.deliver(0)
    assert before is None
    assert bus.views.ask() is not None
    bus.settle()
    check(bus)


def test_threads_that_nothing_happens_in_cost_no_question() -> None:
    bus = LossySignals(None, None, [f"t{number}" for number in range(50)])
    bus.ask(1)
    bus.answer()
    assert bus.views.ask() is None
    bus.beacon()
    bus.deliver(0)
    bus.ask(1)  # the first beacon that arrives: who knows how many were before
    bus.answer()
    bus.record(["t1", "new"])
    bus.deliver(0)
    bus.deliver(0)
    for _ in range(3):
        bus.beacon()
        bus.deliver(0)
        assert bus.views.ask() is None
    assert [(found.thread, isinstance(found.item, Gap)) for found in bus.seen] == [("t1", False), ("new", False)]


def heads(*threads: ThreadHead) -> ThreadHeads:
    return ThreadHeads(epoch="e1", threads=threads)


@pytest.mark.parametrize(
    ("since", "last", "begins"),
    [
        (None, None, (10, 5)),
        ("start", None, (0, 0)),
        ({"t1": Position("e1", 7)}, None, (7, 0)),
        (None, 3, (7, 2)),
        (None, 7, (4, 0)),  # no more are kept
        (None, 0, (10, 5)),
    ],
)
def test_following_begins_where_it_is_asked(since: SignalsSince, last: int | None, begins: tuple[int, int]) -> None:
    views = ThreadViews(ADAPTER, None, since, last=last)
    views.ask()
    views.place(heads(ThreadHead("t1", 10, 4), ThreadHead("t2", 5, 0)))
    assert tuple(views.cursors()[name].position for name in ("t1", "t2")) == begins


def test_a_thread_is_followed_from_a_sequence_or_a_cursor() -> None:
    for since in (7, Position("e1", 7)):
        views = ThreadViews(ADAPTER, "t1", since)
        views.ask()
        views.place(heads(ThreadHead("t1", 10, 4)))
        assert views.cursors() == {"t1": Position("e1", 7)}


@pytest.mark.parametrize("since", [7, Position("e1", 7), "tomorrow"])
def test_a_place_that_says_nothing_for_all_threads_is_refused(since: SignalsSince) -> None:
    with pytest.raises(InvalidRequest):
        ThreadViews(ADAPTER, None, since)


def test_a_beacon_of_other_adapters_and_threads_is_none_of_ours() -> None:
    views = ThreadViews(ADAPTER, "t1")
    views.ask()
    views.place(heads())
    views.note_beacon(SignalBeacon(epoch="e1", number=1))
    views.ask()
    views.place(heads())
    views.note_beacon(SignalBeacon(epoch="e1", number=2, threads={"s/codex/t2/": 3, "s/claude/t1/": 3}))
    assert views.ask() is None
    assert views.cursors() == {"t1": Position("e1", 0)}


@given(st.text(max_size=20))
def test_a_topic_names_its_thread_whatever_letters_it_has(thread: str) -> None:
    assert read_signal_topic(signal_topic(ADAPTER, thread)) == thread


def test_the_items_of_a_page_know_their_thread_and_history() -> None:
    bus = LossySignals(None, "start", ["t1", "t2"])
    bus.settle()
    assert {(found.thread, found.epoch) for found in bus.seen} == {("t1", "e1"), ("t2", "e1")}
    assert all(isinstance(found, ThreadItem) for found in bus.seen)
