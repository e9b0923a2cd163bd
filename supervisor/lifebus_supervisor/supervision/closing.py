"""Sessions that an operator ends or has forgotten (docs/sessions.md, "Closing and forgetting")."""

from collections.abc import Awaitable, Callable, Sequence

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.state.telemetry_keys import CLOSED_BY, FORGOTTEN, FORGOTTEN_BY
from lifebus_contract import AdapterManifest, InvalidRequest, StateConflict, error_for
from lifebus_contract.views import SessionHead
from lifebus_supervisor.supervision.apps import UNSUPERVISED
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.recording import CLIENT_ID
from lifebus_supervisor.supervision.rules.emissions import emissions_of
from lifebus_supervisor.supervision.rules.endings import SessionEnd, session_closings
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding, tick_finding
from lifebus_supervisor.supervision.rules.waiting import with_ended_waits
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.messages.sessions import CloseSession, ForgetSession, SessionReceipts

Drop = Callable[[str, str], Awaitable[None]]
"""Drops what is kept of a session beside its receipts: adapter and session in."""


class SessionClosing:
    """Ends sessions by an operator's word, and forgets them; `drop` is what forgetting drops."""

    def __init__(self, supervisor: Supervisor, bus: EventBus, drop: Drop) -> None:
        self._supervisor = supervisor
        self._bus = bus
        self._drop = drop

    async def close(self, asked: CloseSession) -> SessionReceipts:
        """Record the ends of a session's open frames and its own, with the operator's name.

        Raises:
            AdapterUnavailable: there is no such adapter.
            InvalidRequest: there is no such session (``no_session``), or it is the run of a flow (``session_of_run``).
            StateConflict: it has ended already (``session_ended``).
            LifebusError: the ledger refused.
        """
        manifest = self._bus.registry.require(asked.adapter_id).manifest
        if asked.adapter_id in UNSUPERVISED:
            detail = f"`{asked.session}` is a run of a flow: `lifebus flow abort` ends it"
            raise InvalidRequest(detail, code="session_of_run")
        async with self._supervisor.lock:
            await self._supervisor.record_held_back((asked.adapter_id, asked.session))
            head = await self._head_of(asked)
            if head.ended and not head.open_frames:
                raise StateConflict(f"the session `{asked.session}` has ended already", code="session_ended")
            monitor = await self._monitor_of(asked)
            end = _closing(asked.client_id)
            moment = self._supervisor.moment()
            at_ms = moment.epoch_s * 1_000 + moment.milliseconds
            closings = with_ended_waits(monitor, session_closings(monitor, end), at_ms)
            return await self._record(closings, manifest, monitor)

    async def forget(self, asked: ForgetSession) -> SessionReceipts:
        """Drop what is kept of an ended session beside its receipts, and record that it is forgotten.

        Raises:
            AdapterUnavailable: there is no such adapter.
            InvalidRequest: there is no such session (``no_session``), or no state of sessions (``not_durable``).
            StateConflict: it has not ended (``session_open``).
            LifebusError: the ledger refused; what was dropped stays so, and forgetting may be asked for again.
        """
        manifest = self._bus.registry.require(asked.adapter_id).manifest
        if not self._bus.ledger.capabilities.durable:
            raise InvalidRequest("the ledger is not kept: nothing is remembered of sessions", code="not_durable")
        async with self._supervisor.lock:
            head = await self._head_of(asked)
            if not head.ended or head.open_frames:
                detail = f"the session `{asked.session}` has not ended; `lifebus sessions close` ends it"
                raise StateConflict(detail, code="session_open")
            # Before the receipt: whoever reads that it is forgotten finds nothing of it any more.
            await self._drop(asked.adapter_id, asked.session)
            monitor = await self._monitor_of(asked)
            if monitor.state.forgotten:
                return SessionReceipts(receipts=(), positions=())
            found = tick_finding(**{FORGOTTEN: True, FORGOTTEN_BY: asked.client_id})
            return await self._record([found], manifest, monitor)

    async def _head_of(self, asked: CloseSession) -> SessionHead:
        heads = await self._bus.ledger.sessions((asked.adapter_id, asked.session))
        if not heads:
            raise InvalidRequest(f"no such session: `{asked.adapter_id}/{asked.session}`", code="no_session")
        return heads[0]

    async def _monitor_of(self, asked: CloseSession) -> SessionMonitor:
        """Return what supervision knows of a session, also where it had forgotten it."""
        monitors = self._supervisor.monitors
        monitor = monitors.open((asked.adapter_id, asked.session))
        await monitors.refresh(monitor, self._supervisor.environment.now())
        return monitor

    async def _record(
        self, findings: Sequence[SupervisionFinding], manifest: AdapterManifest, monitor: SessionMonitor
    ) -> SessionReceipts:
        now = self._supervisor.environment.now
        if any(one.event == "session.ended" for one in findings):
            monitor.mark_closing(now())
        results = await self._bus.emit(CLIENT_ID, emissions_of(findings, manifest, monitor.key, self._bus.ids))
        stored: list[StoredReceipt] = []
        for result in results:
            if (refusal := result.refusal) is not None:
                raise error_for(
                    refusal.failure_class, refusal.detail, retry_class=refusal.retry_class, code=refusal.code
                )
            stored += result.stored
        self._supervisor.monitors.apply(monitor, stored, now())
        return SessionReceipts(
            receipts=tuple(one.receipt for one in stored), positions=tuple(one.position for one in stored)
        )


def _closing(client_id: str) -> SessionEnd:
    """Return the end that an operator gives a session: what was at work in it is abandoned."""
    facts = {CLOSED_BY: client_id}
    return SessionEnd(how="closed", evidence="an operator closed it", source="operator", facts=facts, orderly=False)
