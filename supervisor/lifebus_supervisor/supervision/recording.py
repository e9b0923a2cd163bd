"""Findings on their way into the ledger: by the bus, many sessions at once, with pauses where they change nothing."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import anyio
import structlog

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.privacy import Privacy
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.state.telemetry_keys import COMPACTIONS_BEFORE, PROCESS, SUPERVISOR, WAITING
from lifebus_contract import AdapterManifest, LifecycleEvent
from lifebus_supervisor.supervision.monitor.process import process_text
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.whereabouts import unrecorded_place
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.rules.emissions import emissions_of
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding, tick_finding

CLIENT_ID: Final = SUPERVISOR
"""The client under whose name supervision records what it finds."""

_BUDGET_S: Final = 1.0
"""How long callback clients may take over one session's findings, in seconds."""

_MAX_CONCURRENT: Final = 256
"""How many sessions' findings are under way at once: a slow client costs all of them one wait, and not one each."""

_LONGEST_PAUSE: Final = 900
"""Most intervals for which findings are held back that the ledger has refused, or knew already, again and again."""

_ENDS: Final = frozenset({LifecycleEvent.FRAME_ENDED, LifecycleEvent.SESSION_ENDED})

_log = structlog.get_logger("lifebus.supervisor")


class Recorder:
    """Records what was found.  `now` returns monotonic seconds; `interval_s` is the time between two ticks."""

    def __init__(self, bus: EventBus, monitors: MonitorTable, now: Callable[[], float], interval_s: float) -> None:
        self._bus = bus
        self._monitors = monitors
        self._now = now
        self._interval_s = interval_s

    async def record_all(
        self,
        found: Sequence[tuple[SessionMonitor, Sequence[SupervisionFinding]]],
        *,
        scheduled: bool = True,
    ) -> tuple[StoredReceipt, ...]:
        """Record what one pass found of several sessions; return the receipts in the order of the ledger.

        A pass that was not `scheduled` is no tick: ends that it settles are recorded without one.
        """
        stored: list[StoredReceipt] = []

        async def record_one(monitor: SessionMonitor, findings: Sequence[SupervisionFinding]) -> None:
            stored.extend(await self.record(monitor, findings, scheduled=scheduled))

        for start in range(0, len(found), _MAX_CONCURRENT):
            async with anyio.create_task_group() as tasks:
                for monitor, findings in found[start : start + _MAX_CONCURRENT]:
                    tasks.start_soon(record_one, monitor, findings)
        return tuple(sorted(stored, key=attrgetter("position")))

    async def record(
        self, monitor: SessionMonitor, findings: Sequence[SupervisionFinding], *, scheduled: bool = True
    ) -> tuple[StoredReceipt, ...]:
        """Record what was found of a session, behind a tick that carries what a restarted supervisor has to know."""
        registered = self._bus.registry.get(monitor.key[0])
        facts = unrecorded_facts(monitor, self._bus.router.privacy, begins=bool(findings))
        if registered is None or not monitor.loaded or self._now() < monitor.paused_until or not (findings or facts):
            return ()
        only_ends = not facts and all(one.event in _ENDS or WAITING in one.telemetry for one in findings)
        # Behind an end a tick would be taken for a sign of life.
        is_left_out = (only_ends and not scheduled) or monitor.state.ended
        ticks = [] if is_left_out else [tick_finding(observed=len(findings), **facts)]
        if any(finding.event is LifecycleEvent.SESSION_ENDED for finding in findings):
            monitor.mark_closing(self._now())
        monitor.hand_over_waits([finding.telemetry for finding in findings], self._now())
        results = await self._emit([*ticks, *findings], registered.manifest, monitor)
        self._pace(monitor, results[len(ticks) :])
        stored = tuple(one for result in results for one in result.stored)
        # At once, not with the next pass: another pass must not find the same again.
        self._monitors.apply(monitor, stored, self._now())
        return stored

    async def record_of_adapter(self, manifest: AdapterManifest, findings: Sequence[SupervisionFinding]) -> None:
        """Record what is true of an adapter as a whole."""
        emissions = emissions_of(findings, manifest, (manifest.adapter_id, ""), self._bus.ids)
        await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)

    async def _emit(
        self, findings: Sequence[SupervisionFinding], manifest: AdapterManifest, monitor: SessionMonitor
    ) -> list[EmissionResult]:
        emissions = emissions_of(findings, manifest, monitor.key, self._bus.ids)
        return await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)

    def _pace(self, monitor: SessionMonitor, results: Sequence[EmissionResult]) -> None:
        """Hold findings back for a while that change nothing: each attempt costs a receipt for its tick."""
        futile = [result for result in results if result.refusal is not None or result.replayed]
        monitor.futile_attempts = monitor.futile_attempts + 1 if futile else 0
        # A single futile attempt is ordinary: another client may have recorded the same at the same time.
        pause = min(2**monitor.futile_attempts, _LONGEST_PAUSE)
        # In seconds: where nobody ticks, the end of a frame is tried again all the same.
        monitor.paused_until = self._now() + pause * self._interval_s if monitor.futile_attempts > 1 else 0.0
        for result in futile:
            if result.refusal is not None:
                _log.debug("finding_refused", code=result.refusal.code, failure=result.refusal.failure_class.value)


def unrecorded_facts(monitor: SessionMonitor, privacy: Privacy, *, begins: bool = False) -> dict[str, Any]:
    """Return what the ledger does not know of a session and has to: the process, old compactions, where it works.

    The last of them is no reason to begin a session's record; `begins` says that there is another one.
    """
    state = monitor.state
    if not monitor.is_live:
        return {}
    harness, before = monitor.process.harness, monitor.compactions.before_supervision
    process = None if harness is None else process_text(harness)
    facts: dict[str, Any] = {PROCESS: process} if process != state.process else {}
    facts |= {COMPACTIONS_BEFORE: before} if before != state.before else {}
    return facts | (unrecorded_place(monitor.place, state, privacy) if begins or monitor.is_on_record else {})
