"""The bodies of the verbs that only `lifebus dev stdio` has: following, settling, files, checkpoints.  Pure."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from lifebus._internal.view import Position
from lifebus.checkpoints.known_kinds import DEFAULT_KIND
from lifebus_contract import InvalidRequest, validate
from lifebus_contract.consumers import ConsumerSettings
from lifebus_contract.fields import Count, Document, Identifier

_Place = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}:[0-9]{1,15}$(?!\n)")]
_Start = Annotated[str, Meta(pattern=r"^(?:start|[0-9a-f]{32}:[0-9]{1,15})$(?!\n)")]


class _FollowBody(Document, frozen=True, kw_only=True):
    """What the bodies that follow receipts share: where to begin."""

    since: _Start | Count | None = None
    since_epoch_s: Count | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.since_epoch_s is not None:
            raise ValueError("since_epoch_s: since and since_epoch_s are two ways to say where to begin; give one")

    def start(self) -> Position | int | datetime | str | None:
        """Return where to begin, as the client library takes it.

        Raises:
            InvalidRequest: a time that no calendar has.
        """
        if self.since_epoch_s is None:
            return _start_of(self.since)
        # Counts reach far beyond the year 9999, the last one that `datetime` has.
        try:
            return datetime.fromtimestamp(self.since_epoch_s, UTC)
        except (ValueError, OverflowError, OSError):
            detail = "$.since_epoch_s: no calendar has this time"
            raise InvalidRequest(detail, code="against_contract", field="$.since_epoch_s") from None


class FollowReceipts(_FollowBody, frozen=True, kw_only=True):
    """`subscribe` to the receipts of the whole ledger or of one session.

    Begins after `since` (a position, ``EPOCH:POSITION``, ``start``), or at a time, or with what comes from now on.
    With `until_head` it ends at the receipt that is the newest when it begins.
    """

    session: tuple[Identifier, Identifier] | None = None
    until_head: bool = False


class FollowSignals(Document, frozen=True, kw_only=True):
    """`subscribe` to the signals of the app-servers of an adapter, named by `signals`: of one thread or of all.

    `since` is one place where there is one thread, else a place a thread; `last`, `event` and `until_head` are as in
    the client library.
    """

    signals: Identifier
    thread: Annotated[str, Meta(max_length=256)] | None = None
    event: Annotated[str, Meta(max_length=256)] | None = None
    last: Count | None = None
    since: _Start | Count | dict[str, _Place] | None = None
    until_head: bool = False

    def start(self) -> Position | dict[str, Position] | int | str | None:
        """Return where to begin, as the client library takes it."""
        if isinstance(self.since, dict):
            return {thread: Position.parse(place) for thread, place in self.since.items()}
        return _start_of(self.since)


class ConsumeReceipts(_FollowBody, frozen=True, kw_only=True):
    """`subscribe` under a `name` whose place the broker remembers: each receipt until it is acknowledged.

    `since` says where a new name begins; `settings` are those of the wire's `consume`; without them a known name
    keeps its own.
    """

    name: Identifier
    settings: ConsumerSettings | None = None
    until_head: ClassVar[bool] = False


class Settle(Document, frozen=True, kw_only=True):
    """`ack` and `nack` of what a named subscription delivered, by the cursors that it was delivered with.

    `delay_ms` is for `nack`: how long until it comes again.
    """

    subscription: Count
    cursors: Annotated[tuple[_Place, ...], Meta(min_length=1, max_length=1024)]
    delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] | None = None

    def positions(self) -> list[Position]:
        """Return the cursors as the client library takes them."""
        return [Position.parse(cursor) for cursor in self.cursors]


class Unsubscribe(Document, frozen=True, kw_only=True):
    """`unsubscribe`: end the subscription with this number."""

    subscription: Count


class FileBody(Document, frozen=True, kw_only=True):
    """`read`, `exists` and `delete` of a path beneath the root (docs/files.md)."""

    path: str


class WriteFile(Document, frozen=True, kw_only=True):
    """`write` a text to a path beneath the root."""

    path: str
    content: str


class ListFiles(Document, frozen=True, kw_only=True):
    """`list` the names in a directory beneath the root."""

    directory: str = "."


class CheckpointBody(Document, frozen=True, kw_only=True):
    """What the bodies about checkpoints share: the kind that is meant."""

    kind: Identifier = DEFAULT_KIND


class SaveCheckpoint(CheckpointBody, frozen=True, kw_only=True):
    """`checkpoint_save`: a checkpoint as JSON, and the session to which its receipt belongs."""

    checkpoint: dict[str, Any]
    session: tuple[Identifier, Identifier] | None = None


class FindCheckpoint(CheckpointBody, frozen=True, kw_only=True):
    """`checkpoint_get`: `which` is an id, or a name whose newest one is wanted; `verify` compares its files."""

    which: str
    run_id: str | None = None
    verify: bool = False


class ListCheckpoints(CheckpointBody, frozen=True, kw_only=True):
    """`checkpoint_list`: those of one name or all; the newest `last`."""

    name: str | None = None
    last: Annotated[int, Meta(ge=0, le=256)] = 64


class ExportCheckpoint(CheckpointBody, frozen=True, kw_only=True):
    """`checkpoint_export`: `which` is an id, or a name whose newest one is meant."""

    which: str


def decode_subscribe(body: dict[str, Any]) -> FollowReceipts | FollowSignals | ConsumeReceipts:
    """Return the body of a `subscribe`, whose keys say which one it is.

    Raises:
        InvalidRequest: it cannot be understood.
    """
    if "signals" in body:
        return validate(body, FollowSignals)
    if "name" in body:
        return validate(body, ConsumeReceipts)
    return validate(body, FollowReceipts)


def _start_of(since: str | int | None) -> Position | int | str | None:
    return Position.parse(since) if isinstance(since, str) and since != "start" else since
