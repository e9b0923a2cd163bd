"""What of a receipt is an event of a span: pressure, compactions, waits, lost capabilities, gaps, failures.  Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.telemetry_keys import CAUSE, CORRECTS, WAITED, WAITING, WAITING_FOR, WAITING_KIND
from lifebus_contract import LifecycleEvent, Receipt, ReceiptStatus
from lifebus_supervisor.traces import attributes, names
from lifebus_supervisor.traces.spans import Attributes, Value

_FACTS: Final = {
    LifecycleEvent.CONTEXT_COMPACTED: (names.COMPACTED_EVENT, ("trigger", "tokens_before", "tokens_after", "source")),
    LifecycleEvent.RECEIPT_GAP_DETECTED: (
        names.GAP_EVENT,
        ("missing_first", "missing_last", "missed_messages", "missed_bytes"),
    ),
}


class SpanMoment(Struct, frozen=True):
    """An event of a span."""

    name: str
    attributes: Attributes


def moment_of(receipt: Receipt) -> SpanMoment | None:
    """Return what a receipt tells as an event of the span during which it happened; None of most receipts."""
    event, facts = receipt.event, receipt.telemetry_summary
    found: SpanMoment | None = None
    if CORRECTS in facts:
        found = SpanMoment(names.CORRECTED_EVENT, _chosen(facts, (CORRECTS, CAUSE)))
    elif event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
        found = SpanMoment(names.PRESSURE_EVENT, attributes.pressure(facts))
    elif event in _FACTS:
        name, keys = _FACTS[event]
        found = SpanMoment(name, _chosen(facts, keys))
    elif event is LifecycleEvent.CAPABILITY_DEGRADED:
        found = SpanMoment(names.DEGRADED_EVENT, _change(receipt))
    elif WAITING in facts:
        found = SpanMoment(names.WAITING_EVENT, _chosen(facts, (WAITING, WAITING_FOR, WAITING_KIND, WAITED)))
    elif receipt.status is ReceiptStatus.FAILED and receipt.failure_class is not None and EMITTER not in facts:
        found = SpanMoment(names.FAILED_EVENT, {names.ERROR: receipt.failure_class.value})
    return found


def _chosen(facts: Mapping[str, object], keys: Sequence[str]) -> Attributes:
    return attributes.exported({key: facts[key] for key in keys if key in facts})


def _change(receipt: Receipt) -> dict[str, Value]:
    """Return which capabilities changed, from which support to which: lists of the same order."""
    changes = receipt.capability_degradations
    found: dict[str, Value] = {
        names.CAPABILITY: tuple(one.capability for one in changes),
        names.SUPPORT_BEFORE: tuple(one.previous_support.value for one in changes),
        names.SUPPORT_NOW: tuple(one.current_support.value for one in changes),
    }
    return {**found, **_chosen(receipt.telemetry_summary, (CAUSE,))}
