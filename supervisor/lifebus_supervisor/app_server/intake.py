"""Facts of app-servers on their way into the ledger: at once, or left to the hooks that report the same.

Everything about one session is decided while nobody else decides: the supervisor's lock is held.  What is known is what
the ledger says, so that a broker which starts again goes on where it stopped, and a fact that comes again changes
nothing.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from lifebus_adapters.adapter import CallerProcess
from lifebus_adapters.app_server.facts import AppServerFact, ThreadClosed, ThreadOpened
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted, Usage
from lifebus_broker.routing.bus import EventBus
from lifebus_contract import AdapterManifest, InvalidRequest
from lifebus_supervisor.app_server.deciding import due, findings_of, gap
from lifebus_supervisor.app_server.recorder import AppServerRecorder
from lifebus_supervisor.supervision.monitor import compactions
from lifebus_supervisor.supervision.monitor.deferred import SOURCE, DeferredFact, SharedFact, defer, is_closing
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.rules.evaluation import pressure_change
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedLoss, ObservedProcess

_MAX_ORIGINS: Final = 1_024
_SHARED: Final = (ThreadOpened, ThreadClosed, TurnStarted, TurnEnded)


class AppServerIntake:
    """Takes what observers report beside signals, and makes receipts of it (`LifecycleIntake`)."""

    def __init__(self, bus: EventBus, supervisor: Supervisor, recorder: AppServerRecorder) -> None:
        self._bus = bus
        self._supervisor = supervisor
        self._recorder = recorder
        self._origins: OrderedDict[str, dict[str, None]] = OrderedDict()

    async def take(
        self,
        origin: str,
        adapter_id: str,
        process: ObservedProcess | None,
        observed: Sequence[tuple[int, ObservedFact | ObservedLoss | ObservedExit]],
    ) -> None:
        """Record what an origin observed, each with its number, in order; return when all of it is durable.

        Raises:
            InvalidRequest: something is no fact of an app-server; nothing was recorded.
            BrokerBusy: not now; what was recorded will be known when it comes again.
        """
        # all are read before the first is recorded: a bad one refuses the batch as a whole
        facts = [(number, _read(one) if isinstance(one, ObservedFact) else one) for number, one in observed]
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
        self._supervisor.wake.set()

    async def _fact(self, source: "_Origin", fact: AppServerFact, mark: str) -> None:
        monitor, moved = await self._monitor(source, fact.session)
        self._count_compactions(monitor, fact)
        if isinstance(fact, Usage):
            await self._measure(monitor, fact, source.manifest)
            return
        to_hooks = self._recorder.leaves_to_hooks(monitor)
        reopens = isinstance(fact, ThreadOpened) and is_closing(monitor.deferred)
        if monitor.deferred and (not to_hooks or reopens):
            ready, _ = due(monitor, self._supervisor.ticks, to_hooks=False)
            await self._recorder.record_facts(monitor, ready, source.manifest)
            monitor.deferred = ()
        if not to_hooks:
            await self._recorder.record(monitor, findings_of(monitor, fact, mark, moved=moved), source.manifest)
        elif isinstance(fact, _SHARED):
            self._defer(monitor, fact, mark)
        elif not isinstance(fact, Compacted):  # compactions are counted, and recorded by the tick
            await self._recorder.record(monitor, findings_of(monitor, fact, mark), source.manifest)

    def _count_compactions(self, monitor: SessionMonitor, fact: AppServerFact) -> None:
        """Let the monitor count compactions by what this app-server reports."""
        recorded, opens = monitor.state.compactions, isinstance(fact, ThreadOpened)
        monitor.compactions = compactions.on_app_server(monitor.compactions, recorded)
        if isinstance(fact, Compacted):
            monitor.observe_app_server_compaction(fact, SOURCE)
        if opens:
            monitor.compactions = compactions.on_app_server(monitor.compactions, recorded, opens_thread=True)

    async def _measure(self, monitor: SessionMonitor, usage: Usage, manifest: AdapterManifest) -> None:
        """Record a change of pressure with the numbers that show it: the next ones may come before the next tick."""
        supervisor = self._supervisor
        monitor.observe(usage, SOURCE, supervisor.ticks, settled=True, history=False)
        if monitor.state.ended:
            return  # nothing is measured behind an end
        change = pressure_change(monitor, supervisor.moment(), supervisor.limits.thresholds)
        await self._recorder.record(monitor, change, manifest)

    def _defer(self, monitor: SessionMonitor, fact: SharedFact, mark: str) -> None:
        """Leave a fact to the hooks; what it shows of turns is evidence meanwhile of whether they are silent."""
        tick = self._supervisor.ticks
        monitor.deferred = defer(monitor.deferred, DeferredFact(fact, mark, tick, monitor.state.starts))
        if isinstance(fact, TurnStarted | TurnEnded):
            monitor.observe(fact, SOURCE, tick, settled=True, history=False)

    async def _monitor(self, source: "_Origin", session: str) -> tuple[SessionMonitor, bool]:
        """Return a session's monitor, up to date with the ledger, and whether its process is another one now."""
        supervisor, now = self._supervisor, self._supervisor.environment.now()
        monitor = supervisor.monitors.open((source.manifest.adapter_id, session))
        await supervisor.monitors.refresh(monitor, now)
        harness = monitor.process.harness
        moved = None not in {harness, source.process} and harness != source.process
        monitor.app_server_seen(source.process, now)
        return monitor, moved

    async def _lost(self, source: "_Origin", lost: ObservedLoss, number: int) -> None:
        """Record a gap in every session that the origin may have reported, else outside any."""
        finding = gap(lost.messages, lost.bytes, source.mark(number))
        live = [monitor for monitor in await self._monitors_of(source) if not monitor.state.ended]
        for monitor in live:
            await self._recorder.record(monitor, [finding], source.manifest)
        if not live:
            await self._recorder.emit([finding], source.manifest, "")

    async def _ended(self, source: "_Origin", ended: ObservedExit, number: int) -> None:
        """Close what the app-server left open; its observer reported most of it before."""
        details = dict(ended.evidence)
        if ended.exit_code is not None:
            details["exit_code"] = ended.exit_code
        if ended.signal is not None:
            details["signal"] = ended.signal
        shown = ", ".join(f"{name} {value}" for name, value in details.items()) or "unknown how"
        for monitor in await self._monitors_of(source):
            if monitor.state.ended or is_closing(monitor.deferred):
                continue
            closed = ThreadClosed(
                session=monitor.key[1],
                evidence=f"the app-server is gone: {shown}"[:1_024],
                how="completed" if ended.exit_code == 0 else "abandoned",
                details=details,
            )
            await self._fact(source, closed, source.mark(number))
        # last: until its sessions are closed, a retry must still find them
        self._origins.pop(source.origin, None)

    async def _monitors_of(self, source: "_Origin") -> list[SessionMonitor]:
        """Return the sessions that an origin reported; after a restart they are found by its process."""
        known, adapter_id = self._origins.get(source.origin, {}), source.manifest.adapter_id
        found: list[SessionMonitor] = []
        for monitor in self._supervisor.monitors:
            is_its = source.process is not None and monitor.process.harness == source.process
            if monitor.key[0] == adapter_id and monitor.is_live and (is_its or monitor.key[1] in known):
                await self._supervisor.monitors.refresh(monitor, self._supervisor.environment.now())
                found.append(monitor)
        return found

    def _sessions(self, origin: str) -> dict[str, None]:
        """Return the sessions of an origin; of very many origins the one that reported longest ago is forgotten."""
        sessions = self._origins.setdefault(origin, {})
        self._origins.move_to_end(origin)
        if len(self._origins) > _MAX_ORIGINS:
            self._origins.popitem(last=False)
        return sessions


class _Origin(msgspec.Struct, frozen=True):
    """Who reports: the origin, its adapter, and the app-server's process where it is known."""

    origin: str
    manifest: AdapterManifest
    process: CallerProcess | None

    def mark(self, number: int) -> str:
        """Return what distinguishes one of its observations from all others."""
        return f"{self.origin}:{number}"


def _read(fact: ObservedFact) -> AppServerFact:
    """Return the fact that plain data stand for.

    Raises:
        InvalidRequest: they stand for none.
    """
    try:
        read: AppServerFact = msgspec.convert(fact.fact, AppServerFact)
    except msgspec.ValidationError as fault:
        raise InvalidRequest(f"no fact of an app-server: {fault}"[:256], code="wrong_type", field="$.fact") from None
    return read
