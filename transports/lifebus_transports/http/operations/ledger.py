"""The routes of the ledger: how it stands, and a check of its chain (docs/ledger.md)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.ledger import Verify, VerifyAnswer
from lifebus_transports.messages.state import BackupStatus, PruneStatus, RetentionStatus, ScrubStatus
from lifebus_transports.messages.status import BrokerStatus


class PruneItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was dropped last: the receipts after `after` up to `until`, and the consumers that lost some of them."""

    at_ms: int
    reason: Literal["age", "size", "operator"]
    after: int
    until: int
    consumers: tuple[str, ...]


class RetentionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """How long and how many receipts are kept (0 is no limit), and what the files take."""

    keep_days: int
    keep_mb: int
    dedupe_days: int
    bytes: int
    last: PruneItem | None


class ScrubItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the check of the whole ledger stands; `part` is null between two."""

    every_h: int
    part: str | None
    position: int
    began_ms: int | None
    ended_ms: int | None
    faults: tuple[str, ...]


class BackupItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the scheduled backups stand."""

    every_h: int
    keep: int
    last_ms: int | None
    failed_ms: int | None
    fault: str | None


class SaveCounts(Struct, frozen=True, kw_only=True):
    """Snapshots since the broker started."""

    made: int
    failed: int


class LedgerAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the ledger stands; times are in milliseconds since 1970, what is not kept or scheduled is null."""

    status: Literal["ok"] = OK
    backend: str
    durability: str
    library: str
    epoch: str
    head: int
    floor: int
    writable: bool
    queued: int
    bytes: int
    lacks: tuple[str, ...]
    damaged: tuple[str, ...]
    retention: RetentionItem | None
    scrub: ScrubItem | None
    backup: BackupItem | None
    saves: SaveCounts


class ChainQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the newest receipts are checked."""

    tail: Annotated[int, Meta(ge=1, le=100_000)] = 1_000


class ChainAnswer(Struct, frozen=True, kw_only=True):
    """Up to which position the chain was checked, and what is wrong with it."""

    status: Literal["ok"] = OK
    checked: int
    faults: tuple[str, ...]


OPERATIONS = (
    Operation(
        name="ledger",
        method="GET",
        path="/api/ledger",
        summary="Says how the ledger is: chain, scrub, retention, backups.",
        tag="ledger",
        answers={200: LedgerAnswer},
    ),
    Operation(
        name="checkLedger",
        method="GET",
        path="/api/ledger/check",
        summary="Checks the chain of the newest receipts.",
        tag="ledger",
        query=ChainQuery,
        answers={200: ChainAnswer},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"ledger": _show, "checkLedger": _check}


async def _show(asked: RouteRequest) -> LedgerAnswer:
    found: BrokerStatus = await asked.calls.call(asked.peer, "status", Nothing())
    ledger = found.ledger
    return LedgerAnswer(
        backend=ledger.backend,
        durability=ledger.durability,
        library=ledger.library,
        epoch=ledger.epoch,
        head=ledger.head,
        floor=ledger.floor,
        writable=ledger.writable,
        queued=ledger.queued,
        bytes=ledger.size_bytes,
        lacks=ledger.lacks,
        damaged=ledger.damaged,
        retention=None if found.retention is None else _retention(found.retention),
        scrub=None if found.scrub is None else _scrub(found.scrub),
        backup=None if found.backup is None else _backup(found.backup),
        saves=SaveCounts(made=found.counters.get("saves", 0), failed=found.counters.get("saves_failed", 0)),
    )


async def _check(asked: RouteRequest) -> ChainAnswer:
    query: ChainQuery = asked.query
    found: VerifyAnswer = await asked.calls.call(asked.peer, "verify", Verify(tail=query.tail))
    return ChainAnswer(checked=found.checked, faults=found.faults)


def _retention(found: RetentionStatus) -> RetentionItem:
    return RetentionItem(
        keep_days=found.keep_days,
        keep_mb=found.keep_mb,
        dedupe_days=found.dedupe_days,
        bytes=found.bytes,
        last=None if found.last is None else _prune(found.last),
    )


def _prune(found: PruneStatus) -> PruneItem:
    return PruneItem(
        at_ms=found.at_epoch_s * 1_000,
        reason=found.reason,
        after=found.after,
        until=found.until,
        consumers=found.consumers,
    )


def _scrub(found: ScrubStatus) -> ScrubItem:
    return ScrubItem(
        every_h=found.every_h,
        part=found.part,
        position=found.position,
        began_ms=_ms(found.began_epoch_s),
        ended_ms=_ms(found.ended_epoch_s),
        faults=found.faults,
    )


def _backup(found: BackupStatus) -> BackupItem:
    return BackupItem(
        every_h=found.every_h,
        keep=found.keep,
        last_ms=_ms(found.last_epoch_s),
        failed_ms=_ms(found.failed_epoch_s),
        fault=found.fault,
    )


def _ms(epoch_s: int | None) -> int | None:
    return None if epoch_s is None else epoch_s * 1_000
