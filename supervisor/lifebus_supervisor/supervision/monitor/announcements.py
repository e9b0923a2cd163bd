"""What a recorded hook call announces: the end of a frame or of its session, or that a prompt goes on after one."""

from collections.abc import Sequence
from typing import Any

from lifebus_adapters.adapter import HookCall, HookReading
from lifebus_broker.ports import EMITTER
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.state.receipt_view import ReceiptLike, read_receipt
from lifebus_broker.state.telemetry_keys import ANNOUNCED_END, FRAME
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.monitor import turns
from lifebus_supervisor.supervision.monitor.ending import AnnouncedSessionEnd
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.turns import CONTINUES, AnnouncedFrameEnd


def note_announcements(
    monitor: SessionMonitor, call: HookCall, reading: HookReading, results: Sequence[EmissionResult], now: float
) -> None:
    """Take the ends that a call has announced, or a prompt that went on after one, now that they are on record."""
    if reading.announces and (context := reading.emissions[0].request.frame_context) is not None:
        # What it says may be announced already, and so not recorded again: it is a sign of life all the same.
        monitor.turns = turns.on_announced_again(monitor.turns, context.frame_id, now)
    is_spooled = call.spooled_at_epoch_s is not None
    for stored in (one for result in results for one in result.stored):
        receipt = read_receipt(stored.receipt, stored.position)
        facts = receipt.telemetry_summary
        if facts.get(CONTINUES) is True:
            monitor.turns = turns.on_prompted(monitor.turns, str(facts[FRAME]))
        if ANNOUNCED_END not in facts:
            continue
        metadata = reading.emissions[-1].request.metadata
        if receipt.event is LifecycleEvent.FRAME_ENDING:
            announced = AnnouncedFrameEnd(at=now, metadata=None if is_spooled else metadata)
            monitor.turns = turns.on_announced(monitor.turns, str(facts[FRAME]), announced)
        elif receipt.event is LifecycleEvent.SESSION_ENDING:
            monitor.ending = _session_end(receipt, f"hook:{reading.hook}", metadata, now)


def _session_end(receipt: ReceiptLike, source: str, metadata: dict[str, Any], now: float) -> AnnouncedSessionEnd:
    facts = receipt.telemetry_summary
    own = {name: value for name, value in facts.items() if name not in {ANNOUNCED_END, EMITTER}}
    return AnnouncedSessionEnd(facts=own, metadata=metadata, source=source, at=now)
