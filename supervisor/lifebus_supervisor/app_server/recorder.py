"""What is recorded for app-servers: findings, and facts that were deferred to hooks until no hook can report them."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

import structlog

from lifebus_adapters.app_server.facts import ThreadClosed
from lifebus_broker.ledger.refusals import NOT_NOW
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.state.telemetry_keys import APP_SERVER
from lifebus_contract import AdapterManifest, BrokerBusy, IntegrationMode
from lifebus_supervisor.app_server.deciding import due, findings_of, leaves_to_hooks
from lifebus_supervisor.supervision.environment import Environment
from lifebus_supervisor.supervision.monitor.deferred import DeferredFact
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.rules.emissions import emissions_of, mode_of
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding
from lifebus_supervisor.supervision.rules.waiting import with_ended_waits

CLIENT_ID: Final = APP_SERVER
"""The client under whose name facts from app-servers are recorded."""

_BUDGET_S: Final = 1.0
"""How long callback clients may take over one fact, in seconds."""

_log = structlog.get_logger("lifebus.app_server")


class AppServerRecorder:
    """Records for app-servers; whoever calls holds the supervisor's lock."""

    def __init__(self, bus: EventBus, monitors: MonitorTable, environment: Environment) -> None:
        self._bus = bus
        self._monitors = monitors
        self._environment = environment

    def leaves_to_hooks(self, monitor: SessionMonitor) -> bool:
        """Whether what hooks report too is left to them."""
        return leaves_to_hooks(monitor, expected=self._environment.hooks_expected(monitor.key[0]))

    async def record(
        self, monitor: SessionMonitor, findings: Sequence[SupervisionFinding], manifest: AdapterManifest
    ) -> tuple[StoredReceipt, ...]:
        """Record findings of a session; return the receipts.

        Raises:
            BrokerBusy: not now; some of them may be recorded.
        """
        if not findings:
            return ()
        findings = with_ended_waits(monitor, findings, int(self._environment.epoch() * 1000))
        monitor.hand_over_waits([finding.telemetry for finding in findings], self._environment.now())
        stored = await self.emit(findings, manifest, monitor.key[1])
        self._monitors.apply(monitor, stored, self._environment.now())
        return stored

    async def record_facts(
        self, monitor: SessionMonitor, facts: Sequence[DeferredFact], manifest: AdapterManifest
    ) -> tuple[StoredReceipt, ...]:
        """Record what follows from deferred facts, one after the other; return the receipts.

        Raises:
            BrokerBusy: not now; some of them may be recorded.
        """
        stored: tuple[StoredReceipt, ...] = ()
        for one in facts:  # what the first one records decides what the next one means
            stored += await self.record(monitor, findings_of(monitor, one.fact, one.mark), manifest)
        return stored

    async def record_due(self, tick: int) -> tuple[StoredReceipt, ...]:
        """Record what was deferred and can wait no longer, at the end of a tick; return the receipts."""
        stored: tuple[StoredReceipt, ...] = ()
        for monitor in self._monitors:
            registered = self._bus.registry.get(monitor.key[0])
            if not monitor.deferred or registered is None:
                continue
            await self._monitors.refresh(monitor, self._environment.now())
            ready, waiting = due(monitor, tick, to_hooks=self.leaves_to_hooks(monitor))
            # left as deferred: the next tick tries again, and keys keep what is recorded from coming twice
            with suppress(BrokerBusy):
                stored += await self.record_facts(monitor, ready, registered.manifest)
                monitor.deferred = waiting
        return stored

    async def record_held_back(self, monitor: SessionMonitor) -> tuple[StoredReceipt, ...]:
        """Record what was deferred and no hook reported, because the session is over; return the receipts."""
        stored: tuple[StoredReceipt, ...] = ()
        waiting = monitor.held_back
        ready = tuple(takewhile(lambda one: not isinstance(one.fact, ThreadClosed), waiting))
        with suppress(BrokerBusy):
            stored = await self.record_facts(monitor, ready, self._bus.registry.require(monitor.key[0]).manifest)
            monitor.deferred = waiting[len(ready) :]
        return stored

    async def emit(
        self, findings: Sequence[SupervisionFinding], manifest: AdapterManifest, session: str
    ) -> tuple[StoredReceipt, ...]:
        """Record findings of a session, or of none where it is empty; return the receipts.

        Raises:
            BrokerBusy: not now; some of them may be recorded.
        """
        known = IntegrationMode.REFERENCE_ADAPTER in manifest.integration_modes
        mode = IntegrationMode.REFERENCE_ADAPTER if known else mode_of(manifest)
        emissions = emissions_of(findings, manifest, (manifest.adapter_id, session), self._bus.ids, mode=mode)
        outcomes = await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)
        for outcome in outcomes:
            if outcome.refusal is not None and outcome.refusal.code in NOT_NOW:
                raise BrokerBusy(outcome.refusal.detail, code="busy")
            if outcome.refusal is not None:  # another observer reported the same in other words
                _log.debug("fact_refused", code=outcome.refusal.code, failure=outcome.refusal.failure_class.value)
        return tuple(one for outcome in outcomes for one in outcome.stored)
