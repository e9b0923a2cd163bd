"""The fold over one session's receipts: open frames, whether it ended, how far the harness counted.

Receipts carry no frame id; the router puts `frame_id` and `harness_sequence` into `telemetry_summary`.
No clock, no randomness, no iteration order: the same rows always give the same head.

Above: ledgers (every durable row carries the state after it), router.  Below: the contract and the ports.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_broker.ports import Row, SessionHead
from lifebus_contract import LifecycleEvent, Receipt

__all__ = ["INITIAL", "MAX_OPEN_FRAMES", "SessionState", "advance", "extend_head", "fold_rows"]

MAX_OPEN_FRAMES: Final = 64
"""Most open frames that a session remembers; the oldest is forgotten first."""

_DECODER: Final = msgspec.json.Decoder(Receipt)
_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_STARTS: Final = frozenset({LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED})


class SessionState(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of a session's head that cannot be read off its newest receipt."""

    ended: bool = False
    harness_sequence: int | None = None
    open_frames: tuple[str, ...] = ()


INITIAL: Final = SessionState()
"""The state of a session before its first receipt."""


def advance(state: SessionState, event: LifecycleEvent, summary: Mapping[str, object]) -> SessionState:
    """Return the state after a receipt of `event` with this `telemetry_summary`; the same object if nothing changed."""
    ended = event is LifecycleEvent.SESSION_ENDED or (state.ended and event not in _STARTS)
    frames, counted = state.open_frames, state.harness_sequence
    if summary:
        frame, number = summary.get("frame_id"), summary.get("harness_sequence")
        if type(number) is int:
            counted = number
        if type(frame) is str:
            frames = _frames_after(frames, event, frame)
    if ended == state.ended and frames is state.open_frames and counted == state.harness_sequence:
        return state
    return SessionState(ended=ended, harness_sequence=counted, open_frames=frames)


def extend_head(head: SessionHead | None, receipt: Receipt, position: int) -> SessionHead | None:
    """Return the session's head after one more receipt; None for a receipt without a session.

    `sequence` stays 0 where the ledger gives none.
    """
    session = receipt.harness_session_id
    if session is None:
        return None
    before = (
        INITIAL
        if head is None
        else SessionState(ended=head.ended, harness_sequence=head.harness_sequence, open_frames=head.open_frames)
    )
    after = advance(before, receipt.event, receipt.telemetry_summary)
    return SessionHead(
        adapter_id=receipt.adapter_id,
        harness_session_id=session,
        sequence=receipt.sequence or 0,
        receipts=1 if head is None else head.receipts + 1,
        first_position=position if head is None else head.first_position,
        last_position=position,
        last_event=receipt.event,
        last_status=receipt.status,
        started_at_epoch_s=receipt.at_epoch_s if head is None else head.started_at_epoch_s,
        last_at_epoch_s=receipt.at_epoch_s,
        ended=after.ended,
        open_frames=after.open_frames,
        harness_sequence=after.harness_sequence,
    )


def fold_rows(rows: Iterable[Row]) -> dict[tuple[str, str], SessionHead]:
    """Return the heads of all sessions in `rows`, which stand in position order.

    Raises:
        msgspec.ValidationError: a row does not hold a receipt.
    """
    heads: dict[tuple[str, str], SessionHead] = {}
    for row in rows:
        if row.harness_session_id is not None:
            key = (row.adapter_id, row.harness_session_id)
            head = extend_head(heads.get(key), _DECODER.decode(row.receipt), row.position)
            if head is not None:
                heads[key] = head
    return heads


def _frames_after(frames: tuple[str, ...], event: LifecycleEvent, frame: str) -> tuple[str, ...]:
    """Return the open frames after `event` of one frame; the same object if nothing changed."""
    if event in _OPENS and frame not in frames:
        return (*frames, frame)[-MAX_OPEN_FRAMES:]
    if event is LifecycleEvent.FRAME_ENDED and frame in frames:
        return tuple(other for other in frames if other != frame)
    return frames
