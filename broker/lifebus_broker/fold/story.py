"""The story of each session, folded from its receipts: what happened, what is open, what waits, and how much of it.

One reducer for all who ask: ledgers write its first step, `session.advance`, into every row; supervision stands on
stories, so that a restarted supervisor goes on where the last one stopped and says nothing twice; recaps are read off
them.  No clock, no randomness, no iteration order: the same receipts always give the same story (design 4.5).

Above: story_state, the supervisor, the ledger in memory.  Below: session, pending, told, words, the contract.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from msgspec import Struct, field, structs

from lifebus_broker.fold.pending import Handout, Question, handouts_after, questions_after
from lifebus_broker.fold.session import SessionState, advance
from lifebus_broker.fold.told import Told
from lifebus_broker.fold.unlock import reported
from lifebus_broker.fold.words import (
    APP_SERVER,
    BEFORE,
    CAUSE,
    FRAME,
    HOOKS,
    LEVEL,
    OWN_CLIENTS,
    PARENT_FRAME,
    PERCENT,
    PROCESS,
    SIGNAL,
    SOURCE,
    USED,
)
from lifebus_broker.ports import EMITTER, SessionHead
from lifebus_contract import SUPPORT_STRENGTH, LifecycleEvent, PressureLevel, ReceiptStatus, SupportState

__all__ = ["MAX_TURNS", "Lost", "OpenFrame", "Story", "head_of", "is_app", "tell"]

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


class OpenFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A frame that has not ended: its id, when and where it opened, the frame it stands in, the task it is about."""

    frame_id: str
    opened_at_epoch_s: int = 0
    parent: str | None = None
    position: int = 0
    task: str | None = None


class Lost(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A capability that was lost, and why."""

    capability: str
    cause: str | None = None
    support: SupportState


class Story(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session's receipts say up to `last_position`; changed in place by `tell` and by nobody else.

    `app` says that an app told of the session by itself, `hooked` that hooks did, `process` is the harness's as last
    seen.  `by_event`, `by_status` and `by_payload` count receipts and payloads.

    `started` says that the session began and is not over, `starts` counts the words of its beginnings.  `left` names
    the frames that were open when it ended; one that opened later is alive.  `turns` are the newest frames that opened;
    `wired` what an app-server told of the session (frame "") and of its newest frames.

    `compactions` counts proofs, not the receipts that clients got of one; `compacted` is the last one's event and
    invocation, `compacted_at` holds the times of the newest, `filed_at_epoch_s` that of the last one if it came from a
    file alone; `before` counts those from before the session was supervised.

    `level` is the last one observed, `peak` the highest, `measured` whether there ever were numbers; `signalled`
    whether a signal of pressure stands since the last frame began or the context was rewritten.  `lost` is lost now,
    `ever_lost` names all that ever was, `losses` counts the steps down.  `questions` and `handouts` wait for somebody.
    """

    adapter_id: str
    app: bool = False
    before: int = 0
    by_event: dict[LifecycleEvent, int] = {}
    by_payload: dict[ReceiptStatus, int] = {}
    by_status: dict[ReceiptStatus, int] = {}
    compacted: tuple[str, str] | None = None
    compacted_at: tuple[int, ...] = ()
    compactions: int = 0
    course: SessionState = field(default_factory=SessionState)
    ever_lost: tuple[str, ...] = ()
    filed_at_epoch_s: int | None = None
    first_at_epoch_s: int = 0
    first_position: int = 0
    frames: tuple[OpenFrame, ...] = ()
    handouts: tuple[Handout, ...] = ()
    harness_session_id: str
    hooked: bool = False
    last_at_epoch_s: int = 0
    last_event: LifecycleEvent | None = None
    last_position: int = 0
    last_status: ReceiptStatus | None = None
    left: tuple[str, ...] = ()
    level: PressureLevel | None = None
    losses: int = 0
    lost: tuple[Lost, ...] = ()
    measured: bool = False
    peak: PressureLevel | None = None
    peak_used_pct: int | None = None
    peak_used_tokens: int | None = None
    process: str | None = None
    questions: tuple[Question, ...] = ()
    receipts: int = 0
    sequence: int = 0
    signalled: bool = False
    started: bool = False
    starts: int = 0
    turns: tuple[str, ...] = ()
    wired: tuple[tuple[LifecycleEvent, str], ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the session is over; a session that ended may start again."""
        return self.course.ended

    @property
    def is_closed(self) -> bool:
        """Whether the session is over and nothing of it is open."""
        return self.course.ended and not self.frames

    def copy(self) -> Self:
        """Return a story of its own that says the same."""
        return structs.replace(
            self, by_event=dict(self.by_event), by_payload=dict(self.by_payload), by_status=dict(self.by_status)
        )


def tell(story: Story, position: int, told: Told) -> None:
    """Take one more receipt of the session; one that is known already changes nothing."""
    if position <= story.last_position:
        return
    event, facts = told.event, told.telemetry_summary
    _count(story, position, told)
    before = story.course
    course = advance(before, event, facts)
    if course is not before:
        if course.open_frames is not before.open_frames:
            story.frames = _frames_after(story.frames, course.open_frames, position, told)
        story.course = course
    _hear(story, told)
    if not course.ended:  # who is over waits for nobody
        if story.questions or told.failure_class is not None or event is _TICK:
            story.questions = questions_after(story.questions, position, told)
        if told.payload_receipts:
            story.handouts = handouts_after(story.handouts, position, told)
    step = _STEPS.get(event)
    if step is not None:
        step(story, told)


def head_of(story: Story) -> SessionHead | None:
    """Return the head of a session as ledgers tell it; None before its first receipt."""
    if story.last_event is None or story.last_status is None:
        return None
    return SessionHead(
        adapter_id=story.adapter_id,
        harness_session_id=story.harness_session_id,
        sequence=story.sequence,
        receipts=story.receipts,
        first_position=story.first_position,
        last_position=story.last_position,
        last_event=story.last_event,
        last_status=story.last_status,
        started_at_epoch_s=story.first_at_epoch_s,
        last_at_epoch_s=story.last_at_epoch_s,
        ended=story.course.ended,
        open_frames=story.course.open_frames,
        harness_sequence=story.course.harness_sequence,
    )


def is_app(told: Told) -> bool:
    """Whether a receipt is a sign of life of an app, which tells of a session by itself."""
    return told.event is not _TICK and told.telemetry_summary.get(EMITTER, told.client_id) not in OWN_CLIENTS


def _count(story: Story, position: int, told: Told) -> None:
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
    known: tuple[OpenFrame, ...], ids: tuple[str, ...], position: int, told: Told
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


def _hear(story: Story, told: Told) -> None:
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


def _note_wired(story: Story, told: Told) -> None:
    frame = told.telemetry_summary.get(FRAME)
    word = (told.event, frame if isinstance(frame, str) else "")
    if word not in story.wired:
        story.wired = _newest_words((*story.wired, word), 2 * MAX_TURNS)


def _newest_words(words: tuple[tuple[LifecycleEvent, str], ...], most: int) -> tuple[tuple[LifecycleEvent, str], ...]:
    """Return what was told of the session itself, and the newest of what was told of its frames."""
    of_frames = [word for word in words if word[1]]
    gone = set(of_frames[: max(0, len(of_frames) - most)])
    return tuple(word for word in words if word not in gone) if gone else words


def _started(story: Story, _: Told) -> None:
    story.started, story.left = True, ()
    story.starts += 1


def _ended(story: Story, _: Told) -> None:
    """Keep of a session that is over what late words need, and little else."""
    story.started = False
    story.left = story.course.open_frames
    story.lost, story.questions, story.handouts = (), (), ()
    story.turns = story.turns[-_TURNS_AFTER_END:]
    story.wired = _newest_words(story.wired, 2 * _TURNS_AFTER_END)


def _opened(story: Story, told: Told) -> None:
    story.signalled = False
    frame = told.telemetry_summary.get(FRAME)
    if isinstance(frame, str) and frame not in story.turns:
        story.turns = (*story.turns, frame)[-MAX_TURNS:]


def _compacted(story: Story, told: Told) -> None:
    is_same = (told.event_id, told.invocation_id) == story.compacted
    if is_same:
        return  # another client's receipt of the same
    filed = not str(told.telemetry_summary.get(SOURCE, "hook")).startswith("hook")
    story.compactions += 1
    story.compacted = (told.event_id, told.invocation_id)
    story.compacted_at = (*story.compacted_at, told.at_epoch_s)[-_COMPACTIONS:]
    story.filed_at_epoch_s = told.at_epoch_s if filed else None
    story.signalled = False


def _pressed(story: Story, told: Told) -> None:
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


def _degraded(story: Story, told: Told) -> None:
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


_STEPS: Final[dict[LifecycleEvent, Callable[[Story, Told], None]]] = {
    LifecycleEvent.SESSION_STARTING: _started,
    LifecycleEvent.SESSION_STARTED: _started,
    _ENDED: _ended,
    LifecycleEvent.FRAME_OPENING: _opened,
    _FRAME_OPENED: _opened,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: _pressed,
    LifecycleEvent.CONTEXT_COMPACTED: _compacted,
    LifecycleEvent.CAPABILITY_DEGRADED: _degraded,
}
