"""The fold over the notes of a named consumer: how far it is, and what it was given and has not settled.

No clock, no randomness, no iteration order: the same notes always give the same state (docs/ledger.md, "State").
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, structs

from lifebus_broker.ports import Record
from lifebus_contract.consumers import ConsumerSettings


class CursorState(Struct, frozen=True, kw_only=True):
    """What survives a restart.

    Every receipt up to `scanned` that passes the filter is settled, except those in `open`, which maps a position to
    how often it was handed out.  `dead` counts dead letters.
    """

    settings: ConsumerSettings
    client_id: str
    epoch: str
    scanned: int
    open: dict[int, int] = {}
    dead: int = 0


class Whole(Struct, frozen=True, tag="whole", tag_field="note"):
    """The whole state, whatever was before: a new consumer, a reset, a checkpoint."""

    state: CursorState


class Progress(Struct, frozen=True, kw_only=True, tag="progress", tag_field="note", omit_defaults=True):
    """What changed since the note before: absolute values, not steps.

    `tried` are positions with how often they were handed out, `settled` those that are done.
    """

    scanned: int
    tried: tuple[tuple[int, int], ...] = ()
    settled: tuple[int, ...] = ()
    dead: int = 0


class Gone(Struct, frozen=True, tag="gone", tag_field="note"):
    """The consumer was evicted."""


CursorNote = Whole | Progress | Gone
"""What the body of a note holds, as JSON."""

_DECODER: Final = msgspec.json.Decoder(CursorNote)


def encode_note(note: CursorNote) -> bytes:
    """Return the body of the note."""
    return msgspec.json.encode(note)


def fold_cursor(notes: Iterable[Record], state: CursorState | None = None) -> CursorState | None:
    """Return the state after the notes, None where there is no such consumer.

    Raises:
        msgspec.ValidationError: a note does not belong to a consumer.
    """
    for note in notes:
        change = _DECODER.decode(note.body)
        if isinstance(change, Whole):
            state = change.state
        elif isinstance(change, Gone):
            state = None
        elif state is not None:
            state = _advance(state, change)
    return state


def _advance(state: CursorState, change: Progress) -> CursorState:
    open_ = {**state.open, **dict(change.tried)}
    for position in change.settled:
        open_.pop(position, None)
    return structs.replace(state, scanned=change.scanned, open=open_, dead=change.dead)
