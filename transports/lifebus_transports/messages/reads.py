"""The bodies of the verbs that read receipts, and what subscribers read beside them."""

from typing import Annotated

from msgspec import Meta, Struct, field

from lifebus_contract import (
    LifecycleEvent,
    ReceiptStatus,
)
from lifebus_contract.fields import Count, Document, Identifier
from lifebus_transports.messages.state import StateHint


class Backfill(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`backfill`: receipts after a position.  Without `epoch` the current history is meant.

    `waiting` selects receipts which say that a session begins to wait for a person, or no longer does; `failed` selects
    those of failures.  Without `canaries`, those of ``lifebus hooks test`` are left out.
    """

    epoch: str | None = None
    after: Count = 0
    # A page ends earlier where its receipts would make the message too large.
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256
    adapter_id: Identifier | None = None
    session: tuple[Identifier, Identifier] | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None
    since_epoch_s: Count | None = None
    waiting: bool = False
    failed: bool = False
    canaries: bool = True


class WireReceipt(Struct, frozen=True, array_like=True):
    """One receipt on the wire: position, session sequence, canonical JSON bytes (docs/contract.md 1.4)."""

    # An array and no map, for the size; the receipt stays bytes, because its hash is over these.
    position: int
    sequence: int | None
    receipt: bytes


class BackfillPage(Document, frozen=True, kw_only=True):
    """The answer to `backfill`: complete up to `next`, or `snapshot_required`; never silently partial.

    See docs/wire-protocol.md, "Joining without a hole".

    With `snapshot_required`, `snapshot` names the oldest state to start from (`state`); None where nothing is durable.
    """

    epoch: str
    rows: tuple[WireReceipt, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool = False
    snapshot: StateHint | None = None


class Marker(Document, frozen=True, kw_only=True):
    """`marker`: publish on ``m/<nonce>/``, which proves to a joining subscriber that its pipe is live."""

    nonce: Identifier


class SessionsQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`sessions`: the heads of all sessions but those that are forgotten, with `forgotten` of those too; or of one.

    With `ended` false only of those that have not ended.
    """

    session: tuple[Identifier, Identifier] | None = None
    forgotten: bool = False
    ended: bool = True


class Beacon(Struct, frozen=True, kw_only=True):
    """The heads, published each second on ``h/`` (docs/wire-protocol.md, "The beacon").

    `number` counts up by one from some start; a hole means that a beacon was lost.  `sessions` maps the
    topics of sessions that changed since the last beacon to their newest sequence.
    """

    epoch: str
    number: int
    head: int
    floor: int
    closing: bool = False
    sessions: dict[str, int] = field(default_factory=dict[str, int])
