"""What is compared with the table, and what no scenario may record, whatever was run."""

from typing import Any

import pytest

from lifebus.live.judge import broken_rules, lines_of
from lifebus_contract import LifecycleEvent, Receipt
from support.receipts import receipt

PRESSURE = {"context_pressure": "low", "context_window_tokens": 200}


def recorded(*events: str | tuple[str, dict[str, Any]], session: str | None = "s1") -> list[Receipt]:
    """Return receipts of one session, numbered from 1; a frame's are of the frame f1 unless they say otherwise."""
    found = []
    for number, event in enumerate(events, 1):
        name, facts = event if isinstance(event, tuple) else (event, {})
        frame = {"frame_id": "f1"} if name.startswith("frame.") else {}
        made = receipt(
            number,
            event=LifecycleEvent(name),
            harness_session_id=session,
            sequence=number if session else None,
            telemetry_summary={**frame, **facts},
        )
        found.append(made)
    return found


TURN = ("session.started", "frame.opened", "frame.ending", ("frame.ended", {"frame_end": "completed"}), "session.ended")


def test_a_turn_that_ends_breaks_no_rule() -> None:
    assert broken_rules(recorded(*TURN)) == []


def test_a_session_that_is_started_again_breaks_no_rule() -> None:
    again = ("session.started", ("frame.opened", {"frame_id": "f2"}), ("frame.ended", {"frame_id": "f2"}))
    assert broken_rules(recorded(*TURN, *again, "session.ended")) == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ((*TURN[:4], "frame.ended"), "frame f1 ended twice"),
        (TURN[:3], "frame f1 never ended"),
        (("frame.opened", "frame.opened", "frame.ended"), "frame f1 was opened twice"),
        (("session.started", "frame.ended"), "frame f1 ended without having been opened"),
        ((*TURN, ("context.pressure_observed", PRESSURE)), "context.pressure_observed stands behind the end"),
        ((*TURN, "supervisor.tick"), "supervisor.tick stands behind the end"),
        ((*TURN, "session.ended"), "session.ended stands behind the end"),
        ((("context.pressure_observed", {"context_pressure": "low"}),), "pressure low was recorded without a window"),
    ],
)
def test_each_rule_is_seen_to_be_broken(events: tuple[str | tuple[str, dict[str, Any]], ...], fault: str) -> None:
    (found,) = broken_rules(recorded(*events))
    assert found.startswith(fault)


def test_a_missing_number_breaks_a_rule() -> None:
    first, *rest = recorded(*TURN)
    assert broken_rules([first, *rest[1:]])[0] == "session s1 is numbered [1, 3, 4, 5]"


def test_lines_have_the_events_details_and_leave_measurements_and_ticks_out() -> None:
    receipts = recorded(
        "supervisor.tick",
        ("session.started", {"source": "resume"}),
        ("context.pressure_observed", PRESSURE),
        ("frame.ended", {"frame_end": "failed"}),
        ("capability.degraded", {"cause": "hooks_silent"}),
        ("session.ended", {"session_end": "process_gone"}),
    )
    assert lines_of(receipts) == [
        "session.started resume",
        "frame.ended failed",
        "capability.degraded hooks_silent",
        "session.ended process_gone",
    ]


def test_frames_of_sub_agents_are_nested_lines() -> None:
    inner = {"frame_id": "f2", "parent_frame_id": "f1"}
    receipts = recorded("frame.opened", ("frame.opened", inner), ("frame.ended", {"frame_id": "f2"}))
    assert lines_of(receipts) == ["frame.opened", "nested frame.opened", "nested frame.ended"]


def test_what_names_no_session_is_no_line() -> None:
    assert lines_of(recorded("session.ended", session=None)) == []


def test_what_goes_on_is_marked_and_may_be_opened_again() -> None:
    receipts = recorded(
        "frame.opened",
        ("frame.opened", {"continues": True}),
        "frame.ended",
        "session.ended",
        ("session.started", {"resumed": True, "source": "hook:chat.message"}),
    )
    assert broken_rules(receipts) == []
    lines = lines_of(receipts)
    assert (lines[1], lines[-1]) == ("frame.opened continues", "session.started resumed")


def test_the_announced_end_of_a_session_is_compared_behind_the_ends_of_its_frames() -> None:
    receipts = recorded("session.ending", ("frame.ended", {"frame_id": "f2"}), "frame.ended", "session.ended")
    assert lines_of(receipts) == ["frame.ended", "frame.ended", "session.ending", "session.ended"]


def test_sessions_follow_each_other_however_their_receipts_were_mixed() -> None:
    first, second = recorded("session.started", "session.ended"), recorded("session.starting", session="s2")
    assert lines_of([first[0], *second, first[1]]) == ["session.started", "session.ended", "session.starting"]


def test_what_names_no_session_stands_behind_no_end() -> None:
    assert broken_rules(recorded("session.ending", "session.ended", "session.ending", session=None)) == []
