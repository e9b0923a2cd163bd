"""What the gateway needs of the broker: its verbs, and a call whenever something was recorded."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from lifebus_contract.fields import Document


class GatewayPeer:
    """One caller over HTTP; it gets answers alone, so there is nothing to send it."""

    __slots__ = ()

    is_operator = False
    """Whoever has the token reads and works; what changes the ledger for everybody stays with the local sockets."""

    @property
    def identity(self) -> Hashable:
        """The same for every call of a connection, and for no other connection."""
        return id(self)

    def send(self, number: int, verb: str, body: object) -> bool:  # noqa: ARG002  the protocol's
        """Take no messages that answer nothing."""
        return False


class OperatorPeer(GatewayPeer):
    """A caller whose role lets it do what operators do."""

    __slots__ = ()

    is_operator = True


class Calls(Protocol):
    """The verbs (fulfilled by `lifebus_supervisor.api.api.Api`)."""

    async def call(self, peer: GatewayPeer, verb: str, body: Document) -> Any:
        """Return the answer to one call.

        Raises:
            LifebusError: the refusal.
        """
        ...


class NotedReceipt(Protocol):
    """What is asked of a recorded receipt (fulfilled by `lifebus_broker.ports.StoredReceipt`)."""

    @property
    def adapter_id(self) -> str:
        """The adapter it is about."""
        ...

    @property
    def harness_session_id(self) -> str | None:
        """The session it is about."""
        ...


ReceiptsRecorded = Callable[[Sequence[NotedReceipt]], None]
"""Called on the event loop with the receipts of one commit; must not block."""


class NumberedSignal(Protocol):
    """What is asked of a recorded signal (fulfilled by `lifebus_broker.signals.log.StoredSignal`)."""

    @property
    def sequence(self) -> int:
        """Its number in its thread."""
        ...


SignalsRecorded = Callable[[str, str, Sequence[NumberedSignal]], None]
"""Called on the event loop with adapter and thread of new signals; must not block."""


class Recorded(Protocol):
    """Says that something was recorded; what it was is read from the verbs."""

    def receipts(self, listener: ReceiptsRecorded, /) -> None:
        """Add a listener to receipts."""
        ...

    def signals(self, listener: SignalsRecorded, /) -> None:
        """Add a listener to signals."""
        ...

    async def kept(self) -> Sequence[tuple[str, str, int, int]]:
        """Return each thread that has signals: its adapter, its name, its floor and its head."""
        ...


class OrderJournal(Protocol):
    """Where the order of all signals is kept; `epoch` is the history that the numbers of signals belong to."""

    @property
    def epoch(self) -> str:
        """The history of the signals."""
        ...

    async def load(self) -> list[tuple[int, bytes]]:
        """Return every record with its number."""
        ...

    async def append(self, body: bytes) -> int:
        """Append a record, and return its number once it is durable.

        Raises:
            LifebusError: it was not written.
        """
        ...

    async def drop(self, through: int) -> None:
        """Drop the records up to a number.

        Raises:
            LifebusError: they are still there.
        """
        ...


KindOf = Callable[[str], Literal["user", "system", "deleted"]]
"""Says of a session whether it is a user's, one of the broker's own workers, or was deleted."""


ReportName = Literal["doctor", "hooks"]
"""Which report: of `lifebus doctor`, or of `lifebus hooks status`."""


class ReportMaker(Protocol):
    """What commands of lifebus find on this machine (fulfilled by `lifebus_supervisor.daemon.own_commands`)."""

    async def __call__(self, name: ReportName, /) -> bytes:
        """Return a report as JSON.

        Raises:
            LifebusError: it could not be made; `busy` where too many are asked for.
        """
        ...


class OrderPositions(Protocol):
    """Up to which number each thread is in the order; every method may block on a disk for a moment.

    Each may raise `LifebusError`: what was kept cannot be read any more.
    """

    def get(self, thread: tuple[str, str], /) -> int:
        """Return the number of a thread, given as its adapter and its name; 0 where none is known."""
        ...

    def put(self, thread: tuple[str, str], number: int, /) -> None:
        """Keep the number of a thread."""
        ...

    def items(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Yield every thread with its number; nothing may be put meanwhile."""
        ...


class Backend(Struct, frozen=True, kw_only=True):
    """The broker that a gateway belongs to.

    `has_queue` says whether it takes jobs; `metrics` returns its metrics in the text format of Prometheus;
    `reports` makes reports about this machine.
    """

    calls: Calls
    recorded: Recorded
    order: OrderJournal
    positions: OrderPositions
    kind_of: KindOf
    has_queue: bool
    metrics: Callable[[], str]
    reports: ReportMaker
