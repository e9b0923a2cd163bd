"""Who is waited for follows from the receipts alone: what begins is over once, and nothing else is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.stores import Stores, dump_stores, load_stores
from lifebus_contract import LifecycleEvent
from support.effort import effort
from support.receipts import receipt

TICK = LifecycleEvent.SUPERVISOR_TICK
STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED
OPENED, CLOSED = LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED

Step = tuple[LifecycleEvent, dict[str, Any]]


def begun(waiting_for: str = "permission", since: int = 1_000, **facts: Any) -> Step:
    return TICK, {"waiting": "begun", "waiting_for": waiting_for, "waiting_since_ms": since, **facts}


def over(waiting_for: str = "permission", **facts: Any) -> Step:
    return TICK, {"waiting": "ended", "waiting_for": waiting_for, **facts}


def state_of(*steps: Step) -> SessionState:
    state = SessionState(adapter_id="claude", harness_session_id="s1")
    for position, (event, facts) in enumerate(steps, 1):
        made = receipt(position, event=event, telemetry_summary=facts, sequence=position, at_epoch_s=position)
        apply_receipt(state, position, made)
    return state


def waits_of(*steps: Step) -> list[tuple[str, str | None, str | None, int]]:
    return [(one.waiting_for, one.kind, one.frame_id, one.since_ms) for one in state_of(*steps).waits]


def test_a_wait_says_for_what_and_since_when() -> None:
    assert waits_of((OPENED, {"frame_id": "t1"}), begun(waiting_kind="Bash", frame_id="t1")) == [
        ("permission", "Bash", "t1", 1_000)
    ]


def test_one_that_does_not_say_since_when_began_with_its_receipt() -> None:
    assert waits_of((TICK, {"waiting": "begun", "waiting_for": "idle"})) == [("idle", None, None, 1_000)]


@pytest.mark.parametrize(
    "facts",
    [
        {"waiting": "begun", "waiting_for": "a miracle"},
        {"waiting": "perhaps", "waiting_for": "input"},
        {"waiting": "begun"},
        {"waiting": "begun", "waiting_for": None},
        {"waiting": "begun", "waiting_for": 7},
    ],
)
def test_what_is_said_in_no_known_words_changes_nothing(facts: dict[str, Any]) -> None:
    assert waits_of(begun(), (TICK, facts)) == [("permission", None, None, 1_000)]


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (over(), ["idle"]),
        (over("idle"), ["permission"]),
        (over("input"), ["permission", "idle"]),
        ((CLOSED, {"frame_id": "t1"}), ["idle"]),
        ((CLOSED, {"frame_id": "other"}), ["permission", "idle"]),
        ((OPENED, {"frame_id": "t2"}), ["permission"]),
        ((OPENED, {"frame_id": "t2", "parent_frame_id": "t1"}), ["permission", "idle"]),
        ((LifecycleEvent.CONTEXT_COMPACTED, {}), ["permission", "idle"]),
        ((TICK, {"observed": 3}), ["permission", "idle"]),
        ((STARTED, {}), []),
        ((ENDED, {}), []),
    ],
)
def test_what_ends_a_wait_and_what_does_not(step: Step, left: list[str]) -> None:
    before = [(OPENED, {"frame_id": "t1"}), begun(frame_id="t1"), begun("idle", 2_000)]
    assert [one[0] for one in waits_of(*before, step)] == left


def test_requests_with_ids_end_one_by_one() -> None:
    steps = [begun(waiting_id="1"), begun(since=2_000, waiting_id="2"), over(waiting_id="1")]
    assert [(one.request, one.since_ms) for one in state_of(*steps).waits] == [("2", 2_000)]


def test_a_request_with_an_id_stands_for_the_same_one_told_without() -> None:
    assert [one.request for one in state_of(begun(), begun(waiting_id="1")).waits] == ["1"]


def test_a_further_request_without_an_id_takes_the_place_of_the_one_before() -> None:
    assert waits_of(begun(waiting_kind="Bash"), begun(since=2_000, waiting_kind="Edit")) == [
        ("permission", "Edit", None, 2_000)
    ]


def test_what_a_background_client_repeats_begins_nothing_again() -> None:
    repeated = begun()[1] | {"client_background": True}
    assert waits_of(begun(), over(), (TICK, repeated)) == []


def test_nothing_begins_behind_the_end_of_a_session() -> None:
    assert waits_of((STARTED, {}), (ENDED, {}), begun()) == []


def test_a_dump_holds_who_is_waited_for() -> None:
    stores = Stores()
    for position, (event, facts) in enumerate([(STARTED, {}), begun(waiting_kind="Bash")], 1):
        made = receipt(position, event=event, telemetry_summary=facts, sequence=position)
        stores.sessions.apply(position, made)
    again = load_stores(dump_stores(stores))
    (key,) = list(again.sessions)
    state = again.sessions.get(key)
    assert state is not None
    assert [(one.waiting_for, one.kind) for one in state.waits] == [("permission", "Bash")]


FRAMES = st.sampled_from(["t1", "t2"])
REQUESTS = st.sampled_from([None, "r1", "r2"])
KINDS = st.sampled_from(["permission", "input", "idle"])


@st.composite
def lives(draw: st.DrawFn) -> list[Step]:
    """Return a life in steps: turns, waits of theirs that begin and end, other receipts, ends of the session."""
    steps: list[Step] = [(STARTED, {})]
    for number in range(draw(st.integers(0, 24))):
        match draw(st.sampled_from(["begin", "end", "open", "close", "other", "restart"])):
            case "begin":
                facts = {"frame_id": draw(FRAMES), "waiting_id": draw(REQUESTS)}
                facts = {name: value for name, value in facts.items() if value is not None}
                steps.append(begun(draw(KINDS), 1_000 * number, **facts))
            case "end":
                facts = {"frame_id": draw(FRAMES), "waiting_id": draw(REQUESTS)}
                facts = {name: value for name, value in facts.items() if value is not None}
                steps.append(over(draw(KINDS), **facts))
            case "open":
                steps.append((OPENED, {"frame_id": draw(FRAMES)}))
            case "close":
                steps.append((CLOSED, {"frame_id": draw(FRAMES)}))
            case "other":
                steps.append((TICK, {"observed": 0}))
            case _:
                steps += [(ENDED, {}), (STARTED, {})]
    return steps


def expected(steps: list[Step]) -> set[tuple[str, str | None, str | None, int]]:
    """Return who is waited for after a life, told from its end: a wait lasts if nothing behind its beginning ends it.

    Written from the page, not from the reducer: it keeps no state, and looks at each beginning by itself.
    """
    lasting: set[tuple[str, str | None, str | None, int]] = set()
    for number, (_, facts) in enumerate(steps):
        if facts.get("waiting") != "begun":
            continue
        kind, frame, request = facts["waiting_for"], facts.get("frame_id"), facts.get("waiting_id")
        if not any(_ends(kind, frame, request, event, later) for event, later in steps[number + 1 :]):
            lasting.add((kind, frame, request, facts["waiting_since_ms"]))
    return lasting


def _ends(kind: str, frame: str | None, request: str | None, event: LifecycleEvent, facts: dict[str, Any]) -> bool:
    if event in {STARTED, ENDED}:
        return True
    if event is OPENED:
        return kind == "idle"
    if event is CLOSED:
        return kind != "idle" and frame == facts["frame_id"]
    if "waiting" not in facts or (facts["waiting_for"] != kind and facts.get("waiting_id") != request):
        return False
    if facts.get("waiting_id") is not None:
        # A request's own end, or the same told with an id at last.
        return facts["waiting_id"] == request or (request is None and facts["waiting_for"] == kind)
    return request is None and facts["waiting_for"] == kind and facts["frame_id"] == frame


@settings(max_examples=effort(200, 5_000), deadline=None)
@given(lives())
def test_a_wait_lasts_until_something_ends_it(steps: list[Step]) -> None:
    found = {(one.waiting_for, one.frame_id, one.request, one.since_ms) for one in state_of(*steps).waits}
    assert found == expected(steps)
