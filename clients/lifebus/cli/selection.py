"""Which receipts a command is about: the flags, and what they mean for a receipt and for what a broker is asked."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import Parameter

from lifebus.cli.arguments import ConnectionOptions, parse_moment
from lifebus.cli.choices import Adapters, Events, Sessions, Statuses, parse_adapters, parse_events, parse_statuses
from lifebus.cli.session_names import resolve_sessions
from lifebus_contract import LifecycleEvent, Receipt, ReceiptStatus

if TYPE_CHECKING:
    from lifebus_transports.messages.reads import Backfill

T = TypeVar("T")

Moment = Annotated[str | None, Parameter(metavar="TIME")]
"""A moment: 10m ago, yesterday, 12:00, 2026-11-21, 2026-11-21T20:00:00Z."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReceiptFilter:
    """Which receipts."""

    session: Sessions = ()
    "Only these sessions: short names, e.g. api#3, or ADAPTER/SESSION."
    adapter: Adapters = ()
    "Only these adapters, e.g. claude."
    event: Events = ()
    "Only these events, e.g. frame.opened."
    status: Statuses = ()
    "Only these statuses of the receipt itself, e.g. degraded; --failed also finds turns and sessions that failed."
    since: Moment = None
    "Only since a time: 10m ago, yesterday, 12:00, 2026-11-21, 2026-11-21T20:00:00Z."
    until: Moment = None
    "Only until a time."
    failed: Annotated[bool, Parameter(negative="")] = False
    "Only receipts of failures: receipts that failed, and the ends of turns, sub-agents and sessions that did."
    payload: str | None = None
    "Only receipts that say what became of this payload: its id, e.g. pay_01K…."
    waiting: Annotated[bool, Parameter(negative="")] = False
    "Only receipts that say that a session waits for a person, or no longer does."

    def chosen(self, connection: ConnectionOptions, *, ask: bool = True) -> "ReceiptChoice":
        """Return what is meant; the broker is asked where a session or an adapter is not named in full.

        Raises:
            UsageError: a flag names what there is not.
            LifebusError: no broker answers.
        """
        return ReceiptChoice(
            sessions=frozenset(resolve_sessions(self.session, connection)),
            adapters=frozenset(parse_adapters(self.adapter, connection if ask else None)),
            events=frozenset(parse_events(self.event)),
            statuses=frozenset(parse_statuses(self.status)),
            earliest_s=None if self.since is None else max(0, int(parse_moment(self.since).timestamp())),
            latest_s=None if self.until is None else int(parse_moment(self.until, flag="--until").timestamp()),
            payload=self.payload,
            failed=self.failed,
            waiting=self.waiting,
        )


ANY_RECEIPT: Final = ReceiptFilter()
"""No filter."""


@dataclass(frozen=True, kw_only=True)
class ReceiptChoice:
    """Which receipts are meant; an empty set is any.  Times are in whole seconds, as those of receipts are."""

    sessions: frozenset[tuple[str, str]] = frozenset()
    adapters: frozenset[str] = frozenset()
    events: frozenset[LifecycleEvent] = frozenset()
    statuses: frozenset[ReceiptStatus] = frozenset()
    earliest_s: int | None = None
    latest_s: int | None = None
    payload: str | None = None
    failed: bool = False
    waiting: bool = False

    @property
    def session(self) -> tuple[str, str] | None:
        """The session, where it is one."""
        return _only(self.sessions)

    def includes(self, receipt: Receipt) -> bool:
        """Whether a receipt is meant, `failed` and `waiting` aside: whoever reads the ledger applies these."""
        session = (receipt.adapter_id, receipt.harness_session_id)
        return (
            (not self.sessions or session in self.sessions)
            and (not self.adapters or receipt.adapter_id in self.adapters)
            and (not self.events or receipt.event in self.events)
            and (not self.statuses or receipt.status in self.statuses)
            and (self.earliest_s is None or receipt.at_epoch_s >= self.earliest_s)
            and (self.latest_s is None or receipt.at_epoch_s <= self.latest_s)
            and (self.payload is None or any(one.payload_id == self.payload for one in receipt.payload_receipts))
        )

    def query(self, *, canaries: bool) -> "Backfill":
        """Return what to ask a ledger for: as little as it can be asked for, and everything that is meant."""
        from lifebus_transports.messages.reads import Backfill  # noqa: PLC0415

        return Backfill(
            adapter_id=_only(self.adapters),
            session=self.session,
            event=_only(self.events),
            status=_only(self.statuses),
            since_epoch_s=self.earliest_s,
            waiting=self.waiting,
            failed=self.failed,
            canaries=canaries,
        )

    @cached_property
    def is_asked_in_full(self) -> bool:
        """Whether what a ledger answers to `query` needs no look at each receipt."""
        sets = (self.sessions, self.adapters, self.events, self.statuses)
        return self.payload is None and self.latest_s is None and all(len(one) <= 1 for one in sets)


def _only(values: frozenset[T]) -> T | None:
    return next(iter(values)) if len(values) == 1 else None
