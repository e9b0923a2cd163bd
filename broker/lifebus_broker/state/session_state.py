"""The state of one session: what happened, what is open, what is pending, and how much of it."""

from typing import Self

from msgspec import Struct, field, structs

from lifebus_broker.state.pending import Handout, OperatorQuestion
from lifebus_broker.state.session_head import HeadState
from lifebus_contract import LifecycleEvent, PressureLevel, ReceiptStatus, SupportState
from lifebus_contract.views import SessionHead, Wait


class OpenFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A frame that has not ended: its id, when and where it opened, the frame it stands in, the task it is about.

    `announced` counts how often its harness announced its end, and `announced_end` says how it was to end the last
    time.
    """

    announced: int = 0
    announced_end: str | None = None
    frame_id: str
    opened_at_epoch_s: int = 0
    parent: str | None = None
    position: int = 0
    task: str | None = None


class LostCapability(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A capability that was lost, and why."""

    capability: str
    cause: str | None = None
    support: SupportState


class SessionState(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session's receipts say up to `last_position`; only `session_reducer.apply_receipt` changes it, in place.

    The fields are the keys of a dump, and so stand in the order of their names.
    """

    adapter_id: str
    announced_end: str | None = None  # how it ends, where its harness announced an end that is not recorded yet
    app: bool = False  # an app emitted for the session by itself
    before: int = 0  # compactions from before the session was supervised
    by_event: dict[LifecycleEvent, int] = {}  # how many receipts there are of each event
    by_payload: dict[ReceiptStatus, int] = {}  # how many payloads there are of each status
    by_status: dict[ReceiptStatus, int] = {}  # how many receipts there are of each status
    compacted: tuple[str, str] | None = None  # event and invocation of the last compaction
    compacted_at: tuple[int, ...] = ()  # times of the newest compactions, in epoch seconds
    compactions: int = 0  # compactions, not the receipts that clients got of one
    course: HeadState = field(default_factory=HeadState)  # what every row of a ledger carries of the session
    cwd: str | None = None  # the directory in which it works, as far as that is recorded
    ever_lost: tuple[str, ...] = ()  # capabilities that were ever lost
    failed: tuple[str, str] | None = None  # event and invocation of the last failure
    failures: int = 0  # events of which a receipt tells a failure (docs/consuming.md, "Selections")
    filed_at_epoch_s: int | None = None  # when the last compaction was, if a file alone proves it
    first_at_epoch_s: int = 0
    first_position: int = 0
    folder: str = (
        ""  # what the directory of its first receipt is called (`session_reducer.folder_label`); empty without one
    )
    forgotten: bool = False  # an operator had it forgotten, and it has not gone on since
    frames: tuple[OpenFrame, ...] = ()  # open frames, the oldest first
    git_branch: str | None = None
    handouts: tuple[Handout, ...] = ()  # payloads that were accepted and not placed
    harness_session_id: str
    hooked: bool = False  # hooks reported the session
    last_at_epoch_s: int = 0
    last_event: LifecycleEvent | None = None
    last_position: int = 0
    last_status: ReceiptStatus | None = None
    left: tuple[str, ...] = ()  # frames that were open when the session ended
    level: PressureLevel | None = None  # the last level that was observed
    losses: int = 0  # how often a capability became weaker
    lost: tuple[LostCapability, ...] = ()  # capabilities that are lost now
    measured: bool = False  # whether pressure was ever reported in numbers
    peak: PressureLevel | None = None  # the highest level that was observed
    peak_used_pct: int | None = None
    peak_used_tokens: int | None = None
    process: str | None = None  # the harness's process as it was last seen, ``<pid>@<start>``
    questions: tuple[OperatorQuestion, ...] = ()  # open questions to an operator
    receipts: int = 0
    sequence: int = 0
    signalled: bool = False  # whether a signal of pressure stands since the last frame began or the last compaction
    started: bool = False  # whether the session began and has not ended
    starts: int = 0  # how many receipts say that it starts or has started
    subagents: int = 0  # frames within frames
    title: str | None = None  # what its harness calls it
    turn_count: int = 0  # frames that are within no other
    turns: tuple[str, ...] = ()  # the newest frames that opened or ended
    used_pct: int | None = None  # as it was measured last
    used_tokens: int | None = None
    waits: tuple[Wait, ...] = ()  # what it waits for a person to do, the oldest first
    wired: tuple[tuple[LifecycleEvent, str], ...] = ()  # what an app-server reported: event, and frame or ""

    @property
    def ended(self) -> bool:
        """Whether the session has ended; it may start again."""
        return self.course.ended

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended and no frame of it is open."""
        return self.course.ended and not self.frames

    def copy(self) -> Self:
        """Return an independent copy."""
        return structs.replace(
            self, by_event=dict(self.by_event), by_payload=dict(self.by_payload), by_status=dict(self.by_status)
        )


def head_of(state: SessionState) -> SessionHead | None:
    """Return the head of a session as a ledger answers it; None before its first receipt."""
    if state.last_event is None or state.last_status is None:
        return None
    return SessionHead(
        adapter_id=state.adapter_id,
        harness_session_id=state.harness_session_id,
        sequence=state.sequence,
        receipts=state.receipts,
        first_position=state.first_position,
        last_position=state.last_position,
        last_event=state.last_event,
        last_status=state.last_status,
        started_at_epoch_s=state.first_at_epoch_s,
        last_at_epoch_s=state.last_at_epoch_s,
        ended=state.course.ended,
        open_frames=state.course.open_frames,
        harness_sequence=state.course.harness_sequence,
    )


def describe(head: SessionHead, state: SessionState, name: str) -> SessionHead:
    """Return a session's head with what only its state knows, and its short name."""
    return structs.replace(
        head,
        name=name,
        cwd=state.cwd,
        git_branch=state.git_branch,
        title=state.title,
        turns=state.turn_count,
        subagents=state.subagents,
        compactions=state.compactions,
        failures=state.failures,
        pressure=state.level,
        used_pct=state.used_pct,
        used_tokens=state.used_tokens,
        waiting=state.waits,
        forgotten=state.forgotten,
    )
