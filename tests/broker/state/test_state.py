"""The first step of a session's state, which every row of a ledger carries, and the head that is read off it."""

import json
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.state.session_head import INITIAL, MAX_OPEN_FRAMES, HeadState, next_head
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState, head_of
from lifebus_contract import LifecycleEvent, Receipt, ReceiptStatus, Warning, encode_json  # noqa: A004  its own word
from lifebus_contract.views import SessionHead
from support.receipts import receipt

OPENED, OPENING = LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_OPENING
ENDED, ENDING = LifecycleEvent.FRAME_ENDED, LifecycleEvent.FRAME_ENDING


Step = tuple[LifecycleEvent, dict[str, Any]]


def after(*steps: Step) -> HeadState:
    """Return the state after some receipts."""
    state = INITIAL
    for event, summary in steps:
        state = next_head(state, event, summary)
    return state


def test_a_frame_is_open_from_its_opening_to_its_end() -> None:
    opening, opened = (OPENING, {"frame_id": "f1"}), (OPENED, {"frame_id": "f1"})
    assert after(opening).open_frames == ("f1",)
    assert after(opening, opened).open_frames == ("f1",)
    assert after(opening, opened, (ENDING, {"frame_id": "f1"})).open_frames == ("f1",)
    assert after(opening, opened, (ENDED, {"frame_id": "f1"})).open_frames == ()


def test_frames_stay_open_side_by_side_in_the_order_they_opened() -> None:
    steps = [(OPENED, {"frame_id": name}) for name in ("b", "a", "c")]
    assert after(*steps, (ENDED, {"frame_id": "a"})).open_frames == ("b", "c")


def test_the_oldest_of_too_many_open_frames_is_forgotten() -> None:
    steps = [(OPENED, {"frame_id": f"f{number}"}) for number in range(MAX_OPEN_FRAMES + 3)]
    frames = after(*steps).open_frames
    assert len(frames) == MAX_OPEN_FRAMES
    assert frames[0] == "f3"


def test_the_end_of_an_unknown_frame_changes_nothing() -> None:
    assert after((ENDED, {"frame_id": "f1"})) is INITIAL


@pytest.mark.parametrize("event", [LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED])
def test_a_session_that_ended_may_start_again(event: LifecycleEvent) -> None:
    end: Step = (LifecycleEvent.SESSION_ENDED, {})
    assert not after((LifecycleEvent.SESSION_ENDING, {})).ended
    assert after(end).ended
    assert after(end, (LifecycleEvent.SUPERVISOR_TICK, {})).ended
    assert not after(end, (event, {})).ended


def test_the_harness_is_believed_how_far_it_counted() -> None:
    state = after((OPENED, {"harness_sequence": 7}), (OPENED, {}), (ENDED, {"harness_sequence": 9}))
    assert state.harness_sequence == 9


@pytest.mark.parametrize("summary", [{"frame_id": 5}, {"frame_id": None}, {"harness_sequence": True}])
def test_facts_of_another_type_are_not_taken_for_ours(summary: dict[str, Any]) -> None:
    assert after((OPENED, summary)) is INITIAL


def test_a_head_is_the_shortest_form_of_a_session_state() -> None:
    state = SessionState(adapter_id="codex", harness_session_id="s1")
    assert head_of(state) is None
    apply_receipt(state, 4, receipt(1, sequence=1, at_epoch_s=10))
    apply_receipt(state, 9, receipt(2, sequence=2, at_epoch_s=12, event=ENDED, status=ReceiptStatus.SKIPPED))
    apply_receipt(state, 9, receipt(2, sequence=2, at_epoch_s=12, event=ENDED, status=ReceiptStatus.SKIPPED))
    assert head_of(state) == SessionHead(
        adapter_id="codex",
        harness_session_id="s1",
        sequence=2,
        receipts=2,
        first_position=4,
        last_position=9,
        last_event=ENDED,
        last_status=ReceiptStatus.SKIPPED,
        started_at_epoch_s=10,
        last_at_epoch_s=12,
        ended=False,
        open_frames=(),
        harness_sequence=None,
    )


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
HOSTILE = st.one_of(
    TEXT, st.sampled_from(['"\\', "\u2028\u2029", "\x00\x1f\x7f", "\ufeff", "é\u0301", "\U0001f680" * 3])
)
VALUES = st.one_of(HOSTILE, st.integers(-(2**53) + 1, 2**53 - 1), st.booleans(), st.none())
KEYS = st.from_regex(r"[a-z][a-z0-9_.]{0,20}", fullmatch=True)


@given(st.dictionaries(KEYS, VALUES, max_size=12), st.lists(HOSTILE, max_size=3), HOSTILE)
def test_receipts_of_hostile_text_are_canonical(summary: dict[str, Any], messages: list[str], key: str) -> None:
    made = receipt(
        1,
        telemetry_summary=summary,
        warnings=tuple(Warning(code="c", message=message) for message in messages),
        idempotency_key=key or "k",
        harness_run_id=(key or "r")[:40],
    )
    text = encode_json(made)
    assert text == rfc8785.dumps(json.loads(text))
    assert msgspec.json.decode(text, type=Receipt) == made
