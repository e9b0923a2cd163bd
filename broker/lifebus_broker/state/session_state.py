"""The story of one session as data: what happened, what is open, what waits for somebody, and how much of it."""

from typing import Self

from msgspec import Struct, field, structs

from lifebus_broker.state.pending import Handout, Question
from lifebus_broker.state.session_head import HeadState
from lifebus_contract import LifecycleEvent, PressureLevel, ReceiptStatus, SupportState
from lifebus_contract.views import SessionHead


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


class SessionState(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
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
    course: HeadState = field(default_factory=HeadState)
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


def head_of(story: SessionState) -> SessionHead | None:
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
