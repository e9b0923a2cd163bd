"""The tick of a broker that supervises nothing yet: one stored `supervisor.tick` receipt an adapter (design 3.12).

Above: service.  Below: lifebus_broker, lifebus_transports.
"""

from lifebus_broker.bus import Bus
from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackRequest,
    Emission,
    LifecycleEvent,
    RegisteredAdapter,
    error_for,
)
from lifebus_contract.ids import EVENT, INVOCATION
from lifebus_transports.messages import Tick, TickAnswer

__all__ = ["plain_tick", "tick_emission"]


async def plain_tick(bus: Bus, asked: Tick) -> TickAnswer:
    """Record a tick for each adapter that was asked about, and look at nothing.

    Raises:
        AdapterUnavailable: there is no such adapter.
        LifebusError: the ledger refused.
    """
    adapters = bus.registry.all() if asked.adapter_id is None else (bus.registry.require(asked.adapter_id),)
    if not adapters:
        return TickAnswer(receipts=(), positions=(), sessions=0, files=0, degraded=0)
    outcomes = await bus.emit(asked.client_id, [tick_emission(bus, one, asked.session) for one in adapters])
    for outcome in outcomes:
        if outcome.refusal is not None:
            refusal = outcome.refusal
            raise error_for(refusal.failure_class, refusal.detail, retry_class=refusal.retry_class, code=refusal.code)
    rows = [row for outcome in outcomes for row in outcome.rows]
    return TickAnswer(
        receipts=tuple([row.receipt for row in rows]),
        positions=tuple([row.position for row in rows]),
        sessions=0,
        files=0,
        degraded=0,
    )


def tick_emission(bus: Bus, registered: RegisteredAdapter, session: str | None) -> Emission:
    """Return a `supervisor.tick` of an adapter, as its manifest names it."""
    manifest = registered.manifest
    return Emission(
        request=CallbackRequest(
            schema_version=CONTRACT_VERSION,
            event=LifecycleEvent.SUPERVISOR_TICK,
            event_id=bus.ids.make(EVENT),
            adapter_id=manifest.adapter_id,
            adapter_version=manifest.adapter_version,
            invocation_id=bus.ids.make(INVOCATION),
            integration_mode=manifest.integration_modes[0],
            harness_session_id=session,
        )
    )
