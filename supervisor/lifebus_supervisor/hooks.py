"""Hook calls through the bus: parse, record and dispatch, place, render (design 2, 5).

Above: daemon.  Below: lifebus_adapters, lifebus_broker.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from lifebus_adapters.adapter import Adapter, Delivery, HookAnswer, HookCall
from lifebus_broker.bus import Bus
from lifebus_broker.dispatch import Outcome
from lifebus_contract import AdapterUnavailable, BrokerBusy, Emission, IdSource

__all__ = ["CLIENT_ID", "HookCalls", "ids_of_call"]

CLIENT_ID: Final = "lifebus.hook"
"""The client under whose name facts from hooks are recorded."""


class HookCalls:
    """Handles hook calls; `budget` is how long callback clients may take together, in seconds."""

    def __init__(self, bus: Bus, adapters: Mapping[str, Adapter], budget: float) -> None:
        self._bus = bus
        self._adapters = adapters
        self._budget = budget

    async def handle(self, call: HookCall) -> HookAnswer:
        """Return what the harness gets back, once everything the call told is durable.

        A call from the spool is history: it is recorded, but no client is asked to deliver into the past.

        Raises:
            AdapterUnavailable: no such adapter.
            InvalidRequest: the payload is not what the harness sends.
            BrokerBusy: not recorded for now; the hook keeps the call in its spool.
        """
        adapter = self._adapters.get(call.adapter_id)
        if adapter is None:
            raise AdapterUnavailable(f"no adapter `{call.adapter_id[:64]}`", code="unknown_adapter")
        emissions = adapter.read(call, ids_of_call(call)).emissions
        if not emissions:
            return HookAnswer()
        late = call.spooled_at_epoch_s is not None
        outcomes = await self._bus.emit(CLIENT_ID, emissions, budget=self._budget, dispatch=not late)
        for outcome in outcomes:
            if outcome.refusal is not None and outcome.refusal.code in {"busy", "disk_full", "closed"}:
                raise BrokerBusy(outcome.refusal.detail, code="busy")
        return HookAnswer() if late else adapter.render(call, _deliveries(emissions, outcomes))


def _deliveries(emissions: tuple[Emission, ...], outcomes: list[Outcome]) -> list[Delivery]:
    return [
        Delivery(event=emission.request.event, payload=payload, slot=slot)
        for emission, outcome in zip(emissions, outcomes, strict=True)
        for payload, slot in outcome.deliveries
    ]


def ids_of_call(call: HookCall) -> IdSource:
    """Return ids that depend on the call alone, so that a call which comes again from the spool is the same request.

    The time in them is the one in the call id (``hook-<milliseconds in hex>-…``), the rest its digest.
    """
    seed = hashlib.sha256(call.call_id.encode()).digest()
    parts = call.call_id.split("-")
    try:
        started_ms = int(parts[1], 16) & (2**48 - 1)
    except (IndexError, ValueError):
        started_ms = int.from_bytes(seed[10:16], "big")
    return IdSource(lambda: started_ms, lambda count: seed[:count])
