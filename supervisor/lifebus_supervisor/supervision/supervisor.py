"""Supervision at work: hooks and telemetry in, findings out through the one door (docs/supervision.md).

Every look goes the same way: poll the files, catch up with the ledger, judge each session, record what follows.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import anyio.lowlevel
import structlog
from msgspec import Struct

from lifebus_adapters.adapter import HookCall, HookReading
from lifebus_adapters.shared.telemetry import HOOK_SOURCE
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import Bus
from lifebus_broker.routing.dispatch import EmissionOutcome
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_contract import Emission, LifebusError, LifecycleEvent, RegisteredAdapter
from lifebus_supervisor.supervision.apps import Apps
from lifebus_supervisor.supervision.emissions import emissions_of, tick_finding
from lifebus_supervisor.supervision.environment import Companion, Environment, SupervisorLimits, Watching
from lifebus_supervisor.supervision.evaluation import Finding, Moment, judge
from lifebus_supervisor.supervision.ingest import match_news, note_problems, take_news
from lifebus_supervisor.supervision.merging import NEEDS_HISTORY, merge
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.recording import CLIENT_ID, Recorder, news_of
from lifebus_supervisor.supervision.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.silence import capability_findings
from lifebus_supervisor.tailing.events import Found

_log = structlog.get_logger("lifebus.supervisor")
_SETTLE_TICKS: Final = 2
"""For how many ticks after a hook its telemetry may still be on the way."""

_PATIENCE_S: Final = 0.15
"""How long a hook call waits for what is known of its session, in seconds; it is merged with less, if need be."""

_AT_ONCE: Final = 32
_RECOVERED: Final = 2_048
_FORGET_TICKS: Final = 3
_FORGET_QUIET_TICKS: Final = 900


class Looked(Struct, frozen=True, kw_only=True):
    """What one look came to: the rows it recorded, and how many sessions, files and losses there are."""

    rows: tuple[StoredReceipt, ...] = ()
    sessions: int = 0
    files: int = 0
    degraded: int = 0


class Supervisor:
    """Supervises the sessions of one bus.  `wake` asks whoever ticks for an early look.

    `ticks` counts the ticks.  Whoever else decides about sessions by what the watches know holds the `lock`; the
    `companion` has its say at the end of each scheduled look.
    """

    def __init__(self, bus: Bus, watcher: Watching, limits: SupervisorLimits, world: Environment) -> None:
        self.watches = MonitorTable(bus.ledger, bus.capabilities.apply, world.epoch)
        self.watcher = watcher
        self.ticked_at: float | None = None
        self.merged = 0
        self.lock = anyio.Lock()
        self.companion: Companion | None = None
        self.wake: Callable[[], None] = lambda: None
        self._bus = bus
        self.limits = limits
        self.world = world
        self.ticks = self._asked = self._answered = 0
        self._looked = Looked()
        self._news: list[tuple[SessionMonitor, Found]] = []
        self._recorder = Recorder(bus, self.watches, world.now)
        self._apps = Apps(bus.ledger, self.watches, limits.silence.app_s)

    def moment(self) -> Moment:
        """Return when it is."""
        return Moment(tick=self.ticks, now=self.world.now(), epoch_s=int(self.world.epoch()))

    def note(self, rows: Sequence[StoredReceipt]) -> None:
        """Note that rows were committed; a listener of the fan-out."""
        self.watches.note(rows, self._apps.strangers)

    async def admit(self, call: HookCall, reading: HookReading) -> tuple[Emission, ...]:
        """Return the emissions of a hook call as they are to be recorded, merged with what is known already."""
        registered = self._bus.registry.get(call.adapter_id)
        if reading.session is None or registered is None or not reading.emissions:
            return reading.emissions
        watch = self.watches.open((call.adapter_id, reading.session))
        if not watch.loaded and any(one.request.event in NEEDS_HISTORY for one in reading.emissions):
            await self.watches.refresh(watch, self.world.now(), _PATIENCE_S)
        merged = merge(watch, reading, registered.manifest, self._bus.ids, int(self.world.epoch()))
        self.merged += max(0, len(reading.emissions) - len(merged))
        return merged

    def heard(self, call: HookCall, reading: HookReading, outcomes: Sequence[EmissionOutcome]) -> None:
        """Take in a hook call that has been recorded."""
        if reading.session is None:
            self._dispose(call, reading)
            return
        watch, now = self.watches.open((call.adapter_id, reading.session)), self.world.now()
        if call.spooled_at_epoch_s is None:
            if not reading.display:
                watch.heard(reading.hook, now)
            watch.called_by(call.process)
            watch.disposed = None
            watch.quiet, watch.app, watch.idle_ticks = False, False, 0
        self.watches.apply(watch, (row for outcome in outcomes for row in outcome.rows), now)
        if reading.transcript is not None:
            self.watcher.follow(call.adapter_id, reading.session, reading.transcript)
        for fact in reading.facts:
            watch.take(fact, HOOK_SOURCE, self.ticks, settled=False, history=False)
        if reading.facts or any(one.request.event in _TELLING for one in reading.emissions):
            self.wake()

    def _dispose(self, call: HookCall, reading: HookReading) -> None:
        """Note that a process ends with all its sessions, where it names none of them."""
        if call.process is None or all(one.request.event != LifecycleEvent.SESSION_ENDED for one in reading.emissions):
            return
        for watch in self.watches:
            if watch.key[0] == call.adapter_id and call.process in {watch.process, watch.candidate}:
                watch.disposed = f"the harness told that it ends: {reading.hook}"
        self.wake()

    async def tick(self) -> Looked:
        """Do what is due at each interval: look, judge what is silent and who is gone, and say that it was done.

        A tick that comes much sooner than an interval after another is an early look: patience is counted in ticks.
        Whoever asks while others wait gets what they get: one look answers all who asked before it began.
        """
        self._asked += 1
        ticket = self._asked
        async with self.lock:
            if ticket > self._answered:
                asked = self._asked
                self._looked = await self._tick_now()
                self._answered = asked
            return self._looked

    async def _tick_now(self) -> Looked:
        now = self.world.now()
        if self.ticked_at is not None and now - self.ticked_at < self.limits.interval_s / 2:
            return await self._look(scheduled=False)
        self.ticks += 1
        self.ticked_at = now
        looked = await self._look(scheduled=True)
        self._tell_idle(looked)
        return looked

    async def observe(self) -> Looked:
        """Take an early look at the files; silence and life are judged by ticks alone."""
        async with self.lock:
            return await self._look(scheduled=False)

    async def recover(self) -> None:
        """Take up the sessions that were open when the broker stopped; of too many, those that changed last."""
        heads = [head for head in await self._bus.ledger.sessions() if not head.ended or head.open_frames]
        for head in heads[-_RECOVERED:]:
            if self._bus.registry.get(head.adapter_id) is not None:
                await self._refresh(self.watches.open((head.adapter_id, head.harness_session_id)), self.world.now())

    async def record_for_adapter(self, adapter_id: str, findings: Sequence[Finding]) -> None:
        """Record what is true of an adapter: of itself, and of each of its live sessions."""
        async with self.lock:
            await self._recorder.record_of_adapter(self._bus.registry.require(adapter_id).manifest, findings)
            live = [watch for watch in self.watches if watch.key[0] == adapter_id and watch.is_live]
            await self._recorder.record_all([(watch, findings) for watch in live], self.ticks)

    async def _look(self, *, scheduled: bool) -> Looked:
        now = self.world.now()
        self._news += match_news(await self.watcher.poll(), self.watches)
        if scheduled:
            await self._apps.look(now)
            note_problems(self._news, self.watches)
        for watch in self.watches:
            await self._refresh(watch, now)
        news, self._news = self._news, []  # not before: what was polled is told once, and a look may be cut short
        take_news(news, tick=self.ticks, now=now, settle_s=_SETTLE_TICKS * self.limits.interval_s)
        found: list[tuple[SessionMonitor, list[Finding]]] = []
        for number, watch in enumerate(self.watches):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()  # of very many sessions, others shall not wait for all
            findings = self._findings(watch, scheduled=scheduled)
            if findings or news_of(watch):
                found.append((watch, findings))
            self._retire(watch, busy=bool(findings), scheduled=scheduled)
        rows = await self._recorder.record_all(found, self.ticks)
        if scheduled and self.companion is not None:
            rows += await self.companion.settle(self.ticks)
        live = [watch for watch in self.watches if watch.is_live]
        degraded = sum(bool(watch.state.lost) for watch in live)
        return Looked(rows=rows, sessions=len(live), files=len(self.watcher.files()), degraded=degraded)

    async def _refresh(self, watch: SessionMonitor, now: float) -> None:
        """Bring a watch up to date; of one whose receipts are damaged nobody else need suffer."""
        try:
            await self.watches.refresh(watch, now)
        except LifebusError as fault:
            _log.error("session_not_read", adapter=watch.key[0], detail=fault.detail[:200])
            if isinstance(fault, BrokenLog):
                self.watches.drop(watch)

    def _findings(self, watch: SessionMonitor, *, scheduled: bool) -> list[Finding]:
        registered = self._bus.registry.get(watch.key[0])
        if registered is None or watch.quiet or not watch.loaded:
            return []
        moment = self.moment()
        alive = self._is_alive(watch) if scheduled else None
        limits = self.limits
        found = judge(watch, registered.manifest, moment, limits.thresholds, alive=alive, abandon_s=limits.abandon_s)
        if scheduled:
            expected = self.world.hooks_installed(watch.key[0]) and not watch.app
            found += capability_findings(watch, registered.manifest, moment, limits.silence, hooks_expected=expected)
        return found

    def _is_alive(self, watch: SessionMonitor) -> bool | None:
        """Whether a process behind a session lives, None where none is known; see who called last, if time enough."""
        settled = watch.hook_at is None or self.world.now() - watch.hook_at >= self.limits.interval_s
        if settled and watch.candidate is not None:
            watch.confirm(self.world.is_alive(watch.candidate))
        return watch.is_alive(self.world.is_alive)

    def _retire(self, watch: SessionMonitor, *, busy: bool, scheduled: bool) -> None:
        """Forget a session that is over, or a file that nobody has written to for long."""
        if busy or not scheduled:
            watch.idle_ticks = 0 if busy else watch.idle_ticks
            return
        watch.idle_ticks += 1
        limit = (
            _FORGET_TICKS if watch.state.ended and not watch.is_live else _FORGET_QUIET_TICKS if watch.quiet else None
        )
        if limit is not None and watch.idle_ticks > limit and not (watch.wire and watch.wire.waiting):
            self.watches.drop(watch)
            self.watcher.forget(*watch.key)

    def _tell_idle(self, looked: Looked) -> None:
        """Say on the stream that a tick was made where it found nothing; such a tick is not stored.

        See docs/contract.md 2.6.
        """
        busy = {row.adapter_id for row in looked.rows}
        live: dict[str, int] = {}
        for watch in self.watches:
            if watch.is_live:
                live[watch.key[0]] = live.get(watch.key[0], 0) + 1
        for adapter_id, sessions in live.items():
            registered = self._bus.registry.get(adapter_id)
            if registered is not None and adapter_id not in busy:
                self._bus.publish_transient(CLIENT_ID, self.tick_emission(registered, "", sessions=sessions))

    def tick_emission(self, registered: RegisteredAdapter, session: str, **facts: Any) -> Emission:
        """Return a `supervisor.tick` of an adapter, or of one of its sessions."""
        manifest = registered.manifest
        (emission,) = emissions_of([tick_finding(**facts)], manifest, (manifest.adapter_id, session), self._bus.ids)
        return emission


_TELLING: Final = frozenset(
    {LifecycleEvent.FRAME_ENDED, LifecycleEvent.CONTEXT_COMPACTED, LifecycleEvent.SESSION_ENDING}
)
"""The events after which a look at the files is worth while at once."""
