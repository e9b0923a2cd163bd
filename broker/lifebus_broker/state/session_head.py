"""The part of a session's state that every row of a ledger carries: open frames, whether it ended, the harness's count.

Receipts carry no frame id; the router puts `frame_id` and `harness_sequence` into `telemetry_summary`.
No clock, no randomness, no iteration order: the same receipts always give the same state.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from lifebus_broker.state.telemetry_keys import is_applied_before
from lifebus_contract import LifecycleEvent

MAX_OPEN_FRAMES: Final = 64
"""Most open frames that a session remembers; the oldest is forgotten first."""

# Bound once: to look up a member of an enum costs eight times a module's name.
_ENDED: Final = LifecycleEvent.SESSION_ENDED
_FRAME_ENDED: Final = LifecycleEvent.FRAME_ENDED
_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_BEGINS: Final = _OPENS | {LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED}
"""The events after which an ended session is open again."""


class HeadState(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of a session's head that cannot be read off its newest receipt."""

    ended: bool = False
    harness_sequence: int | None = None
    open_frames: tuple[str, ...] = ()


INITIAL: Final = HeadState()
"""The state of a session before its first receipt."""


def next_head(state: HeadState, event: LifecycleEvent, summary: Mapping[str, object]) -> HeadState:
    """Return the state after a receipt of `event` with this `telemetry_summary`; the same object if nothing changed."""
    # The event was applied when it was first recorded.
    if is_applied_before(summary):
        return state
    ended = event is _ENDED or (state.ended and event not in _BEGINS)
    frames, counted = state.open_frames, state.harness_sequence
    if summary:
        frame, number = summary.get("frame_id"), summary.get("harness_sequence")
        if type(number) is int:
            counted = number
        if type(frame) is str:
            frames = _frames_after(frames, event, frame)
    if ended == state.ended and frames is state.open_frames and counted == state.harness_sequence:
        return state
    return HeadState(ended=ended, harness_sequence=counted, open_frames=frames)


def _frames_after(frames: tuple[str, ...], event: LifecycleEvent, frame: str) -> tuple[str, ...]:
    """Return the open frames after `event` of one frame; the same object if nothing changed."""
    if event in _OPENS and frame not in frames:
        return (*frames, frame)[-MAX_OPEN_FRAMES:]
    if event is _FRAME_ENDED and frame in frames:
        return tuple(other for other in frames if other != frame)
    return frames
