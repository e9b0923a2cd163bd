"""The reducer of a named consumer's journal records: its offset, and what it was given and has not settled.

No clock, no randomness, no iteration order: the same records always give the same state (docs/ledger.md, "State").
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, structs

from lifebus_broker.ports import Record
from lifebus_contract.consumers import ConsumerSettings


class ConsumerState(Struct, frozen=True, kw_only=True):
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


class WholeState(Struct, frozen=True, tag="whole", tag_field="note"):
    """The whole state, whatever was before: a new consumer, a reset, a checkpoint."""

    state: ConsumerState


class ConsumerProgress(Struct, frozen=True, kw_only=True, tag="progress", tag_field="note", omit_defaults=True):
    """What changed since the record before, in absolute values.

    `tried` are positions with how often they were handed out, `settled` those that are done.
    """

    scanned: int
    tried: tuple[tuple[int, int], ...] = ()
    settled: tuple[int, ...] = ()
    dead: int = 0


class ConsumerEvicted(Struct, frozen=True, tag="gone", tag_field="note"):
    """The consumer was evicted."""


ConsumerRecord = WholeState | ConsumerProgress | ConsumerEvicted
"""What the body of a record holds, as JSON."""

_DECODER: Final = msgspec.json.Decoder(ConsumerRecord)


def encode_record(record: ConsumerRecord) -> bytes:
    """Return the body of the record."""
    return msgspec.json.encode(record)


def reduce_consumer(records: Iterable[Record], state: ConsumerState | None = None) -> ConsumerState | None:
    """Return the state after the records, None where there is no such consumer.

    Raises:
        msgspec.ValidationError: a record does not belong to a consumer.
    """
    for record in records:
        change = _DECODER.decode(record.body)
        if isinstance(change, WholeState):
            state = change.state
        elif isinstance(change, ConsumerEvicted):
            state = None
        # Progress of a consumer that was evicted meanwhile has no meaning.
        elif state is not None:
            state = _advance(state, change)
    return state


def _advance(state: ConsumerState, change: ConsumerProgress) -> ConsumerState:
    open_ = {**state.open, **dict(change.tried)}
    for position in change.settled:
        open_.pop(position, None)
    return structs.replace(state, scanned=change.scanned, open=open_, dead=change.dead)
