"""The one reducer of stories: what each receipt changes in the story of its session.

Ledgers write its first step, `session.advance`, into every row; supervision stands on stories, so that a restarted
supervisor goes on where the last one stopped and says nothing twice; recaps are read off them.
No clock, no randomness, no iteration order: the same receipts always give the same story (docs/ledger.md, "State").
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.capability_state import reported
from lifebus_broker.state.pending import handouts_after, questions_after
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.session_head import advance
from lifebus_broker.state.session_state import Lost, OpenFrame, SessionState
from lifebus_broker.state.telemetry_keys import (
    APP_SERVER,
    BEFORE,
    CAUSE,
    FRAME,
    HOOKS,
    LATE,
    LEVEL,
    OWN_CLIENTS,
    PARENT_FRAME,
    PERCENT,
    PROCESS,
    SIGNAL,
    SOURCE,
    USED,
)
from lifebus_contract import SUPPORT_STRENGTH, LifecycleEvent, PressureLevel

MAX_TURNS: Final = 64
"""How many turns a session remembers, to tell a turn that no hook told of from an old one."""

_TURNS_AFTER_END: Final = 4
_COMPACTIONS: Final = 4
_ENDED: Final = LifecycleEvent.SESSION_ENDED
_FRAME_ENDED: Final = LifecycleEvent.FRAME_ENDED
_FRAME_OPENED: Final = LifecycleEvent.FRAME_OPENED
_TICK: Final = LifecycleEvent.SUPERVISOR_TICK
_WIRED: Final = frozenset({LifecycleEvent.SESSION_STARTED, _ENDED, _FRAME_OPENED, _FRAME_ENDED})
_LEVELS: Final[Mapping[Any, PressureLevel]] = {level.value: level for level in PressureLevel}
_HEIGHT: Final = {level: number for number, level in enumerate(PressureLevel)}


def apply_receipt(story: SessionState, position: int, told: ReceiptLike) -> None:
    """Take one more receipt of the session; one that is known already changes nothing.

    Of a background client's receipt only what is its own counts: the event itself was told before.
    """
    if position <= story.last_position:
        return
    event, facts = told.event, told.telemetry_summary
    _count(story, position, told)
    if LATE not in facts:
        _take(story, position, told)
    if not story.course.ended:  # who is over waits for nobody
        if story.questions or told.failure_class is not None or event is _TICK:
            story.questions = questions_after(story.questions, position, told)
        if told.payload_receipts:
            story.handouts = handouts_after(story.handouts, position, told)


def is_app(told: ReceiptLike) -> bool:
    """Whether a receipt is a sign of life of an app, which tells of a session by itself."""
    return told.event is not _TICK and told.telemetry_summary.get(EMITTER, told.client_id) not in OWN_CLIENTS


def _take(story: SessionState, position: int, told: ReceiptLike) -> None:
    """Take the event itself."""
    event, facts = told.event, told.telemetry_summary
    before = story.course
    course = advance(before, event, facts)
    if course is not before:
        if course.open_frames is not before.open_frames:
            story.frames = _frames_after(story.frames, course.open_frames, position, told)
        story.course = course
    _hear(story, told)
    step = _STEPS.get(event)
    if step is not None:
        step(story, told)


def _count(story: SessionState, position: int, told: ReceiptLike) -> None:
    event, status = told.event, told.status
    if not story.receipts:
        story.first_at_epoch_s, story.first_position = told.at_epoch_s, position
    story.receipts += 1
    story.sequence = told.sequence or 0
    story.last_at_epoch_s, story.last_position = told.at_epoch_s, position
    story.last_event, story.last_status = event, status
    by_event, by_status = story.by_event, story.by_status
    by_event[event] = by_event.get(event, 0) + 1
    by_status[status] = by_status.get(status, 0) + 1
    for payload in told.payload_receipts:
        story.by_payload[payload.status] = story.by_payload.get(payload.status, 0) + 1


def _frames_after(
    known: tuple[OpenFrame, ...], ids: tuple[str, ...], position: int, told: ReceiptLike
) -> tuple[OpenFrame, ...]:
    """Return the frames that are open now, with what is known of each; only the last one may be new."""
    kept = tuple([frame for frame in known if frame.frame_id in ids])
    if len(kept) == len(ids):
        return kept
    parent = told.telemetry_summary.get(PARENT_FRAME)
    opened = OpenFrame(
        frame_id=ids[-1],
        opened_at_epoch_s=told.at_epoch_s,
        parent=parent if isinstance(parent, str) else None,
        position=position,
        task=told.harness_task_id,
    )
    return (*kept, opened)


def _hear(story: SessionState, told: ReceiptLike) -> None:
    """Note who tells of the session, and what they say beside the event."""
    facts = told.telemetry_summary
    emitter: object = told.client_id
    if facts:
        process, before = facts.get(PROCESS), facts.get(BEFORE)
        emitter = facts.get(EMITTER, emitter)
        if isinstance(process, str):
            story.process = process
        if type(before) is int:
            story.before = before
    if emitter == HOOKS:
        story.hooked = True
    elif emitter == APP_SERVER:
        if told.event in _WIRED:
            _note_wired(story, told)
    elif not story.app:
        story.app = is_app(told)


def _note_wired(story: SessionState, told: ReceiptLike) -> None:
    frame = told.telemetry_summary.get(FRAME)
    word = (told.event, frame if isinstance(frame, str) else "")
    if word not in story.wired:
        story.wired = _newest_words((*story.wired, word), 2 * MAX_TURNS)


def _newest_words(words: tuple[tuple[LifecycleEvent, str], ...], most: int) -> tuple[tuple[LifecycleEvent, str], ...]:
    """Return what was told of the session itself, and the newest of what was told of its frames."""
    of_frames = [word for word in words if word[1]]
    gone = set(of_frames[: max(0, len(of_frames) - most)])
    return tuple(word for word in words if word not in gone) if gone else words


def _started(story: SessionState, _: ReceiptLike) -> None:
    story.started, story.left = True, ()
    story.starts += 1


def _ended(story: SessionState, _: ReceiptLike) -> None:
    """Keep of a session that is over what late words need, and little else."""
    story.started = False
    story.left = story.course.open_frames
    story.lost, story.questions, story.handouts = (), (), ()
    story.turns = story.turns[-_TURNS_AFTER_END:]
    story.wired = _newest_words(story.wired, 2 * _TURNS_AFTER_END)


def _opened(story: SessionState, told: ReceiptLike) -> None:
    story.signalled = False
    frame = told.telemetry_summary.get(FRAME)
    if isinstance(frame, str) and frame not in story.turns:
        story.turns = (*story.turns, frame)[-MAX_TURNS:]


def _compacted(story: SessionState, told: ReceiptLike) -> None:
    is_same = (told.event_id, told.invocation_id) == story.compacted
    if is_same:
        return  # another client's receipt of the same
    filed = not str(told.telemetry_summary.get(SOURCE, "hook")).startswith("hook")
    story.compactions += 1
    story.compacted = (told.event_id, told.invocation_id)
    story.compacted_at = (*story.compacted_at, told.at_epoch_s)[-_COMPACTIONS:]
    story.filed_at_epoch_s = told.at_epoch_s if filed else None
    story.signalled = False


def _pressed(story: SessionState, told: ReceiptLike) -> None:
    facts = told.telemetry_summary
    if facts.get(SIGNAL) is True:
        story.signalled = True
        return
    used, percent = facts.get(USED), facts.get(PERCENT)
    story.level = _LEVELS.get(facts.get(LEVEL))
    if type(used) is int:
        story.measured = True
        story.peak_used_tokens = max(used, story.peak_used_tokens or 0)
    if type(percent) is int:
        story.peak_used_pct = max(percent, story.peak_used_pct or 0)
    if story.level is not None and (story.peak is None or _HEIGHT[story.level] > _HEIGHT[story.peak]):
        story.peak = story.level


def _degraded(story: SessionState, told: ReceiptLike) -> None:
    """A step to weaker support is a loss; a step up takes the entry away."""
    said = told.telemetry_summary.get(CAUSE)
    cause = said if isinstance(said, str) else None
    after = {one.capability: one for one in story.lost}
    for change in reported(told):
        after.pop(change.capability, None)
        if SUPPORT_STRENGTH[change.current_support] <= SUPPORT_STRENGTH[change.previous_support]:
            after[change.capability] = Lost(capability=change.capability, cause=cause, support=change.current_support)
            story.losses += 1
    story.lost = tuple(after[name] for name in sorted(after))
    story.ever_lost = tuple(sorted({*story.ever_lost, *after}))


_STEPS: Final[dict[LifecycleEvent, Callable[[SessionState, ReceiptLike], None]]] = {
    LifecycleEvent.SESSION_STARTING: _started,
    LifecycleEvent.SESSION_STARTED: _started,
    _ENDED: _ended,
    LifecycleEvent.FRAME_OPENING: _opened,
    _FRAME_OPENED: _opened,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: _pressed,
    LifecycleEvent.CONTEXT_COMPACTED: _compacted,
    LifecycleEvent.CAPABILITY_DEGRADED: _degraded,
}
