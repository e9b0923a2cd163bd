"""The bodies of the verbs of named consumers (docs/consuming.md)."""

from typing import Annotated

from msgspec import Meta, Struct

from lifebus_contract.consumers import ConsumerGap, ConsumerSettings, DeadLetter
from lifebus_contract.fields import Count, Document, Identifier, refuse_unprintable


class _OfCursor(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What names a consumer."""

    cursor: Identifier

    def __post_init__(self) -> None:
        if not self.cursor.isprintable():
            refuse_unprintable(self)


class Consume(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`consume`: be the connection that a named consumer's receipts go to; repeated each second, or the lease runs out.

    Without `settings` a consumer keeps its own, and with no filter in them its filter.  One that does not exist yet is
    created: it begins after the position `after`, or at the first receipt as late as `since_epoch_s`, or with what
    comes from now on.  `epoch` names the history that `after` belongs to.
    """

    client_id: Identifier
    settings: ConsumerSettings | None = None
    after: Count | None = None
    epoch: Identifier | None = None
    since_epoch_s: Count | None = None


class Fetch(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`fetch`: up to `limit` receipts as soon as there are any; an empty answer after `wait_ms`."""

    limit: Annotated[int, Meta(ge=1, le=256)] = 64
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class Delivered(Struct, frozen=True, array_like=True):
    """One receipt on the wire: position, session sequence, number of the try, canonical JSON bytes."""

    # An array and no map: thousands of them pass in a second, and keys would be a large part of each.
    position: int
    sequence: int | None
    attempt: int
    receipt: bytes


class FetchAnswer(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `fetch`: receipts, other tries first, then new ones; or what is lost, until it is acknowledged."""

    epoch: str
    deliveries: tuple[Delivered, ...] = ()
    # Never beside deliveries: what lies behind a loss is delivered once that is acknowledged.
    lost: ConsumerGap | None = None


class Ack(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`ack`: the consumer is done with these positions, and with everything it was given up to `through`.

    What is lost is acknowledged by the `epoch` and the `until` of the loss.
    """

    epoch: Identifier
    positions: Annotated[tuple[Count, ...], Meta(max_length=1024)] = ()
    through: Count = 0


class AckAnswer(Document, frozen=True, kw_only=True):
    """The answer to `ack` and `nack`, an `ack`'s once it is durable: how many of the positions were open."""

    settled: int


class Nack(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`nack`: hand these positions out again, after `delay_ms` or the usual pause."""

    epoch: Identifier
    positions: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=1024)]
    delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] | None = None


class Release(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`release`: the consumer leaves in order; the positions that it has not looked at do not count as tried."""

    unseen: Annotated[tuple[Count, ...], Meta(max_length=1024)] = ()


class ConsumersQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`cursors`: how all named consumers stand, or one."""

    cursor: Identifier | None = None


class ResetConsumer(_OfCursor, frozen=True, kw_only=True):
    """`reset`: start again after a position of the present history, or at the head without one."""

    after: Count | None = None


class EvictConsumer(_OfCursor, frozen=True, kw_only=True):
    """`evict`: forget a consumer, its place and its dead letters."""


class DeadLettersQuery(_OfCursor, frozen=True, kw_only=True, omit_defaults=True):
    """`letters`: those of a consumer with a number above `after`."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class DeadLettersAnswer(Document, frozen=True, kw_only=True):
    """The answer to `letters`; `complete` says that there are no more."""

    letters: tuple[DeadLetter, ...]
    complete: bool
