"""Facts of app-servers on their way into the ledger: at once, or left to the hooks that tell the same.

Everything about one session is decided while nobody else decides: the supervisor's lock is held.  What is known is the
fold over the ledger, so that a broker which starts again goes on where it stopped, and a fact that comes again finds
itself told.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from lifebus_adapters.adapter import CallerProcess
from lifebus_adapters.app_server import AppServerFact, ThreadClosed, ThreadOpened
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted, Usage
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import Bus
from lifebus_broker.state.telemetry_keys import APP_SERVER
from lifebus_contract import AdapterManifest, BrokerBusy, IntegrationMode, InvalidRequest
from lifebus_supervisor.app_server.deciding import due, findings_of, gap, leaves_to_hooks
from lifebus_supervisor.supervision.emissions import emissions_of, mode_of
from lifebus_supervisor.supervision.evaluation import Finding, pressure_change
from lifebus_supervisor.supervision.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.supervision.wire import SOURCE, Shared, Waiting, Wire
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedLoss, ObservedProcess

CLIENT_ID: Final = APP_SERVER
"""The client under whose name facts from app-servers are recorded."""

_BUDGET_S: Final = 1.0
"""How long callback clients may take over one fact, in seconds."""

_ORIGINS: Final = 1_024
_AGAIN: Final = frozenset({"busy", "disk_full", "closed"})
_SHARED: Final = (ThreadOpened, ThreadClosed, TurnStarted, TurnEnded)

_log = structlog.get_logger("lifebus.app_server")


class AppServerIntake:
    """Takes what observers tell beside signals, and makes receipts of it (`LifecycleIntake`)."""

    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self._bus = bus
        self._supervisor = supervisor
        self._origins: OrderedDict[str, dict[str, None]] = OrderedDict()
        supervisor.companion = self

    async def take(
        self,
        origin: str,
        adapter_id: str,
        process: ObservedProcess | None,
        told: Sequence[tuple[int, ObservedFact | ObservedLoss | ObservedExit]],
    ) -> None:
        """Record what an origin told, each with its number, in order; return when all of it is durable.

        Raises:
            InvalidRequest: something is no fact of an app-server; nothing was recorded.
            BrokerBusy: not now; what was recorded will be known when it comes again.
        """
        facts = [(number, _read(one) if isinstance(one, ObservedFact) else one) for number, one in told]
        manifest = self._bus.registry.require(adapter_id).manifest
        caller = None if process is None else CallerProcess(pid=process.pid, started=process.started)
        source = _Origin(origin, manifest, caller)
        async with self._supervisor.lock:
            for number, one in facts:
                match one:
                    case ObservedLoss():
                        await self._lost(source, one, number)
                    case ObservedExit():
                        await self._ended(source, one, number)
                    case fact:
                        self._sessions(origin)[fact.session] = None
                        await self._fact(source, fact, source.mark(number))
        self._supervisor.wake()

    async def settle(self, tick: int) -> tuple[StoredReceipt, ...]:
        """Record what was left to hooks and can wait no longer (`Companion`)."""
        rows: tuple[StoredReceipt, ...] = ()
        for watch in self._supervisor.watches:
            registered = self._bus.registry.get(watch.key[0])
            if watch.wire is None or not watch.wire.waiting or registered is None:
                continue
            await self._supervisor.watches.refresh(watch, self._supervisor.world.now())
            ready, waiting = due(watch, tick, to_hooks=self._to_hooks(watch))
            with suppress(BrokerBusy):
                rows += await self._record_waiting(watch, ready, registered.manifest)
                watch.wire.waiting = waiting
        return rows

    async def _fact(self, source: "_Origin", fact: AppServerFact, mark: str) -> None:
        watch, moved = await self._watch(source, fact.session)
        wire = watch.wire = watch.wire or Wire(base=watch.state.compactions)
        if isinstance(fact, Usage):
            await self._measure(watch, fact, source.manifest)
            return
        if isinstance(fact, Compacted):
            wire.proofs[fact.key] = fact
        if isinstance(fact, ThreadOpened):
            wire.join(watch.state.compactions)
        to_hooks = self._to_hooks(watch)
        if wire.waiting and (not to_hooks or (isinstance(fact, ThreadOpened) and _is_over(wire))):
            ready, _ = due(watch, self._supervisor.ticks, to_hooks=False)
            await self._record_waiting(watch, ready, source.manifest)
            wire.waiting = []
        if not to_hooks:
            await self._record(watch, findings_of(watch, fact, mark, moved=moved), source.manifest)
        elif isinstance(fact, _SHARED):
            self._leave(watch, fact, mark)
        elif not isinstance(fact, Compacted):
            await self._record(watch, findings_of(watch, fact, mark), source.manifest)

    async def _measure(self, watch: SessionMonitor, usage: Usage, manifest: AdapterManifest) -> None:
        """Record a change of pressure with the numbers that show it: the next ones may come before anybody looks."""
        supervisor = self._supervisor
        watch.take(usage, SOURCE, supervisor.ticks, settled=True, history=False)
        change = pressure_change(watch, supervisor.moment(), supervisor.limits.thresholds)
        await self._record(watch, list(change), manifest)

    async def _record_waiting(
        self, watch: SessionMonitor, waiting: Sequence[Waiting], manifest: AdapterManifest
    ) -> tuple[StoredReceipt, ...]:
        rows: tuple[StoredReceipt, ...] = ()
        for one in waiting:
            rows += await self._record(watch, findings_of(watch, one.fact, one.mark), manifest)
        return rows

    def _leave(self, watch: SessionMonitor, fact: Shared, mark: str) -> None:
        """Leave a fact to the hooks; telemetry shows meanwhile whether they are silent."""
        tick = self._supervisor.ticks
        if watch.wire is not None:
            watch.wire.wait(Waiting(fact, mark, tick, watch.state.starts))
        if isinstance(fact, TurnStarted | TurnEnded):
            watch.take(fact, SOURCE, tick, settled=True, history=False)

    def _to_hooks(self, watch: SessionMonitor) -> bool:
        return leaves_to_hooks(watch, installed=self._supervisor.world.hooks_installed(watch.key[0]))

    async def _watch(self, source: "_Origin", session: str) -> tuple[SessionMonitor, bool]:
        """Return a session's watch, all of the ledger known to it, and whether its process is another one now."""
        supervisor, now = self._supervisor, self._supervisor.world.now()
        watch = supervisor.watches.open((source.manifest.adapter_id, session))
        await supervisor.watches.refresh(watch, now)
        moved = None not in {watch.process, source.process} and watch.process != source.process
        watch.run_by(source.process)
        watch.heard_at, watch.quiet, watch.app, watch.idle_ticks = now, False, False, 0
        return watch, moved

    async def _lost(self, source: "_Origin", lost: ObservedLoss, number: int) -> None:
        """Record a gap in every session that the origin may have told of, else outside any."""
        finding = gap(lost.messages, lost.bytes, source.mark(number))
        live = [watch for watch in await self._watches(source) if not watch.state.ended]
        for watch in live:
            await self._record(watch, [finding], source.manifest)
        if not live:
            await self._emit([finding], source.manifest, "")

    async def _ended(self, source: "_Origin", ended: ObservedExit, number: int) -> None:
        """Close what the app-server left open; its observer told of most of it before."""
        details = dict(ended.evidence)
        if ended.exit_code is not None:
            details["exit_code"] = ended.exit_code
        if ended.signal is not None:
            details["signal"] = ended.signal
        shown = ", ".join(f"{name} {value}" for name, value in details.items()) or "unknown how"
        for watch in await self._watches(source):
            if watch.state.ended or (watch.wire is not None and _is_over(watch.wire)):
                continue
            over = ThreadClosed(
                session=watch.key[1],
                evidence=f"the app-server is gone: {shown}"[:1_024],
                how="completed" if ended.exit_code == 0 else "abandoned",
                details=details,
            )
            await self._fact(source, over, source.mark(number))
        self._origins.pop(source.origin, None)

    async def _watches(self, source: "_Origin") -> list[SessionMonitor]:
        """Return the sessions that an origin told of; after a restart its process tells which they were."""
        known, adapter_id = self._origins.get(source.origin, {}), source.manifest.adapter_id
        found: list[SessionMonitor] = []
        for watch in self._supervisor.watches:
            is_its = source.process is not None and watch.process == source.process
            if watch.key[0] == adapter_id and watch.is_live and (is_its or watch.key[1] in known):
                await self._supervisor.watches.refresh(watch, self._supervisor.world.now())
                found.append(watch)
        return found

    def _sessions(self, origin: str) -> dict[str, None]:
        """Return the sessions of an origin; of very many origins the one heard longest ago is forgotten."""
        sessions = self._origins.setdefault(origin, {})
        self._origins.move_to_end(origin)
        if len(self._origins) > _ORIGINS:
            self._origins.popitem(last=False)
        return sessions

    async def _record(
        self, watch: SessionMonitor, findings: Sequence[Finding], manifest: AdapterManifest
    ) -> tuple[StoredReceipt, ...]:
        if not findings:
            return ()
        rows = await self._emit(findings, manifest, watch.key[1])
        self._supervisor.watches.apply(watch, rows, self._supervisor.world.now())
        return rows

    async def _emit(
        self, findings: Sequence[Finding], manifest: AdapterManifest, session: str
    ) -> tuple[StoredReceipt, ...]:
        known = IntegrationMode.REFERENCE_ADAPTER in manifest.integration_modes
        mode = IntegrationMode.REFERENCE_ADAPTER if known else mode_of(manifest)
        emissions = emissions_of(findings, manifest, (manifest.adapter_id, session), self._bus.ids, mode=mode)
        outcomes = await self._bus.emit(CLIENT_ID, emissions, budget=_BUDGET_S)
        for outcome in outcomes:
            if outcome.refusal is not None and outcome.refusal.code in _AGAIN:
                raise BrokerBusy(outcome.refusal.detail, code="busy")
            if outcome.refusal is not None:  # another observer told the same in other words
                _log.debug("fact_refused", code=outcome.refusal.code, failure=outcome.refusal.failure_class.value)
        return tuple(row for outcome in outcomes for row in outcome.rows)


class _Origin(msgspec.Struct, frozen=True):
    """Who tells: the origin, its adapter, and the app-server's process where it is known."""

    origin: str
    manifest: AdapterManifest
    process: CallerProcess | None

    def mark(self, number: int) -> str:
        """Return what tells one of its observations from all others."""
        return f"{self.origin}:{number}"


def _is_over(wire: Wire) -> bool:
    """Whether the end of the thread waits for the hooks."""
    return any(isinstance(one.fact, ThreadClosed) for one in wire.waiting)


def _read(told: ObservedFact) -> AppServerFact:
    """Return the fact that plain data stand for.

    Raises:
        InvalidRequest: they stand for none.
    """
    try:
        fact: AppServerFact = msgspec.convert(told.fact, AppServerFact)
    except msgspec.ValidationError as fault:
        raise InvalidRequest(f"no fact of an app-server: {fault}"[:256], code="wrong_type", field="$.fact") from None
    return fact
