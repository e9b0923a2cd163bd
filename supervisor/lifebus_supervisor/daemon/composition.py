"""The composition root: every part of a broker is made here, complete, from those that it needs."""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio.abc import TaskGroup
from msgspec import Struct, structs

from lifebus_adapters import ADAPTERS
from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.ledger.retention_clock import RetentionClock, elapsed_s
from lifebus_broker.ports import Ledger
from lifebus_broker.privacy import Privacy
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_broker.signals.log import SignalLog
from lifebus_contract import IdSource
from lifebus_supervisor.api.api import Api
from lifebus_supervisor.api.consumers import Consumers
from lifebus_supervisor.api.dispatches import Dispatches
from lifebus_supervisor.api.emissions import EmissionVerbs
from lifebus_supervisor.api.operations import OperationVerbs
from lifebus_supervisor.api.reads import ReadVerbs
from lifebus_supervisor.api.snapshots import SnapshotVerbs
from lifebus_supervisor.api.status import StatusVerbs
from lifebus_supervisor.api.workers import Workers
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.corrections.corrector import Corrector
from lifebus_supervisor.daemon.halt import Halt
from lifebus_supervisor.daemon.parts import Part
from lifebus_supervisor.daemon.sockets import ZmqSockets
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_supervisor.hook_intake.intake import HookIntake
from lifebus_supervisor.jobs.retention import RetentionTask
from lifebus_supervisor.jobs.scrubber import Scrubber, compose_scrubber
from lifebus_supervisor.jobs.state_follower import StateFollowerTask, compose_follower
from lifebus_supervisor.supervision.closing import SessionClosing
from lifebus_supervisor.supervision.composition import compose_supervisor
from lifebus_supervisor.supervision.driving import drive
from lifebus_supervisor.supervision.report import harness_statuses, waiting_sessions
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.messages.verbs import FAMILIES
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.requests import RequestCounters, RequestServer

if TYPE_CHECKING:
    from lifebus_supervisor.daemon.flow_work import FlowWork
    from lifebus_supervisor.daemon.session_work import SessionWork
    from lifebus_supervisor.jobs.backups import BackupTask

_HERE: Final = "lifebus_supervisor.daemon"

NOTHING_DONE: Final = dict.fromkeys(
    (
        "questions_open",
        "notifications_failing",
        "jobs_open",
        "jobs_running",
        "signals_withheld",
        "observations_missing",
        "observations_replayed",
        "lines_dropped",
    ),
    0,
)
"""The counters of parts that are not made."""

# Which part of the time that a hook waits callback clients may take; the rest is the way there and back
_HOOK_SHARE = 0.8


class Core(Struct, frozen=True, kw_only=True):
    """The parts of a broker that need no socket.

    `follower`, `retention` and `scrubber` are None where nothing durable is kept, `backups` also where none are wanted.
    `sessions` and `flows` are made when they are needed.
    """

    settings: Settings
    halt: Halt
    tasks: TaskGroup
    bus: EventBus
    signals: SignalLog
    supervisor: Supervisor
    follower: StateFollowerTask | None
    consumers: Consumers
    sessions: Part["SessionWork"]
    flows: Part["FlowWork"]
    snapshots: SnapshotVerbs
    retention: RetentionTask | None
    scrubber: Scrubber | None
    backups: "BackupTask | None"
    workers: Workers
    corrector: Corrector
    hooks: HookIntake
    gateway: GatewayCounters


class Daemon(Core, frozen=True, kw_only=True):
    """A running broker.  `bus` is the broker in this process; `halt` ends it and says how it ended.

    `metrics` returns the page of all metrics.
    """

    api: Api
    metrics: Callable[[], str]
    requests: RequestServer
    receipts: ReceiptPublisher


def compose_core(
    settings: Settings,
    halt: Halt,
    registry: Registry,
    *,
    ledger: Ledger,
    fanout: Fanout,
    signals: SignalLog,
    tasks: TaskGroup,
) -> Core:
    """Make everything that needs no socket; nothing of it runs yet."""
    bus = _compose_bus(settings, registry, ledger, fanout, tasks)
    # The follower before the supervisor, whose monitors begin with the state that the follower has.
    follower = compose_follower(settings, bus)
    supervisor = compose_supervisor(settings, bus, ADAPTERS, follower)
    consumers = Consumers(ConsumerTable(ledger, tasks, time.monotonic), time.monotonic)
    snapshots = SnapshotVerbs(settings, bus, follower)
    corrector = Corrector(bus, time.time)
    return Core(
        settings=settings,
        halt=halt,
        tasks=tasks,
        bus=bus,
        signals=signals,
        supervisor=supervisor,
        follower=follower,
        consumers=consumers,
        sessions=_session_part(settings, bus, signals, supervisor, tasks),
        flows=_flow_part(settings, bus, supervisor, tasks),
        snapshots=snapshots,
        retention=_compose_retention(settings, ledger, follower, snapshots, consumers),
        scrubber=compose_scrubber(settings, ledger),
        backups=_compose_backups(settings, ledger, tasks),
        workers=Workers(bus.clients, Dispatches(), time.monotonic),
        corrector=corrector,
        gateway=GatewayCounters(),
        hooks=_compose_hooks(settings, bus, supervisor, corrector),
    )


def _is_congested(core: Core) -> bool:
    """Whether requests that record have to wait: for the disk, or for what is derived of the receipts before."""
    return core.bus.ledger.is_congested() or (core.follower is not None and core.follower.is_far_behind())


def _session_part(
    settings: Settings,
    bus: EventBus,
    signals: SignalLog,
    supervisor: Supervisor,
    tasks: TaskGroup,
) -> Part["SessionWork"]:
    def compose() -> "SessionWork":
        from lifebus_supervisor.daemon.session_work import compose_session_work  # noqa: PLC0415  few brokers need it

        return compose_session_work(settings, bus, signals, supervisor, tasks)

    families = ("app_server_verbs", "extension_verbs", "job_verbs", "transcript_verbs")
    return Part(f"{_HERE}.session_work", compose, (verb for family in families for verb in FAMILIES[family]))


def _flow_part(settings: Settings, bus: EventBus, supervisor: Supervisor, tasks: TaskGroup) -> Part["FlowWork"]:
    def compose() -> "FlowWork":
        from lifebus_supervisor.daemon.flow_work import compose_flow_work  # noqa: PLC0415  few brokers need it

        return compose_flow_work(settings, bus, supervisor, tasks)

    return Part(f"{_HERE}.flow_work", compose, (*FAMILIES["inbox_verbs"], *FAMILIES["flow_verbs"]))


def _compose_hooks(settings: Settings, bus: EventBus, supervisor: Supervisor, corrector: Corrector) -> HookIntake:
    # Clients get less than the hook waits, or their answers would arrive at a closed connection.
    budget_s = settings.limits.hook_answer_ms / 1000 * _HOOK_SHARE
    return HookIntake(HookCalls(bus, ADAPTERS, budget_s, supervision=supervisor, on_lost=corrector.on_lost), settings)


def _compose_bus(settings: Settings, registry: Registry, ledger: Ledger, fanout: Fanout, tasks: TaskGroup) -> EventBus:
    bus = EventBus(
        registry=registry,
        ledger=ledger,
        fanout=fanout,
        ids=IdSource(lambda: time.time_ns() // 1_000_000, random.Random(os.urandom(32)).randbytes),  # noqa: S311  names
        clock=time.time,
        tasks=tasks,
        max_dispatches=settings.limits.dispatches,
    )
    kept = settings.privacy
    bus.router.privacy = Privacy(cwd=kept.cwd, title=kept.title, home=os.environ.get("HOME", ""))
    return bus


def compose_daemon(core: Core, stack: AsyncExitStack) -> Daemon:
    """Open the ZeroMQ sockets and put the API between them and the core."""
    sockets = ZmqSockets(core.settings.runtime_dir, stack)
    receipts = sockets.publish_receipts()
    # Made before the server, because `status` reads them and the server needs the API that serves it.
    counters = RequestCounters()

    def count() -> Mapping[str, int]:
        return _counters(core, counters, receipts, refused=sockets.gate.refused)

    status = _compose_status(core, count)
    api = _compose_api(core, receipts, status)
    _publish_commits(core, receipts)
    # The request server last: everything that a request needs is there when the first one comes.
    requests = sockets.serve_requests(api.submit, counters, partial(_is_congested, core))
    return Daemon(
        **structs.asdict(core),
        api=api,
        metrics=partial(_page_of_metrics, core, status),
        receipts=receipts,
        requests=requests,
    )


def _page_of_metrics(core: Core, status: StatusVerbs) -> str:
    from lifebus_supervisor.metrics.page import MetricSources  # noqa: PLC0415  few brokers are asked for it

    sources = MetricSources(
        status=status.describe,
        consumers=core.consumers.describe,
        clients=core.bus.clients.all,
        durations=(
            core.bus.acknowledgements,
            core.bus.requests_dispatched,
            core.hooks.durations,
            core.supervisor.environment.ticks,
        ),
    )
    return sources.text()


def _compose_status(core: Core, count: Callable[[], Mapping[str, int]]) -> StatusVerbs:
    retention = core.retention
    return StatusVerbs(
        core.bus,
        (core.settings.runtime_dir, core.settings.state_dir),
        counters=count,
        unknown_adapters=core.hooks.unknown_adapters,
        harnesses=lambda: harness_statuses(core.supervisor, time.monotonic(), time.time()),
        waiting=lambda: waiting_sessions(core.supervisor),
        retention=lambda: None if retention is None else retention.report(),
        scrub=lambda: None if core.scrubber is None else core.scrubber.report(),
        backup=lambda: None if core.backups is None else core.backups.report(),
    )


def _compose_api(core: Core, receipts: ReceiptPublisher, status: StatusVerbs) -> Api:
    """Bind each verb to the part that serves it."""
    retention = core.retention
    operations = OperationVerbs(
        partial(drive, core.supervisor, core.bus),
        None if retention is None else retention.prune,
        SessionClosing(core.supervisor, core.bus, partial(_drop_session, core)),
    )
    families = (
        EmissionVerbs(core.bus).handlers(),
        core.workers.handlers(),
        ReadVerbs(core.bus.ledger, receipts.publish_marker, core.follower).handlers(),
        status.handlers(),
        operations.handlers(),
        core.consumers.handlers(),
        core.snapshots.handlers(),
        core.sessions.handlers(),
        core.flows.handlers(),
    )
    return Api(families, core.tasks, reads=core.settings.limits.backfills)


async def _drop_session(core: Core, adapter_id: str, session: str) -> None:
    """Drop what is kept of a session beside its receipts: what was said in it, and the signals of its thread."""
    work = await core.sessions.use()
    await work.transcripts.store.delete(session)
    await core.signals.forget(adapter_id, session)


def _compose_retention(
    settings: Settings,
    ledger: Ledger,
    follower: StateFollowerTask | None,
    snapshots: SnapshotVerbs,
    consumers: Consumers,
) -> RetentionTask | None:
    if not ledger.capabilities.retention or follower is None:
        return None

    async def after_prune() -> Sequence[str]:
        """Take a snapshot, since older ones may not be provable any more; return the consumers that lost something."""
        snapshots.ask()
        return await consumers.skip_pruned()

    return RetentionTask(
        settings.retention,
        ledger,
        base_at=follower.dump_at,
        consumers_affected=after_prune,
        retention_clock=RetentionClock(time.time, elapsed_s, ledger.newest_epoch_s),
    )


def _compose_backups(settings: Settings, ledger: Ledger, tasks: TaskGroup) -> "BackupTask | None":
    """Make what makes the scheduled backups; None where none are wanted or nothing is kept."""
    if settings.backup_folder is None or not ledger.capabilities.local_file:
        return None
    from lifebus_supervisor.jobs.backups import BackupTask  # noqa: PLC0415  few brokers make some
    from lifebus_transports.processes.once import Commands  # noqa: PLC0415  as above

    return BackupTask(settings, settings.backup_folder, Commands(tasks).run_once, time.time)


def _publish_commits(core: Core, receipts: ReceiptPublisher) -> None:
    """Have every commit published; the supervisor sees it after those who subscribed."""
    fanout, epoch = core.bus.fanout, core.bus.ledger.epoch
    fanout.listen(lambda stored: receipts.publish(epoch, stored))
    fanout.listen(core.supervisor.on_commit)
    fanout.listen(core.corrector.on_commit)
    # Apart from commits: transient receipts have no position and would look like a hole.
    fanout.listen_transient(lambda stored: receipts.publish_transient(epoch, stored))
    core.signals.listen(partial(receipts.publish_signals, core.signals.epoch))


def _counters(core: Core, requests: RequestCounters, receipts: ReceiptPublisher, *, refused: int) -> Mapping[str, int]:
    """Return the counters of `status`."""
    return {
        "requests": requests.requests,
        "requests_malformed": requests.malformed,
        "requests_refused": requests.refused,
        "requests_overloaded": requests.overloaded,
        "requests_dropped": requests.dropped,
        "answers_lost": requests.unanswerable,
        "receipts_published": receipts.counters.receipts,
        "subscriptions_refused": receipts.counters.malformed,
        "subscribers_cut_off": receipts.counters.cut_off,
        "dispatches": core.bus.dispatches,
        "ticks_transient": core.bus.fanout.transient,
        "peers_refused": refused,
        **NOTHING_DONE,
        **({} if core.sessions.made is None else core.sessions.made.counters()),
        **({} if core.flows.made is None else core.flows.made.counters()),
        "signals_stored": core.signals.stored,
        "signals_dropped": core.signals.dropped,
        "facts_merged": core.supervisor.merged,
        **core.hooks.counters(),
        **({} if core.follower is None else core.follower.counters()),
        **core.snapshots.counters(),
        **(core.gateway.as_status() if core.settings.gateway.enabled else {}),
    }
