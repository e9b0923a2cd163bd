"""The reducer of session states: what each receipt changes in the state of its session.

Ledgers write its first step, `session_head.next_head`, into every row.  Supervision starts from session states, so that
after a restart it reports nothing twice; recaps are made of them.
No clock, no randomness, no iteration order: the same receipts always give the same state (docs/ledger.md, "State").
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.capability_state import reported
from lifebus_broker.state.pending import next_handouts, next_questions
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.session_head import next_head
from lifebus_broker.state.session_state import LostCapability, OpenFrame, SessionState
from lifebus_broker.state.telemetry_keys import (
    ANNOUNCED_END,
    ANNOUNCED_ENDS,
    APP_SERVER,
    CAUSE,
    COMPACTIONS_BEFORE,
    CWD,
    FORGOTTEN,
    FRAME,
    FRAME_END,
    GIT_BRANCH,
    HOOKS,
    LEVEL,
    OWN_CLIENTS,
    PARENT_FRAME,
    PERCENT,
    PROCESS,
    SESSION_END,
    SIGNAL,
    SOURCE,
    SUPERVISOR,
    TITLE,
    USED,
    WAITING_FOR,
    is_applied_before,
)
from lifebus_broker.state.waiting import next_waits
from lifebus_contract import SUPPORT_STRENGTH, LifecycleEvent, PressureLevel
from lifebus_contract.facts.selections import is_failure, is_question

MAX_TURNS: Final = 64
"""How many turns a session remembers, to distinguish a turn that no hook reported from an old one."""

_MAX_LABEL: Final = 32
_UNTYPABLE: Final = re.compile(r"[^\w.+-]+")

_TURNS_AFTER_END: Final = 4
_COMPACTIONS: Final = 4
_ENDED: Final = LifecycleEvent.SESSION_ENDED
_FRAME_ENDED: Final = LifecycleEvent.FRAME_ENDED
_FRAME_OPENED: Final = LifecycleEvent.FRAME_OPENED
_TICK: Final = LifecycleEvent.SUPERVISOR_TICK
_PLACE: Final = frozenset({CWD, GIT_BRANCH, TITLE})
_WIRED: Final = frozenset({LifecycleEvent.SESSION_STARTED, _ENDED, _FRAME_OPENED, _FRAME_ENDED})
_LEVELS: Final[Mapping[Any, PressureLevel]] = {level.value: level for level in PressureLevel}
_HEIGHT: Final = {level: number for number, level in enumerate(PressureLevel)}


def apply_receipt(state: SessionState, position: int, receipt: ReceiptLike) -> None:
    """Apply the next receipt of the session; one that was applied before changes nothing.

    Of a background client's receipt, and of a correction, only its own payloads and failure count: the event itself was
    applied before.
    """
    # Live receipts and the log overlap after a restart.
    if position <= state.last_position:
        return
    event, facts = receipt.event, receipt.telemetry_summary
    _count(state, position, receipt)
    is_repeated = is_applied_before(facts)
    if not is_repeated:
        _apply_event(state, position, receipt)
    if _tells_of_failure(receipt, is_repeated=is_repeated):
        _record_failure(state, receipt)
    # An ended session has no pending questions or payloads.
    if not state.course.ended:
        if state.questions or receipt.failure_class is not None or event is _TICK:
            state.questions = next_questions(state.questions, position, receipt)
        if state.waits or event is _TICK:
            state.waits = next_waits(state.waits, receipt)
        if receipt.payload_receipts:
            state.handouts = next_handouts(state.handouts, position, receipt)


def folder_label(cwd: str) -> str:
    """Return what a directory is called in short names, in letters that need no quotes; empty where none is left."""
    # By name, the user's own directory is a tilde.
    name = "home" if cwd == "~" else cwd.rstrip("/").rpartition("/")[2]
    return _UNTYPABLE.sub("-", name).strip("-.+")[:_MAX_LABEL]


def is_app(receipt: ReceiptLike) -> bool:
    """Whether a receipt is a sign of life of an app, which emits for a session by itself."""
    return receipt.event is not _TICK and receipt.telemetry_summary.get(EMITTER, receipt.client_id) not in OWN_CLIENTS


def _apply_event(state: SessionState, position: int, receipt: ReceiptLike) -> None:
    """Apply the event itself."""
    event, facts = receipt.event, receipt.telemetry_summary
    before = state.course
    course = next_head(before, event, facts)
    if course is not before:
        # Identity is enough: the reducer of the head returns the same tuple where nothing changed.
        if course.open_frames is not before.open_frames:
            state.frames = _frames_after(state.frames, course.open_frames, position, receipt)
        state.course = course
        if before.ended and not course.ended:
            state.started, state.left, state.forgotten = True, (), False
    _record_reporter(state, receipt)
    handler = _HANDLERS.get(event)
    if handler is not None:
        handler(state, receipt)


def _count(state: SessionState, position: int, receipt: ReceiptLike) -> None:
    event, status = receipt.event, receipt.status
    if not state.receipts:
        state.first_at_epoch_s, state.first_position = receipt.at_epoch_s, position
        began_in = receipt.telemetry_summary.get(CWD)
        state.folder = folder_label(began_in) if isinstance(began_in, str) else ""
    state.receipts += 1
    state.sequence = receipt.sequence or 0
    state.last_at_epoch_s, state.last_position = receipt.at_epoch_s, position
    state.last_event, state.last_status = event, status
    by_event, by_status = state.by_event, state.by_status
    by_event[event] = by_event.get(event, 0) + 1
    by_status[status] = by_status.get(status, 0) + 1
    for payload in receipt.payload_receipts:
        state.by_payload[payload.status] = state.by_payload.get(payload.status, 0) + 1


def _frames_after(
    known: tuple[OpenFrame, ...], ids: tuple[str, ...], position: int, receipt: ReceiptLike
) -> tuple[OpenFrame, ...]:
    """Return the frames that are open now, with what is known of each; only the last one may be new."""
    kept = tuple([frame for frame in known if frame.frame_id in ids])
    if len(kept) == len(ids):
        return kept
    parent = receipt.telemetry_summary.get(PARENT_FRAME)
    opened = OpenFrame(
        frame_id=ids[-1],
        opened_at_epoch_s=receipt.at_epoch_s,
        parent=parent if isinstance(parent, str) else None,
        position=position,
        task=receipt.harness_task_id,
    )
    return (*kept, opened)


def _record_reporter(state: SessionState, receipt: ReceiptLike) -> None:
    """Record who reports the session, and what they say beside the event."""
    facts = receipt.telemetry_summary
    emitter: object = receipt.client_id
    if facts:
        process, before = facts.get(PROCESS), facts.get(COMPACTIONS_BEFORE)
        emitter = facts.get(EMITTER, emitter)
        if isinstance(process, str):
            state.process = process
        if not _PLACE.isdisjoint(facts):
            _record_place(state, facts)
        # Not isinstance: a bool is an int as well.
        if type(before) is int:
            state.before = before
    if emitter == HOOKS:
        state.hooked = True
    elif emitter == APP_SERVER:
        if receipt.event in _WIRED:
            _record_app_server(state, receipt)
    elif not state.app:
        state.app = is_app(receipt)


def _record_place(state: SessionState, facts: Mapping[str, object]) -> None:
    """Record where the session works and what it is called; what is not said stays as it was."""
    cwd, branch, title = facts.get(CWD), facts.get(GIT_BRANCH), facts.get(TITLE)
    if isinstance(cwd, str):
        state.cwd = cwd
    if isinstance(branch, str):
        state.git_branch = branch
    if isinstance(title, str):
        state.title = title


def _tells_of_failure(receipt: ReceiptLike, *, is_repeated: bool) -> bool:
    """Whether something failed that no receipt before has told; one that is repeated repeats how its frame ended."""
    facts = {} if is_repeated else receipt.telemetry_summary
    if is_question(receipt.failure_class, facts.get(WAITING_FOR)):
        return False
    return is_failure(receipt.event, receipt.status, facts.get(FRAME_END), facts.get(SESSION_END))


def _record_failure(state: SessionState, receipt: ReceiptLike) -> None:
    """Count an event that failed once, however many receipts say so."""
    this = (receipt.event_id, receipt.invocation_id)
    if this != state.failed:
        state.failures += 1
        state.failed = this


def _record_app_server(state: SessionState, receipt: ReceiptLike) -> None:
    frame = receipt.telemetry_summary.get(FRAME)
    report = (receipt.event, frame if isinstance(frame, str) else "")
    if report not in state.wired:
        state.wired = _newest_reports((*state.wired, report), 2 * MAX_TURNS)


def _newest_reports(
    reports: tuple[tuple[LifecycleEvent, str], ...], most: int
) -> tuple[tuple[LifecycleEvent, str], ...]:
    """Return all reports of the session itself, and the newest of those of its frames."""
    of_frames = [report for report in reports if report[1]]
    gone = set(of_frames[: max(0, len(of_frames) - most)])
    return tuple(report for report in reports if report not in gone) if gone else reports


def _apply_start(state: SessionState, _: ReceiptLike) -> None:
    state.started, state.announced_end = True, None
    state.starts += 1


def _apply_ending(state: SessionState, receipt: ReceiptLike) -> None:
    announced = receipt.telemetry_summary.get(ANNOUNCED_END)
    state.announced_end = announced if isinstance(announced, str) else None


def _apply_end(state: SessionState, _: ReceiptLike) -> None:
    """Keep of an ended session what receipts after the end need, and little else."""
    state.started, state.announced_end = False, None
    # A frame that is named here and gets a receipt later belongs to the life before.
    state.left = state.course.open_frames
    state.lost, state.questions, state.handouts, state.waits = (), (), (), ()
    state.turns = state.turns[-_TURNS_AFTER_END:]
    state.wired = _newest_reports(state.wired, 2 * _TURNS_AFTER_END)


def _apply_frame(state: SessionState, receipt: ReceiptLike) -> None:
    state.signalled, state.announced_end = False, None
    frame = receipt.telemetry_summary.get(FRAME)
    # An open frame that opens again goes on after its end was announced.
    state.frames = tuple(
        [
            structs.replace(one, announced_end=None) if one.frame_id == frame and one.announced_end else one
            for one in state.frames
        ]
    )
    _remember_frame(state, receipt)


def _remember_frame(state: SessionState, receipt: ReceiptLike) -> None:
    facts = receipt.telemetry_summary
    frame = facts.get(FRAME)
    if isinstance(frame, str) and frame not in state.turns:
        if facts.get(PARENT_FRAME) is None:
            state.turn_count += 1
        else:
            state.subagents += 1
        state.turns = (*state.turns, frame)[-MAX_TURNS:]


def _apply_frame_ending(state: SessionState, receipt: ReceiptLike) -> None:
    """Keep how an open frame is to end; without the facts of an announcement nothing is known of it."""
    facts = receipt.telemetry_summary
    frame, how, count = facts.get(FRAME), facts.get(ANNOUNCED_END), facts.get(ANNOUNCED_ENDS)
    # Not isinstance: a bool is an int as well.
    if isinstance(how, str) and type(count) is int:
        state.frames = tuple(
            [
                structs.replace(one, announced=count, announced_end=how) if one.frame_id == frame else one
                for one in state.frames
            ]
        )


def _apply_compaction(state: SessionState, receipt: ReceiptLike) -> None:
    # One compaction gives a receipt for every client.
    is_same = (receipt.event_id, receipt.invocation_id) == state.compacted
    if is_same:
        return  # another client's receipt of the same compaction
    # A compaction that no hook reported is known from the session's file alone.
    filed = not str(receipt.telemetry_summary.get(SOURCE, "hook")).startswith("hook")
    state.compactions += 1
    state.compacted = (receipt.event_id, receipt.invocation_id)
    state.compacted_at = (*state.compacted_at, receipt.at_epoch_s)[-_COMPACTIONS:]
    state.filed_at_epoch_s = receipt.at_epoch_s if filed else None
    state.signalled = False


def _apply_pressure(state: SessionState, receipt: ReceiptLike) -> None:
    facts = receipt.telemetry_summary
    used, percent = facts.get(USED), facts.get(PERCENT)
    if facts.get(SIGNAL) is True:
        state.signalled = True
        if type(used) is not int or facts.get(LEVEL) is None:
            return  # nothing was measured beside it
    state.level = _LEVELS.get(facts.get(LEVEL))
    state.used_pct = percent if type(percent) is int else None
    state.used_tokens = used if type(used) is int else None
    if type(used) is int:
        state.measured = True
        state.peak_used_tokens = max(used, state.peak_used_tokens or 0)
    if type(percent) is int:
        state.peak_used_pct = max(percent, state.peak_used_pct or 0)
    if state.level is not None and (state.peak is None or _HEIGHT[state.level] > _HEIGHT[state.peak]):
        state.peak = state.level


def _apply_degradation(state: SessionState, receipt: ReceiptLike) -> None:
    """A step to weaker support is a loss; a step up takes the entry away."""
    said = receipt.telemetry_summary.get(CAUSE)
    cause = said if isinstance(said, str) else None
    after = {one.capability: one for one in state.lost}
    for change in reported(receipt):
        after.pop(change.capability, None)
        # An equal step counts: the report says that it is still lost.
        if SUPPORT_STRENGTH[change.current_support] <= SUPPORT_STRENGTH[change.previous_support]:
            after[change.capability] = LostCapability(
                capability=change.capability, cause=cause, support=change.current_support
            )
            state.losses += 1
    state.lost = tuple(after[name] for name in sorted(after))
    state.ever_lost = tuple(sorted({*state.ever_lost, *after}))


def _apply_tick(state: SessionState, receipt: ReceiptLike) -> None:
    """An operator may have an ended session forgotten; nobody else's word counts."""
    if receipt.client_id == SUPERVISOR and receipt.telemetry_summary.get(FORGOTTEN) is True and state.course.ended:
        state.forgotten = True


_HANDLERS: Final[dict[LifecycleEvent, Callable[[SessionState, ReceiptLike], None]]] = {
    LifecycleEvent.SESSION_STARTING: _apply_start,
    LifecycleEvent.SESSION_STARTED: _apply_start,
    LifecycleEvent.SESSION_ENDING: _apply_ending,
    _ENDED: _apply_end,
    LifecycleEvent.FRAME_OPENING: _apply_frame,
    _FRAME_OPENED: _apply_frame,
    LifecycleEvent.FRAME_ENDING: _apply_frame_ending,
    _FRAME_ENDED: _remember_frame,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: _apply_pressure,
    LifecycleEvent.CONTEXT_COMPACTED: _apply_compaction,
    LifecycleEvent.CAPABILITY_DEGRADED: _apply_degradation,
    _TICK: _apply_tick,
}
