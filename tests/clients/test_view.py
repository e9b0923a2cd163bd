"""The view as a model test: whatever the live stream does, the ledger's rows come once, in order, or as a gap."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lifebus._internal.view import Gap, Position, View
from lifebus_transports.messages.reads import Beacon, WireReceipt
from support.clients.lossy_bus import LossyBus, ModelLedger
from support.effort import effort

MINE = ("codex", "s1")
SESSIONS = st.lists(st.sampled_from(["s1", "s2", "s1/x"]), min_size=1, max_size=4)
PLACE = st.integers(0, 5)
STEP = st.one_of(
    st.tuples(st.just("commit"), SESSIONS),
    st.tuples(st.just("beacon"), st.none()),
    st.tuples(st.sampled_from(["deliver", "drop", "repeat"]), PLACE),
    st.tuples(st.sampled_from(["deliver", "drop", "repeat"]), PLACE),
    st.tuples(st.just("ask"), st.integers(1, 4)),
    st.tuples(st.just("answer"), st.none()),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("prune"), PLACE),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("settle"), st.none()),
)
STEPS = st.lists(STEP, max_size=40)


def perform(bus: LossyBus, step: str, value: Any) -> None:
    acts: dict[str, Callable[[], None]] = {
        "commit": lambda: bus.commit(value),
        "beacon": bus.beacon,
        "ask": lambda: bus.ask(value),
        "answer": bus.answer,
        "cancel": bus.cancel,
        "settle": bus.settle,
        "prune": lambda: bus.prune(value),
        "restart": lambda: bus.restart(new_history=value),
        "deliver": lambda: bus.deliver(value),
        "drop": lambda: bus.deliver(value, times=0),
        "repeat": lambda: bus.deliver(value, times=2),
    }
    acts[step]()


def check(bus: LossyBus) -> None:
    """Every row of every history that the view followed: seen once and in order, or inside a gap."""
    seen = list(bus.seen)
    for number, ledger in enumerate([*bus.past, bus.log]):
        followed: list[WireReceipt | Gap] = []
        while seen and belongs(seen[0], ledger):
            followed.append(seen.pop(0))
        check_history(ledger, followed, bus, bus.start if number == 0 else first_kept(ledger, followed))
    assert not seen


def belongs(item: WireReceipt | Gap, ledger: ModelLedger) -> bool:
    epoch = item.epoch if isinstance(item, Gap) else item.receipt.decode().split("/")[0]
    return epoch == ledger.epoch


def first_kept(ledger: ModelLedger, items: list[WireReceipt | Gap]) -> int:
    """A history that replaced another may have lost its beginning: the gap before it says that it is another one."""
    first = next((item.position - 1 for item in items if isinstance(item, WireReceipt)), ledger.floor)
    return min(first, ledger.floor)


def check_history(ledger: ModelLedger, items: list[WireReceipt | Gap], bus: LossyBus, start: int) -> None:
    stored = [item.position for item in items if isinstance(item, WireReceipt)]
    gaps = [item for item in items if isinstance(item, Gap)]
    lost = {place for gap in gaps for place in range(gap.after + 1, (gap.until or ledger.head) + 1)}
    assert stored == sorted(set(stored))
    assert lost.isdisjoint(stored)
    assert {gap.reason for gap in gaps} <= {"pruned", "epoch_changed"}
    if ledger is not bus.log and not items:
        return  # a history that came and went while this subscriber was away
    expected = [one.position for one in ledger.wanted(bus.session, start)]
    assert set(expected) - lost <= set(stored)
    assert set(stored) <= set(expected)
    assert any(gap.reason == "epoch_changed" for gap in gaps) == (ledger is not bus.log)
    assert all(gap.reason != "pruned" or (gap.until or 0) <= ledger.floor for gap in gaps)


@pytest.mark.parametrize("session", [None, MINE], ids=["whole ledger", "one session"])
@settings(max_examples=effort(200, 6_000), deadline=None)
@given(history=st.lists(st.sampled_from(["s1", "s2"]), max_size=5), start=st.integers(0, 5), steps=STEPS)
@example(  # a beacon that arrives while an older page is under way
    history=[], start=0, steps=[("ask", 1), ("commit", ["s1"]), ("beacon", None), ("deliver", 1), ("answer", None)]
)
@example(history=[], start=0, steps=[("commit", ["s1"]), ("deliver", 0), ("prune", 0)])  # held, and then pruned
@example(  # a message is lost on the way, and the next one shows it
    history=[], start=0, steps=[("settle", None), ("commit", ["s1"]), ("drop", 0), ("commit", ["s1"]), ("deliver", 0)]
)
def test_every_row_is_seen_once_and_in_order_or_lies_in_a_gap(
    session: tuple[str, str] | None, history: list[str], start: int, steps: list[tuple[str, Any]]
) -> None:
    bus = LossyBus(session, history, start)
    for step, value in steps:
        perform(bus, step, value)
    bus.settle()
    check(bus)


@pytest.mark.parametrize("session", [None, MINE], ids=["whole ledger", "one session"])
@given(lost=st.integers(1, 5), beacons_lost=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_loss_of_the_last_rows_is_noticed_by_the_next_beacon_that_arrives(
    session: tuple[str, str] | None, lost: int, beacons_lost: int
) -> None:
    bus = LossyBus(session, ["s1"], 0)
    bus.settle()
    bus.commit(["s1"] * lost)
    for _ in range(beacons_lost):
        bus.beacon()
    bus.pipe.clear()
    before = bus.view.behind
    bus.beacon()
    bus.deliver(0)
    assert (before, bus.view.behind) == (False, True)
    bus.settle()
    check(bus)


def test_beacons_with_nothing_new_cost_no_request() -> None:
    bus = LossyBus(MINE, ["s1", "s2"], 0)
    bus.settle()
    bus.commit(["s2", "s2"])
    for _ in range(3):
        bus.beacon()
        bus.deliver(0)
        assert not bus.view.behind


def test_a_flood_of_held_rows_is_bounded_and_fetched_from_the_ledger() -> None:
    bus = LossyBus(None, [], 0)
    for _ in range(5_000):
        bus.commit(["s1"])
        bus.deliver(0)
    assert len(bus.view._held) <= 4_096
    while bus.view.behind:
        bus.ask(1_000)
        bus.answer()
    check(bus)


def test_a_hole_in_the_ledger_itself_is_a_gap() -> None:
    bus = LossyBus(None, ["s1"] * 5, 0)
    del bus.log.receipts[2]
    bus.ask(10)
    bus.answer()
    assert [item.position if isinstance(item, WireReceipt) else item for item in bus.seen] == [
        1,
        2,
        Gap(epoch="e1", after=2, until=3, reason="hole"),
        4,
        5,
    ]


def test_a_ledger_that_numbers_no_sessions_makes_no_gaps_for_a_session() -> None:
    bus = LossyBus(MINE, ["s1", "s2", "s1"], 0)
    bus.settle()
    bus.restart(new_history=True)
    bus.log.receipts = [(WireReceipt(place, None, f"e2/{place}".encode()), "s1") for place in (1, 2, 3)]
    bus.settle()
    stored = [item for item in bus.seen if isinstance(item, WireReceipt)]
    gaps = [item for item in bus.seen if isinstance(item, Gap)]
    assert [one.position for one in stored] == [1, 3, 1, 2, 3]
    assert [gap.reason for gap in gaps] == ["epoch_changed"]


def test_a_beacon_of_another_history_sends_the_view_to_the_ledger() -> None:
    view = View(epoch="e1", position=0)
    view.behind = False
    view.note_beacon(Beacon(epoch="e2", number=1, head=0, floor=0))
    assert view.behind


def test_a_cursor_is_read_back_from_its_text() -> None:
    assert Position.parse(str(Position("ab" * 16, 12))) == Position("ab" * 16, 12)
    for text in ("", "abc", "abc:", "abc:x"):
        with pytest.raises(ValueError, match="int"):
            Position.parse(text)
