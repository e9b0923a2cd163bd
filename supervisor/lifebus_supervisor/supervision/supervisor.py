"""Supervision at work: hooks and telemetry in, findings out by the bus (docs/supervision.md).

Every pass goes the same way: poll the files, catch up with the ledger, evaluate each session, record what follows.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final

import anyio
import anyio.lowlevel
import structlog
from msgspec import Struct, structs

from lifebus_adapters.adapter import HookCall, HookReading
from lifebus_adapters.shared.telemetry import HOOK_SOURCE
from lifebus_broker.claims import claim_of
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_contract import AdapterManifest, Emission, LifebusError, LifecycleEvent, RegisteredAdapter, SupportState
from lifebus_supervisor.hook_intake.admission import Admission
from lifebus_supervisor.supervision.apps import UNSUPERVISED, AppSessions
from lifebus_supervisor.supervision.environment import DeferredRecorder, Environment, SupervisorLimits, TelemetryTail
from lifebus_supervisor.supervision.ingest import TelemetryInbox, count_problems
from lifebus_supervisor.supervision.monitor import telemetry
from lifebus_supervisor.supervision.monitor.announcements import note_announcements
from lifebus_supervisor.supervision.monitor.callers import announce_exit, note_caller
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey, SessionMonitor
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.recording import CLIENT_ID, Recorder, unrecorded_facts
from lifebus_supervisor.supervision.repeated_calls import admit_late
from lifebus_supervisor.supervision.rules.emissions import emissions_of
from lifebus_supervisor.supervision.rules.endings import session_end, settles_at
from lifebus_supervisor.supervision.rules.evaluation import evaluate
from lifebus_supervisor.supervision.rules.findings import Moment, SupervisionFinding, tick_finding
from lifebus_supervisor.supervision.rules.merging import MergeContext, merge, settles_an_end
from lifebus_supervisor.supervision.rules.silence import capability_findings, shows_distrust
from lifebus_supervisor.supervision.ticks import WakeSignal

_log = structlog.get_logger("lifebus.supervisor")
_SETTLE_TICKS: Final = 2
"""For how many ticks after a hook its telemetry may still be on the way."""

_REFRESH_TIMEOUT_S: Final = 0.15
"""How long a hook call waits for what is known of its session, in seconds; it is merged with less, if need be."""

_BATCH: Final = 32
"""How many sessions are evaluated before other tasks get their turn."""
_MAX_RECOVERED: Final = 2_048
_STARTUP: Final = "startup"
_FORGET_TICKS: Final = 3
_FORGET_HISTORY_TICKS: Final = 900
_POLL_AFTER: Final = frozenset(
    {LifecycleEvent.FRAME_ENDED, LifecycleEvent.CONTEXT_COMPACTED, LifecycleEvent.SESSION_ENDING}
)
"""The events after which polling the files is worth while at once."""


class PassResult(Struct, frozen=True, kw_only=True):
    """What one pass came to: the receipts it recorded, and how many sessions, files and degraded sessions there are."""

    stored: tuple[StoredReceipt, ...] = ()
    sessions: int = 0
    files: int = 0
    degraded: int = 0


class Supervisor:
    """Supervises the sessions of one bus.

    `ticks` counts the ticks.  Whoever else decides about sessions by what the monitors know holds the `lock`.  `wake`
    asks whoever ticks for an early pass; `deferred` records what was deferred to hooks.  `after_pass` is called when a
    pass has brought the monitors up to date.
    """

    def __init__(
        self,
        bus: EventBus,
        telemetry: TelemetryTail,
        limits: SupervisorLimits,
        environment: Environment,
        monitors: MonitorTable,
        *,
        deferred: DeferredRecorder,
        wake: WakeSignal,
    ) -> None:
        self.monitors = monitors
        self.telemetry = telemetry
        self.limits = limits
        self.environment = environment
        self.wake = wake
        self.lock = anyio.Lock()
        self.merged = 0
        self.ticks = 0
        self.ticked_at: float | None = None
        self.after_pass: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self._bus = bus
        self.deferred = deferred
        self._over: list[SessionMonitor] = []
        self._requested = self._answered = 0
        self._last_result = PassResult()
        self._inbox = TelemetryInbox(telemetry, monitors)
        self._recorder = Recorder(bus, monitors, environment.now, limits.interval_s)
        self._apps = AppSessions(bus.ledger, monitors, limits.silence.app_s)

    def moment(self) -> Moment:
        """Return when it is."""
        epoch_ms = int(self.environment.epoch() * 1000)
        second, milliseconds = divmod(epoch_ms, 1000)
        now = self.environment.now()
        return Moment(tick=self.ticks, monotonic_s=now, epoch_s=second, milliseconds=milliseconds)

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Take note of committed receipts; a listener of the fan-out."""
        self.monitors.on_commit(stored, self._apps.unmonitored)

    async def admit(self, call: HookCall, reading: HookReading) -> Admission:
        """Return the emissions of a hook call as they are to be recorded, merged with what is known already."""
        registered = self._bus.registry.get(call.adapter_id)
        if reading.session is None or registered is None or not reading.emissions:
            return Admission(emissions=reading.emissions)
        # Without the lock: a harness waits for its hook, and a pass may wait for callback clients.
        monitor = self.monitors.open((call.adapter_id, reading.session))
        # What others recorded in the session since is part of what is known of it.
        if not monitor.loaded or monitor.position < monitor.newest:
            await self.monitors.refresh(monitor, self.environment.now(), _REFRESH_TIMEOUT_S)
        is_spooled, is_orphaned = call.spooled_at_epoch_s is not None, self._is_orphaned(monitor, call)
        admission = Admission(emissions=reading.emissions)
        if is_spooled:
            last_position = monitor.state.last_position
            admission = await admit_late(self._bus.ledger, call, reading.emissions, last_position)
        if admission.is_repeated:
            return admission
        decides_end = is_orphaned or settles_an_end(monitor, reading.emissions[0].request.event)
        if await self._inbox.poll_before(call, reading, decides_end=decides_end) and monitor.loaded:
            self._take_updates(only=monitor)  # what the files prove is compared with the ledger
        context = MergeContext(
            manifest=registered.manifest,
            thresholds=self.limits.thresholds,
            ids=self._bus.ids,
            epoch_s=int(self.environment.epoch()),
            called_at_ms=self._called_at_ms(call),
            is_spooled=is_spooled,
            is_orphaned=is_orphaned,
            has_end_under_way=monitor.has_end_under_way(self.environment.now()),
            reads_files=reading.transcript is not None or monitor.telemetry.has_reported,
        )
        merged = merge(monitor, reading, context)
        self.merged += max(0, len(reading.emissions) - len(merged))
        monitor.hand_over_waits([emission.telemetry for emission in merged], self.environment.now())
        if any(emission.request.event is LifecycleEvent.SESSION_ENDED for emission in merged):
            monitor.mark_closing(self.environment.now())
        return structs.replace(admission, emissions=merged)

    def _called_at_ms(self, call: HookCall) -> int:
        late = call.spooled_at_epoch_s
        return int(self.environment.epoch() * 1000) if late is None else late * 1000

    def _take_updates(self, only: SessionMonitor | None = None) -> None:
        settle_s = _SETTLE_TICKS * self.limits.interval_s
        self._inbox.take(tick=self.ticks, now=self.environment.now(), settle_s=settle_s, only=only)

    def _is_orphaned(self, monitor: SessionMonitor, call: HookCall) -> bool:
        """Whether the session's process is gone, and another one calls now."""
        known = monitor.process
        if call.spooled_at_epoch_s is not None:  # it was made before, and perhaps before the newest one
            return False
        if known.harness is None or call.process in {None, known.harness, known.candidate} or known.others:
            return False
        # The one that ended the session before says nothing of the life since.
        return known.harness != known.ended_by and not self.environment.is_alive(known.harness)

    def hook_seen(
        self, call: HookCall, reading: HookReading, admission: Admission, results: Sequence[EmissionResult]
    ) -> None:
        """Take a hook call that has been recorded."""
        if admission.is_repeated:
            return
        if reading.session is None:
            if announce_exit(self.monitors, call, reading, self.environment):
                self.wake.set()
            return
        monitor, now = self.monitors.open((call.adapter_id, reading.session)), self.environment.now()
        # First: who calls in a session that has ended with this call, or before it, has it open again.
        self.monitors.apply(monitor, (one for result in results for one in result.stored), now)
        note_caller(monitor, call, reading, self.environment)
        note_announcements(monitor, call, reading, results, now)
        if _begins_new(reading) and call.spooled_at_epoch_s is None:
            monitor.telemetry = telemetry.on_new_session(monitor.telemetry)
        if reading.transcript is not None:
            self.telemetry.follow(call.adapter_id, reading.session, reading.transcript)
        # After the receipts: the facts are compared with the state that this call has made.
        for fact in reading.facts:
            monitor.observe(fact, HOOK_SOURCE, self.ticks, settled=False, history=False)
        if reading.facts or any(emission.request.event in _POLL_AFTER for emission in reading.emissions):
            self.wake.set()

    async def tick(self) -> PassResult:
        """Do what is due at each interval: a pass that also evaluates silence and life, and says that it was made.

        A tick that comes much sooner than an interval after another is an early pass: patience is counted in ticks.
        Those who ask while others wait share a result: one pass answers all who asked before it began.
        """
        self._requested += 1
        ticket = self._requested
        async with self.lock:
            if ticket > self._answered:
                requested = self._requested
                self._last_result = await self._tick_now()
                self._answered = requested
            result = self._last_result
        await self.after_pass()
        return result

    async def _tick_now(self) -> PassResult:
        now = self.environment.now()
        if self.ticked_at is not None and now - self.ticked_at < self.limits.interval_s / 2:
            return await self._run_pass(scheduled=False)
        self.ticks += 1
        self.ticked_at = now
        result = await self._run_pass(scheduled=True)
        self._publish_idle_ticks(result)
        self.environment.ticks.add_since(now)
        return result

    async def poll_early(self) -> PassResult:
        """Make an early pass over the files; silence and life are evaluated by ticks alone."""
        async with self.lock:
            result = await self._run_pass(scheduled=False)
        await self.after_pass()
        return result

    async def settle(self) -> PassResult:
        """Record the announced ends that are settled by now, and what the files show of their sessions; no more."""
        async with self.lock:
            return await self._run_pass(scheduled=False, only_settling=True)

    def settles_at(self) -> float | None:
        """Return when the next announced end is settled, in monotonic seconds; None where none waits."""
        settle_s = self.limits.settle_s
        moments = [(one, settles_at(one, settle_s)) for one in self.monitors if one.is_live]
        return min((max(at, one.paused_until) for one, at in moments if at is not None), default=None)

    async def recover(self) -> None:
        """Supervise the sessions that were open when the broker stopped; of too many, those that changed last."""
        heads = [head for head in await self._bus.ledger.sessions() if not head.ended or head.open_frames]
        # Heads come in the order of their last change, and the monitors of too many would push each other out.
        heads = [head for head in heads if head.adapter_id not in UNSUPERVISED]
        for head in heads[-_MAX_RECOVERED:]:
            if self._bus.registry.get(head.adapter_id) is not None:
                monitor = self.monitors.open((head.adapter_id, head.harness_session_id))
                await self._refresh(monitor, self.environment.now())

    async def record_held_back(self, key: SessionKey) -> None:
        """Record what an app-server reported of a session and a hook might have reported instead; call it locked."""
        monitor = self.monitors.get(key)
        if monitor is not None and monitor.holds_back:
            await self.deferred.record_held_back(monitor)

    async def record_for_adapter(self, adapter_id: str, findings: Sequence[SupervisionFinding]) -> None:
        """Record what is true of an adapter: of itself, and of each of its live sessions."""
        async with self.lock:
            await self._recorder.record_of_adapter(self._bus.registry.require(adapter_id).manifest, findings)
            live = [monitor for monitor in self.monitors if monitor.key[0] == adapter_id and monitor.is_live]
            await self._recorder.record_all([(monitor, findings) for monitor in live])

    async def _run_pass(self, *, scheduled: bool, only_settling: bool = False) -> PassResult:
        await self._ingest(scheduled=scheduled)
        found: list[tuple[SessionMonitor, list[SupervisionFinding]]] = []
        distrust = cache(self.environment.hooks_distrusted)  # read once a pass, and not for each session
        for number, monitor in enumerate(self.monitors):
            if number % _BATCH == _BATCH - 1:
                await anyio.lowlevel.checkpoint()  # with very many sessions, hooks shall not wait for all of them
            if only_settling and settles_at(monitor, self.limits.settle_s) is None:
                continue
            findings = self._findings(monitor, distrust(monitor.key[0]), scheduled=scheduled)
            if findings or unrecorded_facts(monitor, self._bus.router.privacy):
                found.append((monitor, findings))
            self._retire(monitor, busy=bool(findings), scheduled=scheduled)
        stored = await self._recorder.record_all(found, scheduled=scheduled)
        while self._over:
            stored += await self.deferred.record_held_back(self._over.pop())
            self.wake.set()
        if scheduled:
            stored += await self.deferred.record_due(self.ticks)
        live = [monitor for monitor in self.monitors if monitor.is_live]
        lost = sum(bool(monitor.state.lost) for monitor in live)
        return PassResult(stored=stored, sessions=len(live), files=len(self.telemetry.files()), degraded=lost)

    async def _ingest(self, *, scheduled: bool) -> None:
        """Bring the monitors up to date with the files and the ledger."""
        now = self.environment.now()
        ending = [monitor for monitor in self.monitors if monitor.ending is not None and not monitor.ending.is_read]
        found = await self._inbox.poll(to_end=bool(ending))
        if scheduled:
            self.monitors.reopen()
            await self._apps.adopt_silent(now)
            count_problems(found, self.monitors)
        for monitor in self.monitors:
            await self._refresh(monitor, now)
        self._take_updates()
        for monitor in ending:  # not the ends that were announced while the files were read
            if monitor.ending is not None:
                monitor.ending = structs.replace(monitor.ending, is_read=True)

    async def _refresh(self, monitor: SessionMonitor, now: float) -> None:
        """Bring a monitor up to date; one whose receipts are damaged must not stop the others."""
        try:
            await self.monitors.refresh(monitor, now)
        except LifebusError as fault:
            _log.error("session_not_read", adapter=monitor.key[0], detail=fault.detail[:200])
            if isinstance(fault, BrokenLog):
                self.monitors.drop(monitor)

    def _findings(self, monitor: SessionMonitor, distrust: str | None, *, scheduled: bool) -> list[SupervisionFinding]:
        registered = self._bus.registry.get(monitor.key[0])
        if registered is None or monitor.telemetry.only_history or not monitor.loaded:
            return []
        manifest, moment, limits = registered.manifest, self.moment(), self.limits
        alive = self._check_process(monitor) if scheduled else None
        monitor.match_ending(moment.monotonic_s)
        monitor.hand_over_waits((), moment.monotonic_s)  # what did not arrive in time is found again
        end = session_end(monitor, moment, alive=alive, limits=limits)
        if end is not None and monitor.holds_back:  # recorded before an end, which the next pass finds again
            self._over.append(monitor)
            end = None
        awaits_hook = _awaits_compaction_hook(monitor, manifest)
        monitor.prepare_evaluation(moment.tick, awaits_hook=awaits_hook)
        found = evaluate(monitor, moment, limits.thresholds, end=end, awaits_hook=awaits_hook, settle_s=limits.settle_s)
        # What is known of the harness's settings needs no patience; a short session is over before the next tick.
        if scheduled or shows_distrust(monitor, distrust):
            installed = self.environment.hooks_installed(monitor.key[0]) and not monitor.hooks.by_app
            found += capability_findings(
                monitor, manifest, moment, limits.silence, installed=installed, distrust=distrust
            )
        return found

    def _check_process(self, monitor: SessionMonitor) -> bool | None:
        """Whether a process behind a session lives, None where none is known."""
        hook_at = monitor.hooks.last_hook_at
        settled = hook_at is None or self.environment.now() - hook_at >= self.limits.interval_s
        return monitor.check_process(self.environment.is_alive, settled=settled)

    def _retire(self, monitor: SessionMonitor, *, busy: bool, scheduled: bool) -> None:
        """Forget a session that is over, or a file that nobody has written to for long."""
        if busy:
            monitor.idle_ticks = 0
        if busy or not scheduled:
            return
        # In ticks, not in seconds: while the machine sleeps nothing is forgotten.
        monitor.idle_ticks += 1
        limit = _idle_limit(monitor)
        if limit is not None and monitor.idle_ticks > limit and not monitor.deferred:
            self.monitors.drop(monitor)
            self.telemetry.forget(*monitor.key)

    def _publish_idle_ticks(self, result: PassResult) -> None:
        """Publish that a tick was made where it found nothing; such a tick is not stored.

        See docs/contract.md 2.6.
        """
        busy = {stored.adapter_id for stored in result.stored}
        live = Counter(monitor.key[0] for monitor in self.monitors if monitor.is_live)
        for adapter_id, sessions in live.items():
            registered = self._bus.registry.get(adapter_id)
            if registered is not None and adapter_id not in busy:
                self._bus.publish_transient(CLIENT_ID, self.tick_emission(registered, "", sessions=sessions))

    def tick_emission(self, registered: RegisteredAdapter, session: str, **facts: Any) -> Emission:
        """Return a `supervisor.tick` of an adapter, or of one of its sessions."""
        manifest = registered.manifest
        (emission,) = emissions_of([tick_finding(**facts)], manifest, (manifest.adapter_id, session), self._bus.ids)
        return emission


def _awaits_compaction_hook(monitor: SessionMonitor, manifest: AdapterManifest) -> bool:
    """Whether a hook, or an app-server in its turn, will report a compaction that a file proves."""
    if monitor.compactions.recorded_before_app_server is not None:
        return True  # its observer may be behind the file, and reports what came before the compaction first
    return monitor.is_hooked and claim_of(manifest, "event:context.compacted") is SupportState.NATIVE


def _idle_limit(monitor: SessionMonitor) -> int | None:
    """Return after how many ticks without news a session is forgotten, None where it never is."""
    if monitor.state.ended:
        return _FORGET_TICKS
    return _FORGET_HISTORY_TICKS if monitor.telemetry.only_history or not monitor.has_begun else None


def _begins_new(reading: HookReading) -> bool:
    """Whether a call begins a session that was not there before; harnesses that resume one say so."""
    first = reading.emissions[0] if reading.emissions else None
    if first is None or first.request.event is not LifecycleEvent.SESSION_STARTING:
        return False
    return first.telemetry.get("source", _STARTUP) == _STARTUP
