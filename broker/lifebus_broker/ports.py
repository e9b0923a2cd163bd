"""What the broker needs from outside, named as protocols, and the small values they exchange."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self

from msgspec import Struct

from lifebus_broker.ledger.log import LedgerLog
from lifebus_broker.ledger.retention import Limits, PruneDecision
from lifebus_broker.state.sealed import SealedItems
from lifebus_contract import (
    FailureClass,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
    RetryClass,
    tighten,
)
from lifebus_contract.codes import CODES
from lifebus_contract.fields import FactKey, FactValue
from lifebus_contract.views import LedgerStatus, SessionHead

Evidence = dict[FactKey, FactValue]
"""What whoever asks a client saw of it, by names of its own; a receipt has each under ``client_<name>``."""

EMITTER: Final = "emitter"
"""The fact in a client's receipt that names who reported the event.

A ledger files such a receipt under the emitter's key as well, the first of a key only: so an emission that comes
again is known although its clients may have left meanwhile (docs/contract.md 6.5).
"""


def is_same_content(stored: bytes, digest: bytes) -> bool:
    """Whether a digest is the one that a key stands for; of a pruned receipt only the first bytes are stored."""
    # a prefix: tombstones keep a part of the digest, to make a pruned ledger small
    return digest[: len(stored)] == stored


class Refusal(Struct, frozen=True, kw_only=True):
    """Why nothing was stored, as a value: it becomes an answer, a receipt or an exception at the edge."""

    failure_class: FailureClass
    detail: str
    asked_retry: RetryClass | None = None
    code: str | None = None

    @classmethod
    def of(cls, code: str, detail: str) -> Self:
        """Return the refusal of a code, with the classes that the table of codes gives it."""
        known = CODES[code]
        return cls(failure_class=known.failure_class, detail=detail, asked_retry=known.asked_retry, code=code)

    @property
    def retry_class(self) -> RetryClass:
        """The default retry class of the failure, or the one asked for where that is tighter."""
        return tighten(self.failure_class, self.asked_retry)


class DamagedReceipt(Refusal, frozen=True, kw_only=True):
    """Why a recorded receipt is not returned: its row is not what was written, or is missing (docs/ledger.md D4).

    What is wrong begins at `position`; behind `through` reading goes on.  `why` is one phrase.
    """

    position: int
    through: int
    why: str


class NewReceipt(NamedTuple):
    """A receipt that asks to be recorded; its `sequence` is still null.

    `digest` is the content digest of what was asked (16 to 32 bytes), compared when the receipt's idempotency key
    comes again; it is None exactly when the receipt has no idempotency key (docs/contract.md 6.5).
    """

    receipt: Receipt
    # of the request and not of the receipt, whose ids and times are new at each attempt
    digest: bytes | None = None


class StoredReceipt(Struct, frozen=True, kw_only=True):
    """A recorded receipt: its place (0 where no ledger keeps it), its canonical JSON bytes (docs/contract.md 6.4)."""

    position: int
    adapter_id: str
    harness_session_id: str | None
    sequence: int | None
    receipt: bytes


Known = tuple[bytes, StoredReceipt | DamagedReceipt | None]
"""What an idempotency key stands for: its digest, and its receipt; None where that was pruned."""


class AppendResult(Struct, frozen=True, kw_only=True):
    """What became of one new receipt: it is stored (`replayed` when it was there before), or refused."""

    stored: StoredReceipt | None = None
    replayed: bool = False
    refusal: Refusal | None = None


class Query(Struct, frozen=True, kw_only=True):
    """Which receipts to read: after a position, at most `limit` and `max_bytes` of them, with filters and selections.

    `session` is (adapter_id, harness_session_id); `past_damage` passes over damaged receipts and says so in the page.
    """

    after: int = 0
    limit: int = 256
    max_bytes: int = 262_144
    adapter_id: str | None = None
    session: tuple[str, str] | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None
    since_epoch_s: int | None = None
    waiting: bool = False
    failed: bool = False
    canaries: bool = True
    past_damage: bool = False


class Page(Struct, frozen=True, kw_only=True):
    """Receipts in position order.

    `next` is the position to continue after; `complete` says that nothing up to `head` is missing behind `next`.
    `floor` is the smallest position still kept, minus one: a cursor below it gets `snapshot_required`,
    unless the query names a session or an adapter of which nothing was dropped after the cursor.
    `damaged` names receipts that are not what was written.  None of them is in the page: it ends before the first one,
    or has passed over them where the query asked for that.
    """

    epoch: str
    stored: tuple[StoredReceipt, ...]
    next: int
    head: int
    floor: int
    complete: bool
    # a page and no error: the follower still learns epoch, head and floor
    snapshot_required: bool = False
    damaged: tuple[DamagedReceipt, ...] = ()


class NewRecord(Struct, frozen=True):
    """A record to be written: `stream` names its series, 1 to 1,024 bytes of UTF-8; at most 1 MiB of `body`."""

    stream: str
    body: bytes


class Record(Struct, frozen=True):
    """A written record.  `number` counts 1, 2, 3 … within its stream, without holes and never reused."""

    stream: str
    number: int
    at_epoch_s: int
    body: bytes


class RecordPage(Struct, frozen=True, kw_only=True):
    """Records of one stream in order, those of a number above the one asked for that are still kept.

    `head` is the newest number ever given, `floor` the newest dropped one: who asked for what lies below it has lost
    something.  `complete` says that nothing up to `head` is missing behind the last record.
    """

    records: tuple[Record, ...]
    head: int
    floor: int
    complete: bool


class RecordStream(Struct, frozen=True):
    """A stream of records: its newest number, its newest dropped one, and the bytes of the bodies it keeps."""

    stream: str
    head: int
    floor: int
    bytes: int


class Journal(Protocol):
    """An append-only side log beside the receipts, for what the broker must remember that is no receipt.

    As durable as its ledger, committed by the same writer.  Streams come into being with their first record.  Every
    implementation passes the one contract suite in tests/support/contract_suites/ (docs/ledger.md D6).
    """

    # a callback and no coroutine: thousands of appends a second would each cost a task
    def append(self, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        """Take records of any streams for one atomic append; call `done` on the event loop once they are committed.

        Returns a refusal, and never calls `done`, when the queue is full, the disk is full, the ledger is closed or a
        record cannot be written.  `done` gets the records in order, or why none of them was written.
        """
        ...

    async def read(self, stream: str, after: int = 0, limit: int = 256, max_bytes: int = 262_144) -> RecordPage:
        """Return committed records numbered above `after`: at most `limit`, `max_bytes` of bodies, at least one."""
        ...

    async def streams(self, prefix: str = "", *, kept: bool = False) -> list[RecordStream]:
        """Return the streams whose name begins with `prefix`, by name; those whose records were all dropped too.

        With `kept`, only those that keep bytes, the one written last first.
        """
        ...

    async def read_all(
        self, prefix: str, after: tuple[str, int] = ("", 0), limit: int = 4_096, max_bytes: int = 1_048_576
    ) -> list[Record]:
        """Return the kept records of all streams whose name begins with `prefix`, by name and number.

        `after` is the stream and number of the last one that is known.  At most `limit` and `max_bytes` of bodies, at
        least one where there is one; none at the end.
        """
        ...

    async def heads(self, streams: Sequence[str]) -> list[int]:
        """Return the newest number of each stream, 0 of one that never had a record."""
        ...

    async def drop_all(self, throughs: Mapping[str, int], known: tuple[str, int] | None = None) -> None:
        """Drop the records of many streams, each up to a number, in as few commits as their number allows.

        With `known`, a prefix and a count, streams without records and with such a name are removed, but the newest.

        Raises:
            LifebusError: the ledger is closed, or its disk takes no writes now; some may be dropped.
        """
        ...

    async def drop(self, stream: str, through: int) -> int:
        """Drop the records of a stream up to a number, and return its new floor; it never moves back.

        Raises:
            LifebusError: the ledger is closed, or its disk takes no writes now.
        """
        ...


class LedgerCapabilities(Struct, frozen=True, kw_only=True):
    """What a ledger can do beside recording; whoever needs what it lacks refuses and names it.

    `durable`: a recorded receipt survives the process; without it every `sequence` is null.
    `snapshots`: there is a history to follow, to save and to boot.
    `retention`: receipts are dropped by the settings or by an operator; without it the ledger bounds itself.
    `local_file`: commands may read the ledger, and change it, where no broker runs.
    """

    durable: bool
    snapshots: bool
    retention: bool
    local_file: bool

    @property
    def lacking(self) -> tuple[str, ...]:
        """The names of what it cannot do."""
        return tuple(name for name in self.__struct_fields__ if not getattr(self, name))


class Ledger(Protocol):
    """Where receipts are recorded: number and store together, acknowledge after commit (docs/ledger.md, "Durability").

    Every implementation passes the one contract suite in tests/support/contract_suites/.
    """

    @property
    def epoch(self) -> str:
        """The random id of this history, as 32 hex digits (docs/contract.md 6.4)."""
        ...

    @property
    def capabilities(self) -> LedgerCapabilities:
        """What this ledger can do beside recording; it never changes."""
        ...

    @property
    def head(self) -> int:
        """The position of the newest committed receipt, 0 when there is none."""
        ...

    @property
    def newest_epoch_s(self) -> int | None:
        """The latest time of any receipt, in seconds since the epoch; None when there never was one."""
        ...

    def is_congested(self) -> bool:
        """Whether so much waits for a commit already that an append which can wait should."""
        ...

    @property
    def journal(self) -> Journal:
        """The side log in the same file."""
        ...

    # a callback: the order of acknowledgements is the order of commits, whatever tasks run
    def append(self, receipts: Sequence[NewReceipt], done: Callable[[list[AppendResult]], None]) -> Refusal | None:
        """Take receipts for one atomic append, in order; call `done` on the event loop once they are committed.

        Returns a refusal, and never calls `done`, when the queue is full, the disk is full or the ledger is closed.
        `done` gets one `AppendResult` a receipt.  All new ones of one call are committed in one transaction.
        """
        ...

    # many keys at once: a hand-over to the reading thread costs more than a key
    async def find(self, scopes: Sequence[tuple[str, str, str]]) -> list[Known | None]:
        """Return, for each (client_id, adapter_id, idempotency_key), the stored digest and receipt.

        None where the key is unknown; a receipt of None where the tombstone is left, a refusal where it is damaged.
        """
        ...

    async def read(self, query: Query) -> Page:
        """Return committed receipts; never blocks the writer.

        Raises:
            LifebusError: ``row_damaged``, where the first receipt is damaged and the query does not pass over it.
        """
        ...

    async def sessions(self, session: tuple[str, str] | None = None) -> list[SessionHead]:
        """Return the heads of all sessions, newest last, or of one."""
        ...

    def is_new(self, session: tuple[str, str]) -> bool:
        """Whether no receipt of a session was ever committed; False also where that cannot be told at once."""
        ...

    async def verify(self, *, tail: int | None = None) -> list[str]:
        """Check hash chain, sequences, idempotency and fold (of the last `tail` receipts); return what is wrong."""
        ...

    # the base comes from the caller: the ledger does not know the fold
    async def prune(self, keep_after: int, base: bytes) -> int:
        """Drop whole receipts up to a position, keep tombstones of their keys, and return the new floor.

        The floor moves no further than the head, and never back.  `base` is the dump of the stores after `keep_after`;
        it is kept uninterpreted in place of the receipts, and committed with the floor before the first one is deleted.

        Raises:
            LifebusError: the ledger is closed, or its disk takes no writes now.
        """
        ...

    # apart from `prune`: between the two the caller computes the base, which may take seconds
    async def plan_prune(self, limits: Limits, now_epoch_s: int) -> PruneDecision | None:
        """Return what exceeds the limits now, None when everything may stay; nothing is written.

        Raises:
            LifebusError: the ledger cannot be read.
        """
        ...

    async def expire(self, before_epoch_s: int) -> None:
        """Forget the keys of receipts that were pruned before a second.

        Raises:
            LifebusError: the ledger is closed, or takes no writes now.
        """
        ...

    async def usage(self) -> int:
        """Return how many bytes the ledger takes where it is kept."""
        ...

    # both limits are the broker's settings, but only the writer sees how fast the disk fills
    def bound(self, *, keep: int, spare: int) -> None:
        """Keep working files small beside `keep` bytes (0 is any size), and leave `spare` bytes of the disk free."""
        ...

    def new_sealed_items(self) -> SealedItems:
        """Return an empty place outside of memory where there is one, which is closed with the ledger; blocks."""
        ...

    # a connection of its own: a reading of the whole log must not hold up pages and lookups
    def open_log(self) -> LedgerLog:
        """Return the log from its beginning, to be read while the ledger is written; blocks.

        Raises:
            InternalError: it cannot be read.
        """
        ...

    def status(self) -> LedgerStatus:
        """Return how the ledger is, without I/O."""
        ...

    async def aclose(self) -> None:
        """Commit what is queued, then close; later appends are refused."""
        ...
