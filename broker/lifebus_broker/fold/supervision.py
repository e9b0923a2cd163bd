"""The fold over one session's receipts that supervision stands on: frames, pressure, compactions, what is degraded.

The same receipts always give the same state, so a restarted supervisor goes on where the last one stopped and says
nothing twice.  No clock, no randomness, no iteration order (design 4.5).

Above: the supervisor.  Below: the contract.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from lifebus_contract import SUPPORT_STRENGTH, LifecycleEvent, PressureLevel, Receipt, SupportState

__all__ = [
    "BEFORE",
    "CAUSE",
    "LEVEL",
    "MAX_OPEN",
    "PROCESS",
    "SIGNAL",
    "SOURCE",
    "USED",
    "Lost",
    "OpenFrame",
    "Supervised",
    "supervise",
]

LEVEL: Final = "context_pressure"
"""The fact that carries the pressure level (lifecycle-contract, "Receipt Schema")."""
USED: Final = "context_used_tokens"
"""The fact that carries how many tokens are used."""
SOURCE: Final = "source"
"""The fact that says where an observation came from: ``hook:PostCompact``, ``rollout``."""
SIGNAL: Final = "signal"
"""The fact that marks pressure which a harness signalled without numbers."""
CAUSE: Final = "cause"
"""The fact that says why capabilities were lost, or of which loss they recovered."""
BEFORE: Final = "compactions_before"
"""The fact that tells how many compactions of a session its file proves from before it was supervised."""
PROCESS: Final = "harness_process"
"""The fact that names the harness's process: ``<pid>@<start>``."""
MAX_OPEN: Final = 64
"""Most open frames that are remembered; the oldest is forgotten first."""


class OpenFrame(Struct, frozen=True):
    """A frame that has not ended: its id, the frame it stands in, the task it is about, and when it opened."""

    frame_id: str
    parent: str | None
    task: str | None
    opened_at_epoch_s: int


class Lost(Struct, frozen=True):
    """A capability that was lost, and why."""

    capability: str
    support: SupportState
    cause: str | None


class Supervised(Struct, frozen=True, kw_only=True):
    """What a session's receipts say up to `sequence`.

    `started` says that the session began and is not over, `starts` counts the words of its beginnings.
    `left` names the frames that were open when the session ended; one that opened later is alive.  `level` is the last
    one observed, `measured` whether there ever were numbers; `signalled` whether a signal of pressure stands since the
    last frame began or the context was rewritten.  `compactions` counts proofs, not the receipts that clients got of
    one; `compacted` is the last one's event and invocation, `filed_at_epoch_s` when it was recorded, if it came from a
    file alone; `before` counts those from before the session was supervised.  `process` is the harness's, as last seen.
    """

    sequence: int = 0
    started: bool = False
    starts: int = 0
    ended: bool = False
    frames: tuple[OpenFrame, ...] = ()
    left: tuple[str, ...] = ()
    level: PressureLevel | None = None
    measured: bool = False
    signalled: bool = False
    compactions: int = 0
    compacted: tuple[str, str] | None = None
    filed_at_epoch_s: int | None = None
    before: int = 0
    lost: tuple[Lost, ...] = ()
    process: str | None = None
    last_event: LifecycleEvent | None = None
    last_at_epoch_s: int = 0


def supervise(state: Supervised, receipt: Receipt) -> Supervised:
    """Return the state after one more receipt of the session; one that is known already changes nothing."""
    sequence = receipt.sequence or 0
    if sequence and sequence <= state.sequence:
        return state
    facts, event = receipt.telemetry_summary, receipt.event
    process, before = facts.get(PROCESS), facts.get(BEFORE)
    state = structs.replace(
        state,
        sequence=sequence or state.sequence,
        process=process if isinstance(process, str) else state.process,
        before=before if isinstance(before, int) else state.before,
        last_event=event,
        last_at_epoch_s=receipt.at_epoch_s,
    )
    step = _STEPS.get(event)
    return state if step is None else step(state, receipt)


def _started(state: Supervised, _: Receipt) -> Supervised:
    return structs.replace(state, started=True, starts=state.starts + 1, ended=False, left=())


def _ended(state: Supervised, _: Receipt) -> Supervised:
    return structs.replace(
        state, started=False, ended=True, left=tuple(frame.frame_id for frame in state.frames), lost=()
    )


def _closed(state: Supervised, receipt: Receipt) -> Supervised:
    gone = receipt.telemetry_summary.get("frame_id")
    return structs.replace(state, frames=tuple(one for one in state.frames if one.frame_id != gone))


def _compacted(state: Supervised, receipt: Receipt) -> Supervised:
    told = (receipt.event_id, receipt.invocation_id)
    if told == state.compacted:
        return state  # another client's receipt of the same
    filed = not str(receipt.telemetry_summary.get(SOURCE, "hook")).startswith("hook")
    at = receipt.at_epoch_s if filed else None
    after = state.compactions + 1
    return structs.replace(state, compactions=after, compacted=told, filed_at_epoch_s=at, signalled=False)


def _opened(state: Supervised, receipt: Receipt) -> Supervised:
    return structs.replace(state, frames=_frames_after(state.frames, receipt), signalled=False)


def _frames_after(frames: tuple[OpenFrame, ...], receipt: Receipt) -> tuple[OpenFrame, ...]:
    frame_id, parent = receipt.telemetry_summary.get("frame_id"), receipt.telemetry_summary.get("parent_frame_id")
    if not isinstance(frame_id, str) or any(one.frame_id == frame_id for one in frames):
        return frames
    inside = parent if isinstance(parent, str) else None
    opened = OpenFrame(frame_id, inside, receipt.harness_task_id, receipt.at_epoch_s)
    return (*frames, opened)[-MAX_OPEN:]


def _pressed(state: Supervised, receipt: Receipt) -> Supervised:
    facts = receipt.telemetry_summary
    if facts.get(SIGNAL) is True:
        return structs.replace(state, signalled=True)
    level = facts.get(LEVEL)
    known = PressureLevel(level) if isinstance(level, str) and level in set(PressureLevel) else None
    return structs.replace(state, level=known, measured=state.measured or isinstance(facts.get(USED), int))


def _degraded(state: Supervised, receipt: Receipt) -> Supervised:
    """A step to weaker support is a loss; a step up takes the entry away."""
    cause = receipt.telemetry_summary.get(CAUSE)
    after = {one.capability: one for one in state.lost}
    for change in receipt.capability_degradations:
        if SUPPORT_STRENGTH[change.current_support] > SUPPORT_STRENGTH[change.previous_support]:
            after.pop(change.capability, None)
        else:
            why = cause if isinstance(cause, str) else None
            after[change.capability] = Lost(change.capability, change.current_support, why)
    return structs.replace(state, lost=tuple(after[name] for name in sorted(after)))


_STEPS: Final[dict[LifecycleEvent, Callable[[Supervised, Receipt], Supervised]]] = {
    LifecycleEvent.SESSION_STARTING: _started,
    LifecycleEvent.SESSION_STARTED: _started,
    LifecycleEvent.SESSION_ENDED: _ended,
    LifecycleEvent.FRAME_OPENING: _opened,
    LifecycleEvent.FRAME_OPENED: _opened,
    LifecycleEvent.FRAME_ENDED: _closed,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: _pressed,
    LifecycleEvent.CONTEXT_COMPACTED: _compacted,
    LifecycleEvent.CAPABILITY_DEGRADED: _degraded,
}
