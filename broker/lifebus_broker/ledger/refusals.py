"""Every way in which a ledger says no, as values."""

from typing import Final

from lifebus_broker.ports import AppendResult, DamagedReceipt, Refusal
from lifebus_contract.codes import CODES

BUSY: Final = Refusal.of("busy", "the ledger's queue is full; try again")
"""Too much is queued; nothing was stored."""

DISK_FULL: Final = Refusal.of("disk_full", "the ledger's disk is full; reading goes on")
"""Writes are refused until space returns; nothing was stored."""

CLOSED: Final = Refusal.of("closed", "the ledger is closed")
"""The broker is going down; nothing was stored."""

NOT_NOW: Final = frozenset({BUSY.code, DISK_FULL.code, CLOSED.code})
"""The codes after which the same call may be recorded later, by this broker or the next one."""

FAILED: Final = Refusal.of("ledger_failed", "the ledger stopped after an I/O error")
"""The disk cannot be trusted any more; nothing was stored."""

OVERSIZED: Final = Refusal.of("batch_too_large", "more entries than the queue ever holds")
"""One append is larger than the whole queue."""

PRUNED: Final = AppendResult(
    refusal=Refusal.of("history_pruned", "this was recorded before, but its receipt has been pruned")
)
"""A known key with the same content whose receipt is no longer kept (docs/contract.md 6.5)."""


def conflicting(key: str) -> AppendResult:
    """Return the answer to a known idempotency key that came with other content (docs/contract.md 6.5)."""
    detail = f"idempotency key `{key[:64]}` was used before with other content"
    return AppendResult(refusal=Refusal.of("duplicate_id_conflict", detail))


def damaged_row(position: int, what: str, through: int | None = None) -> DamagedReceipt:
    """Return why a row is not returned; `through` where it is the first of several."""
    known, through = CODES["row_damaged"], through or position
    more = f", as is everything up to row {through}" if through > position else ""
    detail = f"row {position}: {what}{more}; it is not shown, and reading goes on after position {through}"
    return DamagedReceipt(
        failure_class=known.failure_class,
        asked_retry=known.asked_retry,
        detail=detail,
        code="row_damaged",
        position=position,
        through=through,
        why=what,
    )


def unrecordable(fault: Exception) -> AppendResult:
    """Return the answer to an entry that has no canonical form, such as text with a lone surrogate."""
    detail = f"the receipt cannot be written down: {type(fault).__name__}"
    return AppendResult(refusal=Refusal.of("unrecordable", detail))


def unwritable_record(why: str) -> Refusal:
    """Return the answer to a record that can never be written."""
    return Refusal.of("unrecordable", f"the note cannot be written: {why}")
