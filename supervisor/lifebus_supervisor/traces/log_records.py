"""Receipts as log records.  Pure."""

from typing import Final

from lifebus_broker.ports import EMITTER
from lifebus_broker.trace_context import SpanContext
from lifebus_contract import LifecycleEvent, Receipt, ReceiptStatus
from lifebus_contract.facts.selections import tells_of_failure
from lifebus_supervisor.traces import attributes, names
from lifebus_supervisor.traces.receipt_times import recorded_ms
from lifebus_supervisor.traces.spans import LogRecord, Severity, Value

_GRAVE: Final = frozenset({LifecycleEvent.CAPABILITY_DEGRADED, LifecycleEvent.RECEIPT_GAP_DETECTED})


def log_record(receipt: Receipt, epoch: str, position: int, span: SpanContext | None) -> LogRecord:
    """Return a receipt as a log record: what it says in attributes, and no body."""
    found: dict[str, Value] = {names.RECORD: receipt.receipt_id, names.EPOCH: epoch, names.POSITION: position}
    found |= attributes.identity(receipt) | attributes.outcome(receipt) | attributes.exported(receipt.telemetry_summary)
    if receipt.sequence is not None:
        found[names.SEQUENCE] = receipt.sequence
    return LogRecord(
        name=f"lifebus.{receipt.event.value}",
        at_ms=recorded_ms(receipt),
        severity=_severity(receipt),
        attributes=found,
        span=span,
    )


def _severity(receipt: Receipt) -> Severity:
    if tells_of_failure(receipt):
        return Severity.ERROR
    if receipt.event in _GRAVE or receipt.status is ReceiptStatus.DEGRADED:
        return Severity.WARN
    if receipt.event is LifecycleEvent.SUPERVISOR_TICK and EMITTER not in receipt.telemetry_summary:
        return Severity.DEBUG
    return Severity.INFO
