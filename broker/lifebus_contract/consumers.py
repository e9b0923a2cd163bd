"""Named consumers of receipts: their settings, and their state as the broker reports it (docs/consuming.md)."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from lifebus_contract.fields import Document, Identifier
from lifebus_contract.vocabulary import LifecycleEvent

MAX_TRIES: Final = 20
"""How often a receipt is delivered before it becomes a dead letter (docs/consuming.md)."""


class ConsumerSettings(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Which receipts a consumer gets and how.

    An empty filter lets everything through; for a name that is known it stands for the filter which that has.  A
    session is (adapter_id, harness_session_id).  At most `max_in_flight` receipts are delivered and not acknowledged;
    each is delivered again after `ack_wait_ms`.  The pause before another try begins with `retry_ms` and doubles, up to
    a minute.
    """

    sessions: Annotated[tuple[tuple[Identifier, Identifier], ...], Meta(max_length=64)] = ()
    adapters: Annotated[tuple[Identifier, ...], Meta(max_length=64)] = ()
    events: Annotated[tuple[LifecycleEvent, ...], Meta(max_length=14)] = ()
    max_in_flight: Annotated[int, Meta(ge=1, le=1024)] = 64
    ack_wait_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 30_000
    retry_ms: Annotated[int, Meta(ge=1, le=60_000)] = 1_000

    @property
    def filter(self) -> tuple[frozenset[tuple[str, str]], frozenset[str], frozenset[LifecycleEvent]]:
        """The filter in a form that compares equal whatever the order of the entries."""
        return frozenset(self.sessions), frozenset(self.adapters), frozenset(self.events)

    @property
    def filters(self) -> bool:
        """Whether there is a filter."""
        return bool(self.sessions or self.adapters or self.events)


class ConsumerInfo(Struct, frozen=True, kw_only=True):
    """The state of a named consumer; `cursor` is its name.

    Everything up to `position` is settled, `scanned` is the position up to which the ledger was read; `lag` counts the
    positions from `position` to `head`.  `open` receipts are delivered and not settled, of which the consumer holds
    `in_flight` now; `fetching` says that it waits for more.  `dead` counts its dead letters.  `lost` says that there is
    a gap which it has not acknowledged.
    """

    cursor: str
    client_id: str
    attached: bool
    fetching: bool
    settings: ConsumerSettings
    epoch: str
    position: int
    scanned: int
    head: int
    lag: int
    open: int
    in_flight: int
    dead: int
    lost: bool = False


class ConsumerGap(Struct, frozen=True, kw_only=True):
    """Receipts that a consumer can never get: those after `after`, up to `until`; `epoch` is the present history.

    `reason` is ``pruned`` (the ledger keeps less) or ``epoch_changed`` (another history, which begins at `until`).
    `state_at` is the position of the state that stands for what is lost, where the ledger keeps one.
    """

    epoch: str
    after: int
    until: int
    reason: Literal["pruned", "epoch_changed"]
    state_at: int | None = None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A receipt that is not tried any more: `receipt` is its canonical JSON, None where the ledger had dropped it.

    `number` counts a consumer's dead letters.
    """

    number: int = 0
    at_epoch_s: int = 0
    epoch: str
    position: int
    tries: int
    receipt: bytes | None
