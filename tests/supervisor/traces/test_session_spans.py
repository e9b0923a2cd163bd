"""What receipts become as spans: a table of lives, one property for all of them, and times."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.session_head import MAX_OPEN_FRAMES
from lifebus_broker.trace_context import dispatch_span, session_trace, turn_trace
from lifebus_broker.transitions import transition
from lifebus_contract import FailureClass, LifecycleEvent, Receipt, ReceiptStatus, SupportState
from lifebus_contract.ids import IdSource
from lifebus_supervisor.traces.open_spans import MAX_EVENTS
from lifebus_supervisor.traces.receipt_times import asked_ms, happened_ms, recorded_ms
from lifebus_supervisor.traces.session_spans import SessionSpans
from lifebus_supervisor.traces.spans import TraceSpan
from support.histories import history
from support.receipts import receipt

AT_S = 1_790_000_000


class Story:
    """Receipts of one session, one a second."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []

    def add(self, event: str, frame: str | None = None, **changes: Any) -> Receipt:
        facts = {"frame_id": frame} if frame else {}
        number = len(self.receipts) + 1
        facts |= changes.pop("facts", {})
        fields = {"event": LifecycleEvent(event), "at_epoch_s": AT_S + number, "telemetry_summary": facts} | changes
        self.receipts.append(receipt(number, **fields))
        return self.receipts[-1]

    @property
    def spans(self) -> list[TraceSpan]:
        session = SessionSpans("codex", "s1")
        return [span for number, one in enumerate(self.receipts, 1) for span in session.apply(one, number).spans]

    def times(self) -> list[tuple[str, int, int]]:
        base = AT_S * 1_000
        return [(span.name, (span.start_ms - base) // 1_000, (span.end_ms - base) // 1_000) for span in self.spans]


def test_a_turn_ends_when_its_end_was_announced_and_nothing_followed() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("frame.ending", "t1")
    story.add("frame.opened", "t1")
    story.add("frame.ending", "t1", facts={"error": "server_error"})
    story.add("supervisor.tick")
    story.add("frame.ended", "t1", facts={"frame_end": "failed"})
    assert story.times() == [("invoke_agent codex", 1, 4)]
    (span,) = story.spans
    assert (span.error, span.attributes["error.type"]) == ("server_error", "server_error")


@pytest.mark.parametrize(
    ("how", "error"),
    [("completed", None), ("interrupted", None), ("blocked", None), ("failed", "_OTHER"), ("abandoned", "abandoned")],
)
def test_only_what_failed_or_was_abandoned_is_an_error(how: str, error: str | None) -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("frame.ended", "t1", facts={"frame_end": how})
    assert [(span.error, span.attributes["lifebus.frame.end"]) for span in story.spans] == [(error, how)]


def test_frames_at_any_depth_stand_in_the_trace_of_their_turn() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("frame.opening", "a1", facts={"parent_frame_id": "t1", "agent_type": "explore"})
    story.add("frame.opening", "b1", facts={"parent_frame_id": "a1"})
    asked = story.add("frame.opening", "b1", facts={"parent_frame_id": "a1", EMITTER: "x"}, client_id="notes")
    for frame in ("b1", "a1", "t1"):
        story.add("frame.ended", frame)
    dispatch, inner, agent, turn = story.spans
    assert {one.context.trace_id for one in (inner, agent, turn)} == {turn_trace("codex", "s1", "t1")}
    assert [one.parent for one in (inner, agent, turn)] == [agent.context.span_id, turn.context.span_id, None]
    assert agent.name == "invoke_agent explore"
    # A client that is asked about it knows the frame and its parent alone.
    assert dispatch.context == dispatch_span(asked, asked.telemetry_summary, "notes")
    assert (dispatch.parent, [link.span for link in dispatch.links]) == (None, [inner.context])


def test_a_dispatch_outside_of_turns_is_in_the_trace_of_its_session() -> None:
    story = Story()
    story.add("session.starting", facts={EMITTER: "lifebus.hook"}, client_id="notes")
    story.add("session.ended")
    dispatch, session = story.spans
    assert {dispatch.context.trace_id, session.context.trace_id} == {session_trace("codex", "s1")}
    assert (dispatch.parent, session.parent) == (session.context.span_id, None)
    assert (dispatch.name, dispatch.links) == ("dispatch notes", ())


def test_a_session_that_goes_on_is_another_span_with_a_link_to_the_one_before() -> None:
    story = Story()
    story.add("session.started")
    story.add("session.ended")
    story.add("supervisor.tick")
    story.add("session.started", facts={"source": "resume"})
    story.add("session.ended")
    first, second = story.spans
    assert story.times() == [("session codex", 1, 2), ("session codex", 4, 5)]
    assert [(link.span, link.says) for link in second.links] == [(first.context, "resumed")]
    assert second.attributes["lifebus.session.resumed"] is True
    assert first.context.trace_id == second.context.trace_id


def test_a_turn_that_goes_on_after_its_recorded_end_is_linked_to_it() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("frame.ended", "t1")
    story.add("frame.opened", "t2", facts={"continues_frame_id": "t1"})
    story.add("frame.ended", "t2")
    first, second = story.spans
    assert [link.says for link in second.links] == ["session", "continues"]
    assert second.links[1].span == first.context


def test_what_each_client_reports_is_one_event() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    facts = {"context_pressure": "high", "context_used_tokens": 840, "context_window_tokens": 1_000}
    for client in ("lifebus.hook", "one", "two"):
        emitter = {} if client == "lifebus.hook" else {EMITTER: "lifebus.hook"}
        story.add("context.pressure_observed", facts=facts | emitter, event_id="evt_p", client_id=client)
    story.add("frame.ended", "t1")
    *dispatches, turn = story.spans
    assert [one.name for one in dispatches] == ["dispatch one", "dispatch two"]
    assert [event.name for event in turn.events] == ["lifebus.pressure"]
    assert turn.attributes["lifebus.context.used_tokens"] == 840


def test_a_failed_dispatch_has_an_error_and_its_turn_has_not() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    failed = {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.TIMEOUT, "client_id": "slow"}
    story.add("frame.opening", "t1", facts={EMITTER: "x"}, **failed)
    story.add("frame.ended", "t1")
    dispatch, turn = story.spans
    assert (dispatch.error, turn.error) == ("timeout", None)


def test_what_never_ended_ends_with_its_session_and_is_unknown() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("session.ended", facts={"session_end": "abandoned"})
    turn, session = story.spans
    assert (turn.attributes["lifebus.frame.end"], turn.error) == ("unknown", None)
    assert (session.error, session.attributes["lifebus.session.turns"]) == ("abandoned", 1)


def test_frames_and_events_are_bounded() -> None:
    story = Story()
    for number in range(MAX_OPEN_FRAMES + 2):
        story.add("frame.opening", f"t{number}")
    assert [span.attributes["lifebus.frame.id"] for span in story.spans] == ["t0", "t1"]
    for _ in range(MAX_EVENTS + 3):
        story.add("receipt.gap_detected", "t5", facts={"missing_first": 1, "missing_last": 2})
    story.add("frame.ended", "t5")
    assert (len(story.spans[-1].events), story.spans[-1].dropped_events) == (MAX_EVENTS, 3)


def test_a_lost_capability_and_a_failure_are_events_of_the_turn_that_goes_on() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    change = transition(
        "context_pressure", SupportState.NATIVE, SupportState.UNAVAILABLE, at_epoch_s=7, evidence="a text that stays"
    )
    story.add("capability.degraded", capability_degradations=(change,), facts={"cause": "telemetry_missing"})
    failed = {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.PAYLOAD_REJECTED}
    story.add("supervisor.tick", **failed)
    story.add("frame.ended", "t1")
    (turn,) = story.spans
    assert [(event.name, dict(event.attributes)) for event in turn.events] == [
        (
            "lifebus.degraded",
            {
                "lifebus.capability": ("context_pressure",),
                "lifebus.support.before": ("native",),
                "lifebus.support.now": ("unavailable",),
                "lifebus.fact.cause": "telemetry_missing",
            },
        ),
        ("lifebus.failed", {"error.type": "payload_rejected"}),
    ]
    assert turn.error is None


def test_a_dispatch_about_an_event_without_a_frame_leads_to_the_turn_that_was_open() -> None:
    story = Story()
    story.add("session.started")
    story.add("frame.opening", "t1")
    story.add("context.compacted", facts={EMITTER: "lifebus.hook"}, client_id="notes")
    story.add("frame.ended", "t1")
    story.add("session.ended")
    dispatch, turn, session = story.spans
    assert (dispatch.context.trace_id, dispatch.parent) == (session.context.trace_id, session.context.span_id)
    assert [(link.span, link.says) for link in dispatch.links] == [(turn.context, "frame")]


def test_a_correction_is_an_event_and_ends_nothing() -> None:
    story = Story()
    story.add("frame.opening", "t1")
    story.add("frame.opening", "t1", facts={"corrects": "lfr_1", "cause": "prompt_blocked", EMITTER: "x"})
    story.add("frame.ended", "t1")
    (turn,) = story.spans
    assert [(event.name, event.attributes["lifebus.fact.cause"]) for event in turn.events] == [
        ("lifebus.corrected", "prompt_blocked")
    ]


@given(st.integers(0, 50), st.integers(1, 199))
def test_whoever_begins_in_the_middle_has_the_same_spans_from_there(seed: int, middle: int) -> None:
    """What a relay that starts anew reads again, and what comes twice, changes no span."""
    receipts = [one.receipt for one in history(seed, 200)]
    by_session: dict[tuple[str, str], list[tuple[int, Receipt]]] = {}
    for position, one in enumerate(receipts, 1):
        if one.harness_session_id is not None:
            by_session.setdefault((one.adapter_id, one.harness_session_id), []).append((position, one))
    for key, rows in by_session.items():
        whole, again = SessionSpans(*key), SessionSpans(*key)
        wanted = [span for position, one in rows for span in whole.apply(one, position).spans if position > middle]
        for position, one in [*rows, *rows]:
            if position <= middle:
                again.apply(one, position)
        found = [span for position, one in rows for span in again.apply(one, position).spans]
        assert found == wanted
        assert all(span.start_ms <= span.end_ms for span in found)
        ids = [span.context for span in found]
        assert len(set(ids)) == len(ids)


def test_times_are_those_of_ids_where_these_can_be_believed() -> None:
    at_ms = AT_S * 1_000 + 321
    made = IdSource(lambda: at_ms, lambda count: b"\1" * count).make("lfr_")
    called = IdSource(lambda: at_ms - 250, lambda count: b"\1" * count).make("inv_")
    old = IdSource(lambda: at_ms - 3_600_000, lambda count: b"\1" * count).make("inv_")
    hook = receipt(1, receipt_id=made, at_epoch_s=AT_S, invocation_id=called, client_id="lifebus.hook")
    assert (recorded_ms(hook), happened_ms(hook)) == (at_ms, at_ms - 250)
    # An invocation of an app may be much older than what happens in it; that of a call from the spool is when it was.
    app = receipt(1, receipt_id=made, at_epoch_s=AT_S, invocation_id=old)
    spooled = receipt(1, receipt_id=made, at_epoch_s=AT_S, invocation_id=old, client_id="lifebus.hook")
    assert (happened_ms(app), happened_ms(spooled), asked_ms(spooled)) == (at_ms, at_ms - 3_600_000, at_ms)
    # A clock that was set back: ids go on from where they were.
    assert recorded_ms(receipt(1, receipt_id=made, at_epoch_s=AT_S - 60)) == (AT_S - 60) * 1_000
