"""Ticks that others drive: an external supervisor asks for one, and gets back what it found.

See docs/contract.md 2.6.
"""

from lifebus_broker.routing.bus import EventBus
from lifebus_contract import RegisteredAdapter, error_for
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.messages.ticks import Tick, TickAnswer


async def drive(supervisor: Supervisor, bus: EventBus, asked: Tick) -> TickAnswer:
    """Tick, record that it was asked for, and return what the tick found.

    Without an adapter the tick counts for every adapter with a live session, or the first one known if none has any.

    Raises:
        AdapterUnavailable: there is no such adapter.
        LifebusError: the ledger refused.
    """
    named = () if asked.adapter_id is None else (bus.registry.require(asked.adapter_id),)
    result = await supervisor.tick()
    # After the tick: it may have found the first live session of an adapter.
    adapters = named or _live(supervisor, bus)
    emissions = [
        supervisor.tick_emission(one, asked.session or "", sessions=result.sessions, observed=len(result.stored))
        for one in adapters
    ]
    outcomes = await bus.emit(asked.client_id, emissions)
    for outcome in outcomes:
        if outcome.refusal is not None:
            refusal = outcome.refusal
            raise error_for(refusal.failure_class, refusal.detail, retry_class=refusal.retry_class, code=refusal.code)
    stored = [one for outcome in outcomes for one in outcome.stored]
    stored += [one for one in result.stored if _is_asked(one.adapter_id, one.harness_session_id, asked)]
    return TickAnswer(
        receipts=tuple(one.receipt for one in stored),
        positions=tuple(one.position for one in stored),
        sessions=result.sessions,
        files=result.files,
        degraded=result.degraded,
    )


def _live(supervisor: Supervisor, bus: EventBus) -> tuple[RegisteredAdapter, ...]:
    """Return the adapters that have a live session; the first one known where none has."""
    live = {monitor.key[0] for monitor in supervisor.monitors if monitor.is_live}
    known = bus.registry.all()
    return tuple(one for one in known if one.manifest.adapter_id in live) or known[:1]


def _is_asked(adapter_id: str, session: str | None, asked: Tick) -> bool:
    if asked.adapter_id is not None and adapter_id != asked.adapter_id:
        return False
    return asked.session is None or session == asked.session
