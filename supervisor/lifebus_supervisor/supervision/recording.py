"""Findings on their way into the ledger: through the one door, sessions side by side, and never for ever in vain."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import structlog

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import Bus
from lifebus_broker.routing.dispatch import EmissionOutcome
from lifebus_broker.state.telemetry_keys import COMPACTIONS_BEFORE, PROCESS, SUPERVISOR
from lifebus_contract import AdapterManifest
from lifebus_supervisor.supervision.emissions import emissions_of, tick_finding
from lifebus_supervisor.supervision.evaluation import Finding
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.session_monitor import SessionMonitor, process_text

CLIENT_ID: Final = SUPERVISOR
"""The client under whose name supervision records what it finds."""

_BUDGET_S: Final = 1.0
"""How long callback clients may take over one session's findings, in seconds."""

_SIDE_BY_SIDE: Final = 256
"""How many sessions' findings are under way at once: a slow client costs all of them one wait, and not one each."""

_LONGEST_REST: Final = 900
"""Most ticks for which findings are kept back that the ledger has refused, or knew already, again and again."""

_log = structlog.get_logger("lifebus.supervisor")


class Recorder:
    """Records what was found.  `now` returns monotonic seconds."""

    def __init__(self, bus: Bus, watches: MonitorTable, now: Callable[[], float]) -> None:
        self._bus = bus
        self._watches = watches
        self._now = now

    async def record_all(
        self, found: Sequence[tuple[SessionMonitor, Sequence[Finding]]], tick: int
    ) -> tuple[StoredReceipt, ...]:
        """Record what one look found of several sessions; return the rows in the order of the ledger."""
        rows: list[StoredReceipt] = []

        async def record_one(watch: SessionMonitor, findings: Sequence[Finding]) -> None:
            rows.extend(await self.record(watch, findings, tick))

        for start in range(0, len(found), _SIDE_BY_SIDE):
            async with anyio.create_task_group() as tasks:
                for watch, findings in found[start : start + _SIDE_BY_SIDE]:
                    tasks.start_soon(record_one, watch, findings)
        return tuple(sorted(rows, key=lambda row: row.position))

    async def record(self, watch: SessionMonitor, findings: Sequence[Finding], tick: int) -> tuple[StoredReceipt, ...]:
        """Record what was found of a session, the tick that found it first; and once, what a restart has to know."""
        registered = self._bus.registry.get(watch.key[0])
        facts = news_of(watch)
        if registered is None or not watch.loaded or tick < watch.rest_until or not (findings or facts):
            return ()
        told = [tick_finding(observed=len(findings), **facts), *findings]
        outcomes = await self._emit(told, registered.manifest, watch)
        self._note(watch, outcomes[1:], tick)
        rows = tuple(row for outcome in outcomes for row in outcome.rows)
        self._watches.apply(watch, rows, self._now())
        return rows

    async def record_of_adapter(self, manifest: AdapterManifest, findings: Sequence[Finding]) -> None:
        """Record what is true of an adapter as a whole."""
        emissions = emissions_of(findings, manifest, (manifest.adapter_id, ""), self._bus.ids)
        await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)

    async def _emit(
        self, findings: Sequence[Finding], manifest: AdapterManifest, watch: SessionMonitor
    ) -> list[EmissionOutcome]:
        emissions = emissions_of(findings, manifest, watch.key, self._bus.ids)
        return await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)

    def _note(self, watch: SessionMonitor, outcomes: Sequence[EmissionOutcome], tick: int) -> None:
        """Keep findings back for a while that change nothing: each attempt costs a row for its tick."""
        vain = [outcome for outcome in outcomes if outcome.refusal is not None or outcome.replayed]
        watch.vain = watch.vain + 1 if vain else 0
        watch.rest_until = tick + min(2**watch.vain, _LONGEST_REST) if watch.vain > 1 else 0
        for outcome in vain:
            if outcome.refusal is not None:
                _log.debug("finding_refused", code=outcome.refusal.code, failure=outcome.refusal.failure_class.value)


def news_of(watch: SessionMonitor) -> dict[str, Any]:
    """Return what a restarted supervisor has to know and the ledger does not: the process, and old compactions."""
    if watch.quiet or watch.state.ended:
        return {}
    process = None if watch.process is None else process_text(watch.process)
    facts: dict[str, Any] = {PROCESS: process} if process != watch.state.process else {}
    return facts | ({COMPACTIONS_BEFORE: watch.before} if watch.before != watch.state.before else {})
