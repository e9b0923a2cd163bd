"""A session's state says once what happened, and forgets late what may still be asked for."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from lifebus_broker.ports import NewReceipt
from lifebus_broker.state.receipt_view import read_receipt
from lifebus_broker.state.session_reducer import MAX_TURNS, apply_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.telemetry_keys import APP_SERVER, HOOKS
from lifebus_broker.transitions import transition
from lifebus_contract import FailureClass, LifecycleEvent, PressureLevel, ReceiptStatus, SupportState
from support.effort import effort
from support.histories import histories, lines_of, replayed
from support.receipts import receipt

STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED
OPENED, CLOSED = LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED
ENDING, SESSION_ENDING = LifecycleEvent.FRAME_ENDING, LifecycleEvent.SESSION_ENDING
PRESSED, COMPACTED = LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.CONTEXT_COMPACTED
TICK, DEGRADED = LifecycleEvent.SUPERVISOR_TICK, LifecycleEvent.CAPABILITY_DEGRADED

Step = tuple[LifecycleEvent, dict[str, Any]]
"""An event, and facts; a fact whose name begins with an underscore is a field of the receipt instead."""


def state_of(*steps: Step) -> SessionState:
    """Return the state after some receipts."""
    state = SessionState(adapter_id="codex", harness_session_id="s1")
    for position, (event, said) in enumerate(steps, 1):
        fields = {name[1:]: value for name, value in said.items() if name.startswith("_")}
        facts = {name: value for name, value in said.items() if not name.startswith("_")}
        made = receipt(position, event=event, telemetry_summary=facts, sequence=position, at_epoch_s=position, **fields)
        apply_receipt(state, position, made)
    return state


def frame(name: str, **more: Any) -> dict[str, Any]:
    return {"frame_id": name, **more}


def test_a_receipt_that_is_known_already_changes_nothing() -> None:
    state = state_of((STARTED, {}))
    apply_receipt(state, 1, receipt(1, event=STARTED))
    assert (state.receipts, state.starts, state.sequence) == (1, 1, 1)


def test_an_open_frame_holds_its_parent_and_when_it_opened() -> None:
    state = state_of((OPENED, frame("f1", _harness_task_id="t")), (OPENED, frame("f2", parent_frame_id="f1")))
    assert [(one.frame_id, one.parent, one.task, one.opened_at_epoch_s, one.position) for one in state.frames] == [
        ("f1", None, "t", 1, 1),
        ("f2", "f1", None, 2, 2),
    ]
    assert state.course.open_frames == ("f1", "f2")


def test_a_frame_that_opens_after_the_end_opens_the_session_again() -> None:
    ended = state_of((OPENED, frame("f1")), (ENDED, {}))
    assert (ended.left, ended.ended, ended.started, ended.is_closed) == (("f1",), True, False, False)
    again = state_of((OPENED, frame("f1")), (ENDED, {}), (OPENED, frame("f2")))
    assert (again.left, again.ended, again.started, again.is_closed) == ((), False, True, False)
    assert state_of((OPENED, frame("f1")), (ENDED, {}), (STARTED, {})).left == ()
    assert state_of((OPENED, frame("f1")), (ENDED, {}), (CLOSED, frame("f1"))).is_closed


def test_an_announced_end_stands_until_the_frame_ends_and_counts_how_often_it_was_announced() -> None:
    once = {"announced_end": "completed", "announced_ends": 1}
    twice = {"announced_end": "failed", "announced_ends": 2}
    steps = [(OPENED, frame("f1")), (ENDING, frame("f1", **once)), (ENDING, frame("f1", **twice))]
    assert [(one.announced, one.announced_end) for one in state_of(*steps[:1]).frames] == [(0, None)]
    assert [(one.announced, one.announced_end) for one in state_of(*steps[:2]).frames] == [(1, "completed")]
    assert [(one.announced, one.announced_end) for one in state_of(*steps).frames] == [(2, "failed")]
    assert state_of(*steps, (CLOSED, frame("f1"))).frames == ()
    assert state_of((OPENED, frame("f1")), (ENDING, frame("f1"))).frames[0].announced_end is None


def test_a_frame_that_only_ended_is_remembered_as_one_of_the_turns() -> None:
    assert state_of((CLOSED, frame("f1"))).turns == ("f1",)


def test_an_announced_end_of_a_session_stands_until_it_ends_or_goes_on() -> None:
    ending = (SESSION_ENDING, {"announced_end": "completed"})
    assert state_of((STARTED, {}), ending).announced_end == "completed"
    assert state_of((STARTED, {}), (SESSION_ENDING, {})).announced_end is None
    for after in ((ENDED, {}), (STARTED, {}), (OPENED, frame("f1"))):
        assert state_of((STARTED, {}), ending, after).announced_end is None


def test_counts_say_how_much_happened() -> None:
    state = state_of((STARTED, {}), (OPENED, frame("f1")), (CLOSED, frame("f1", _status=ReceiptStatus.SKIPPED)))
    assert state.by_event == {STARTED: 1, OPENED: 1, CLOSED: 1}
    assert state.by_status == {ReceiptStatus.OBSERVED: 2, ReceiptStatus.SKIPPED: 1}
    assert (state.first_at_epoch_s, state.last_at_epoch_s, state.first_position, state.last_position) == (1, 3, 1, 3)


def test_peak_pressure_outlives_what_comes_after_it() -> None:
    high = {"context_pressure": "high", "context_used_tokens": 900, "context_used_pct": 85}
    low = {"context_pressure": "low", "context_used_tokens": 100, "context_used_pct": 9}
    state = state_of((PRESSED, low), (PRESSED, high), (PRESSED, low))
    assert (state.level, state.peak) == (PressureLevel.LOW, PressureLevel.HIGH)
    assert (state.peak_used_tokens, state.peak_used_pct, state.measured) == (900, 85, True)
    nothing = state_of((PRESSED, {"context_pressure": "made up", "context_used_tokens": None}))
    assert (nothing.level, nothing.peak, nothing.measured) == (None, None, False)


@pytest.mark.parametrize("event", [OPENED, COMPACTED])
def test_a_signal_of_pressure_stands_until_a_frame_begins_or_the_context_is_rewritten(event: LifecycleEvent) -> None:
    signal = (PRESSED, {"signal": True, "context_pressure": "critical"})
    assert state_of(signal).signalled
    assert state_of(signal).level is None
    assert not state_of(signal, (event, {})).signalled


def test_what_was_measured_beside_a_signal_is_observed_and_a_signal_without_numbers_changes_no_level() -> None:
    low = (PRESSED, {"context_pressure": "low", "context_used_tokens": 100, "context_used_pct": 10})
    numbers = {"context_pressure": "critical", "context_used_tokens": 970, "context_used_pct": 97}
    state = state_of(low, (PRESSED, {"signal": True, **numbers}))
    assert (state.level, state.peak, state.peak_used_tokens, state.peak_used_pct) == ("critical", "critical", 970, 97)
    nothing = dict.fromkeys(numbers)
    assert state_of(low, (PRESSED, {"signal": True, **nothing})).level == "low"


def test_a_compaction_counts_once_however_many_clients_got_a_receipt() -> None:
    one, other = {"_event_id": "e1", "source": "hook:PostCompact"}, {"_event_id": "e2", "source": "rollout"}
    state = state_of((COMPACTED, one), (COMPACTED, one), (COMPACTED, other))
    assert (state.compactions, state.compacted_at, state.filed_at_epoch_s) == (2, (1, 3), 3)
    assert state_of((COMPACTED, other), (COMPACTED, one)).filed_at_epoch_s is None


def degraded(before: SupportState, now: SupportState, **facts: Any) -> Step:
    change = transition("context_pressure", before, now, at_epoch_s=1, evidence="seen")
    return DEGRADED, {"_capability_degradations": (change,), "cause": "telemetry_missing", **facts}


def test_a_loss_is_known_by_its_cause_until_it_is_back_and_counted_for_good() -> None:
    loss = degraded(SupportState.NATIVE, SupportState.UNAVAILABLE)
    back = degraded(SupportState.UNAVAILABLE, SupportState.NATIVE)
    assert [(one.capability, one.cause) for one in state_of(loss).lost] == [("context_pressure", "telemetry_missing")]
    state = state_of(loss, back)
    assert (state.lost, state.losses, state.ever_lost) == ((), 1, ("context_pressure",))
    assert state_of(loss, (ENDED, {})).lost == ()


def test_a_later_receipt_of_a_client_does_not_bring_a_loss_back() -> None:
    loss = degraded(SupportState.NATIVE, SupportState.UNAVAILABLE)
    late = degraded(SupportState.NATIVE, SupportState.UNAVAILABLE, emitter="lifebus.supervisor")
    assert state_of(loss, degraded(SupportState.UNAVAILABLE, SupportState.NATIVE), late).lost == ()


@pytest.mark.parametrize(
    ("said", "hooked", "app"),
    [
        ({"_client_id": HOOKS}, True, False),
        ({"_client_id": "alice", "emitter": HOOKS}, True, False),
        ({"_client_id": APP_SERVER}, False, False),
        ({"_client_id": "lifebus.supervisor"}, False, False),
        ({"_client_id": "an app"}, False, True),
    ],
)
def test_who_reports_a_session_outlives_the_process_that_recorded_it(
    said: dict[str, Any], hooked: bool, app: bool
) -> None:
    state = state_of((OPENED, frame("f1", **said)))
    assert (state.hooked, state.app) == (hooked, app)
    assert not state_of((TICK, said)).app


def test_what_an_app_server_reported_is_remembered_for_the_hooks_that_come_later() -> None:
    wired = {"_client_id": APP_SERVER}
    turns = [(event, frame(f"f{number}", **wired)) for number in range(200) for event in (OPENED, CLOSED)]
    state = state_of((STARTED, wired), *turns)
    assert (STARTED, "") in state.wired
    assert len(state.wired) == 1 + 2 * MAX_TURNS
    assert {(OPENED, "f199"), (CLOSED, "f199")} <= set(state.wired)
    ended = state_of((STARTED, wired), *turns, (ENDED, wired))
    assert {(STARTED, ""), (ENDED, ""), (CLOSED, "f199")} <= set(ended.wired)
    assert len(ended.wired) < 20


def test_turns_are_remembered_to_distinguish_an_old_one_from_one_that_nobody_reported() -> None:
    steps = [(OPENED, frame(f"f{number}")) for number in range(MAX_TURNS + 5)]
    assert state_of(*steps).turns == tuple(f"f{number}" for number in range(5, MAX_TURNS + 5))
    assert state_of(*steps, (ENDED, {})).turns[-1] == f"f{MAX_TURNS + 4}"


def test_the_supervisors_tick_carries_what_a_restart_has_to_know() -> None:
    state = state_of((TICK, {"harness_process": "7@9", "compactions_before": 3}), (TICK, {}))
    assert (state.process, state.before) == ("7@9", 3)


@pytest.mark.parametrize("event", [OPENED, STARTED, PRESSED, COMPACTED])
def test_what_a_background_client_got_long_ago_does_not_happen_again(event: LifecycleEvent) -> None:
    said = frame("f1", context_pressure="high", source="rollout", harness_process="1@1", harness_sequence=1)
    steps: list[Step] = [(event, said), (CLOSED, frame("f1", harness_sequence=2)), (ENDED, {})]
    before = state_of(*steps)
    after = state_of(*steps, (event, {**said, "client_background": True, "harness_process": "2@2"}))
    assert (after.course, after.frames, after.compactions) == (before.course, before.frames, before.compactions)
    assert (after.level, after.process, after.started, after.starts) == (
        before.level,
        before.process,
        before.started,
        before.starts,
    )
    assert after.receipts == before.receipts + 1


@settings(max_examples=effort(40, 400))
@given(histories())
def test_a_session_state_read_from_the_log_is_the_one_of_live_receipts(entries: list[NewReceipt]) -> None:
    """Receipts in memory and receipts that were read give the same state, however it was kept meanwhile."""
    lines = lines_of(entries)
    sessions = replayed(lines).sessions
    for key in sessions:
        live = SessionState(adapter_id=key[0], harness_session_id=key[1])
        for line, made in zip(lines, entries, strict=True):
            if (made.receipt.adapter_id, made.receipt.harness_session_id) == key:
                sequence = read_receipt(line.receipt, line.position).sequence
                apply_receipt(live, line.position, msgspec.structs.replace(made.receipt, sequence=sequence))
        assert sessions.get(key) == live


def test_the_directory_the_branch_and_the_title_are_those_that_were_said_last() -> None:
    state = state_of(
        (STARTED, {"cwd": "/home/dev/api", "title": "First"}),
        (OPENED, frame("f1", cwd="/home/dev/api/tests", git_branch="main")),
        (CLOSED, frame("f1", cwd=5, title=None)),
    )
    assert (state.cwd, state.git_branch, state.title) == ("/home/dev/api/tests", "main", "First")
    assert state.folder == "api"


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/home/dev/api", "api"),
        ("api", "api"),
        ("/srv/my shop (2)/", "my-shop-2"),
        ("/srv/Бюро", "Бюро"),
        ("/", ""),
        ("~", "home"),
        ("/srv/a#1;rm", "a-1-rm"),
        ("/srv/" + "x" * 50, "x" * 32),
        (7, ""),
    ],
)
def test_a_folder_is_called_by_letters_that_need_no_quotes(cwd: Any, folder: str) -> None:
    assert state_of((STARTED, {"cwd": cwd})).folder == folder


def test_the_folder_is_that_of_the_first_receipt_and_of_no_later_one() -> None:
    assert state_of((STARTED, {}), (OPENED, frame("f1", cwd="/home/dev/api"))).folder == ""


def test_turns_sub_agents_and_failures_count_once_however_many_receipts_say_so() -> None:
    state = state_of(
        (OPENED, frame("f1")),
        (OPENED, frame("f1")),
        (OPENED, frame("f2", parent_frame_id="f1")),
        (CLOSED, frame("f2", parent_frame_id="f1", frame_end="failed", _event_id="e2", _invocation_id="i2")),
        (CLOSED, frame("f1", frame_end="failed", _event_id="e3", _invocation_id="i3")),
        (CLOSED, frame("f1", frame_end="failed", _event_id="e3", _invocation_id="i3")),
        (OPENED, frame("f3", _status=ReceiptStatus.FAILED, _failure_class=FailureClass.TIMEOUT, _event_id="e4")),
        (CLOSED, frame("f3", frame_end="completed")),
    )
    assert (state.turn_count, state.subagents, state.failures) == (2, 1, 3)


def test_a_failure_is_counted_once_though_later_receipts_repeat_it() -> None:
    failed = {"_event_id": "e1", "_invocation_id": "i1"}
    told = frame("f1", frame_end="failed", client_background=True, **failed)
    steps: list[Step] = [
        (OPENED, frame("f1")),
        (CLOSED, frame("f1", frame_end="failed", **failed)),
        (OPENED, frame("f2", _status=ReceiptStatus.FAILED, _failure_class=FailureClass.TIMEOUT, _event_id="e2")),
        (CLOSED, told),
        (ENDED, {"session_end": "failed", "_event_id": "e3"}),
    ]
    assert state_of(*steps[:4]).failures == 2
    assert state_of(*steps).failures == 3
    late = {"_status": ReceiptStatus.FAILED, "_failure_class": FailureClass.TIMEOUT, "_event_id": "e4"}
    assert state_of(*steps, (CLOSED, {**told, **late})).failures == 4


def test_the_last_pressure_is_kept_beside_its_peak() -> None:
    state = state_of(
        (PRESSED, {"context_pressure": "high", "context_used_tokens": 900, "context_used_pct": 90}),
        (PRESSED, {"context_pressure": "low", "context_used_tokens": 100, "context_used_pct": 10}),
    )
    assert (state.used_tokens, state.used_pct, state.peak_used_tokens, state.level) == (100, 10, 900, PressureLevel.LOW)
