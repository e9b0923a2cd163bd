"""The composition root: ledger, bus and doors in one task group, started in order, stopped in reverse."""

import gc
import os
import random
import resource
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread
import structlog
import zmq
from anyio.abc import TaskGroup

from lifebus_adapters import ADAPTERS
from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.ledger.memory import MemoryLedger
from lifebus_broker.ledger.retention_clock import AgeClock, elapsed_s
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Ledger
from lifebus_broker.routing.bus import Bus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_broker.signals.log import SignalLog
from lifebus_contract import IdSource
from lifebus_supervisor.api.consumers import Consumers
from lifebus_supervisor.api.observations import Observing, open_signals
from lifebus_supervisor.api.service import Service
from lifebus_supervisor.api.snapshots import Saves
from lifebus_supervisor.app_server.intake import AppServerIntake
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.ledger_file import settle_ledger
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.command_clients import add_command_clients
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_supervisor.hook_intake.intake import SOCKET, HookIntake
from lifebus_supervisor.jobs.retention import RetentionTask
from lifebus_supervisor.jobs.state_follower import compose_keeping
from lifebus_supervisor.renewal.composing import start_renewals
from lifebus_supervisor.supervision.composition import compose_supervisor, start_supervision, take_up
from lifebus_supervisor.supervision.driving import drive
from lifebus_supervisor.supervision.reloading import reload_manifests
from lifebus_supervisor.supervision.report import harness_statuses
from lifebus_transports.processes import Commands
from lifebus_transports.runtime_dir import (
    Lock,
    check_socket_path,
    ensure_private_directory,
    hold_lock,
    remove_stale_socket,
    take_runtime_dir,
)
from lifebus_transports.zmq.receipts import ReceiptPublisher
from lifebus_transports.zmq.requests import RequestServer
from lifebus_transports.zmq.zap import UserGate

EXIT_OK: Final = 0
EXIT_HELD: Final = 69
"""Another broker holds the runtime directory, the state directory or the ledger."""
EXIT_IO: Final = 74
"""The ledger's storage failed: nothing more is acknowledged (docs/ledger.md D3)."""
EXIT_SETTINGS: Final = 78

_REQUESTS, _RECEIPTS, _HOOKS = "requests.ipc", "receipts.ipc", "hook.sock"
_SWITCH_S: Final = 0.0005
"""How long a thread may keep the interpreter while the ledger's writer waits for it."""
_GC_THRESHOLD: Final = 20_000
_SWEEP_S: Final = 1.0
_DESCRIPTORS: Final = 65_536
"""libzmq ends the process when it has no descriptor for a connection; 1,024, the usual limit, is soon reached."""
_log = structlog.get_logger("lifebus.daemon")


class Halt:
    """The end of a broker: an event and an exit code.  The first reason counts."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.exit_code = EXIT_OK

    def stop(self, exit_code: int = EXIT_OK) -> None:
        """Ask for the end."""
        if not self.event.is_set():
            self.exit_code = exit_code
            self.event.set()

    def storage_failed(self, fault: Exception) -> None:
        """Stop because nothing can be made durable any more (docs/ledger.md D3)."""
        _log.error("ledger_failed", fault=type(fault).__name__, detail=str(fault)[:200])
        self.stop(EXIT_IO)


class Daemon:
    """A running broker.  `bus` is the broker in this process; `halt` ends it and says how it ended."""

    def __init__(
        self, settings: Settings, bus: Bus, service: Service, halt: Halt, *, signals: SignalLog, consumers: Consumers
    ) -> None:
        self.settings = settings
        self.bus = bus
        self.signals = signals
        self.consumers = consumers
        self.service = service
        self.halt = halt
        self.supervisor = compose_supervisor(settings, bus, ADAPTERS)
        self.keeping = compose_keeping(settings, bus, self.supervisor)
        budget = settings.limits.hook_answer_ms / 1000 * 0.8
        self.observing = Observing(signals, AppServerIntake(bus, self.supervisor), bus.registry)
        service.extend(self.observing.verbs(service))
        service.extend(consumers.verbs())
        self.saves = Saves(settings, bus, self.keeping)
        service.extend(self.saves.verbs(service.later))
        self.hooks = HookIntake(HookCalls(bus, ADAPTERS, budget, supervision=self.supervisor), settings)


async def run(settings: Settings, *, on_ready: Callable[[Daemon], None] | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT, or until its ledger fails; return the exit code.

    Raises:
        LifebusError: it cannot start; ``already_running`` when another broker holds a directory or the ledger.
    """
    async with running(settings) as daemon:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) as signals:
            _log.info("ready", runtime_dir=str(settings.runtime_dir), epoch=daemon.bus.ledger.epoch)
            if on_ready is not None:
                on_ready(daemon)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_on_signal, signals, daemon)
                await daemon.halt.event.wait()
                tasks.cancel_scope.cancel()
    return daemon.halt.exit_code


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Daemon]:
    """Start a broker, yield it when every door is open, and stop it in order.

    Raises:
        LifebusError: it cannot start.
    """
    registry = configured_adapters(settings)
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(take_runtime_dir(settings.runtime_dir))
        _hold_state(settings, stack)  # before any socket is touched: the other lock may have been deleted
        _claim_sockets(settings.runtime_dir, lock)
        halt, fanout = Halt(), Fanout()
        ledger = await _open_ledger(settings, fanout, halt)
        stack.push_async_callback(_close_ledger, ledger)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        signals = await open_signals(settings.signals, ledger)
        daemon = _compose(settings, halt, registry=registry, ledger=ledger, fanout=fanout, tasks=tasks, signals=signals)
        if daemon.keeping is not None:
            fanout.listen(daemon.keeping.note)
            tasks.start_soon(daemon.keeping.run)
        await take_up(daemon.supervisor, daemon.keeping, tasks)
        await daemon.saves.start(fanout, tasks)
        await daemon.consumers.open(fanout)
        add_command_clients(settings, daemon.bus.clients, tasks)
        _open_doors(daemon, stack)
        await start_renewals(settings, daemon.bus, Commands(tasks).run_once, tasks)
        await daemon.hooks.open(tasks)
        if daemon.keeping is not None:
            daemon.keeping.doors_open.set()
        start_supervision(daemon.supervisor, settings, tasks)
        tasks.start_soon(_beacons, daemon)
        tasks.start_soon(_sweeps, daemon)
        tasks.start_soon(signals.enforce_quota)
        _start_retaining(daemon, tasks)
        _settle_process()
        try:
            yield daemon
        finally:
            with anyio.move_on_after(settings.limits.shutdown_ms / 1000 * 0.6, shield=True):
                await _drain(daemon)
                if daemon.keeping is not None:
                    await daemon.keeping.finish()
                if daemon.halt.exit_code == EXIT_OK:
                    await daemon.saves.stop()
            tasks.cancel_scope.cancel()


def _hold_state(settings: Settings, stack: AsyncExitStack) -> None:
    """Be the only one that writes the state directory and the ledger, whatever runtime directory others use."""
    ensure_private_directory(settings.state_dir)
    for path in settings.writer_locks:
        stack.enter_context(hold_lock(path))


def _claim_sockets(directory: Path, lock: Lock) -> None:
    """Check the paths of the doors, and remove what a dead broker left there."""
    for name in (_REQUESTS, _RECEIPTS, SOCKET):
        remove_stale_socket(check_socket_path(directory / name), lock)


def _compose(
    settings: Settings,
    halt: Halt,
    *,
    registry: Registry,
    ledger: Ledger,
    fanout: Fanout,
    tasks: TaskGroup,
    signals: SignalLog,
) -> Daemon:
    """Put the bus on its parts."""
    bus = Bus(
        registry=registry,
        ledger=ledger,
        fanout=fanout,
        ids=IdSource(lambda: time.time_ns() // 1_000_000, random.Random(os.urandom(32)).randbytes),  # noqa: S311  names
        clock=time.time,
        tasks=tasks,
        max_dispatches=settings.limits.dispatches,
    )
    service = Service(bus, settings, tasks)
    consumers = Consumers(ConsumerTable(ledger, tasks, time.monotonic), service.later, time.monotonic)
    return Daemon(settings, bus, service, halt, signals=signals, consumers=consumers)


async def _open_ledger(settings: Settings, fanout: Fanout, halt: Halt) -> Ledger:
    if settings.ledger.backend == "memory":
        return MemoryLedger(entropy=os.urandom, committed=fanout.publish)
    await anyio.to_thread.run_sync(settle_ledger, settings)
    ledger = await SqliteLedger.open(
        settings.ledger_path, entropy=os.urandom, committed=fanout.publish, failed=halt.storage_failed
    )
    ledger.bound(keep=settings.retention.keep_mb * 1_048_576, spare=settings.retention.spare_mb * 1_048_576)
    return ledger


def _open_doors(daemon: Daemon, stack: AsyncExitStack) -> None:
    """Bind the ZeroMQ doors, the gate that knows the peers first."""
    directory = daemon.settings.runtime_dir
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stack.callback(context.destroy, linger=200)
    gate = UserGate(context, {os.geteuid()})
    stack.callback(gate.close)
    addresses = [directory / _REQUESTS, directory / _RECEIPTS]
    for path in addresses:
        stack.callback(path.unlink, missing_ok=True)
    receipts = ReceiptPublisher(context, f"ipc://{addresses[1]}", first_beacon=time.time_ns() // 1_000_000)
    stack.callback(receipts.close)
    requests = RequestServer(context, f"ipc://{addresses[0]}", daemon.service.handle)
    stack.callback(requests.close)
    daemon.service.attach(requests, receipts)
    daemon.service.count_more = lambda: {
        "peers_refused": gate.refused,
        "facts_merged": daemon.supervisor.merged,
        **daemon.hooks.counters(),
        **daemon.observing.counters(),
        **({} if daemon.keeping is None else daemon.keeping.counters()),
        **daemon.saves.counters(),
    }
    epoch = daemon.bus.ledger.epoch
    daemon.bus.fanout.listen(lambda rows: receipts.publish(epoch, rows))
    daemon.bus.fanout.listen(daemon.supervisor.note)
    daemon.signals.listen(partial(receipts.publish_signals, daemon.signals.epoch))
    daemon.service.attach_supervision(
        partial(drive, daemon.supervisor, daemon.bus),
        lambda: harness_statuses(daemon.supervisor, time.monotonic(), time.time()),
    )
    daemon.bus.fanout.listen_transient(lambda row: receipts.publish_transient(epoch, row))


def _start_retaining(daemon: Daemon, tasks: TaskGroup) -> None:
    """Drop receipts that need not be kept, where there is a file to drop them from."""
    ledger, settings, keeping = daemon.bus.ledger, daemon.settings, daemon.keeping
    if isinstance(ledger, SqliteLedger) and keeping is not None:
        retaining = RetentionTask(
            settings.retention,
            ledger,
            settings.ledger_path,
            base_at=keeping.dump_at,
            losers=partial(_after_cut, daemon),
            clock=AgeClock(time.time, elapsed_s, ledger.newest_epoch_s),
        )
        daemon.service.tell_retention = retaining.report
        daemon.service.extend({"prune": partial(daemon.service.later, "prunes", retaining.prune)})
        tasks.start_soon(retaining.run)


async def _after_cut(daemon: Daemon) -> Sequence[str]:
    """Save anew, since what was saved may not be provable any more; return the consumers that lost something."""
    daemon.saves.ask()
    return await daemon.consumers.skip_pruned()


async def _beacons(daemon: Daemon) -> None:
    """Publish the heads, so that the loss of a last message is noticed too (docs/wire-protocol.md, "The beacon")."""
    while True:
        await anyio.sleep(daemon.settings.limits.beacon_ms / 1000)
        _publish_beacon(daemon)


async def _sweeps(daemon: Daemon) -> None:
    while True:
        await anyio.sleep(_SWEEP_S)
        daemon.service.workers.sweep()
        daemon.consumers.sweep()


def _publish_beacon(daemon: Daemon, *, closing: bool = False) -> None:
    status = daemon.bus.ledger.status()
    daemon.service.receipts.publish_beacon(
        status.epoch,
        head=status.head,
        floor=status.floor,
        sessions=daemon.bus.fanout.take_changed(),
        closing=closing,
    )
    daemon.service.receipts.publish_signal_beacon(
        daemon.signals.epoch, threads=daemon.signals.take_changed(), closing=closing
    )


async def _drain(daemon: Daemon) -> None:
    """Take nothing new, finish what was taken, say goodbye."""
    daemon.service.draining = True
    while _unfinished(daemon):  # noqa: ASYNC110  the writer is a thread
        await anyio.sleep(0.01)
    await anyio.lowlevel.checkpoint()  # the acknowledgements of the last commit are sent in this turn of the loop
    _publish_beacon(daemon, closing=True)


def _unfinished(daemon: Daemon) -> bool:
    """Whether something taken is not durable yet; once the ledger has failed, nothing will be."""
    if daemon.halt.exit_code == EXIT_IO:
        return False
    return bool(daemon.bus.dispatches or daemon.bus.ledger.status().queued)


async def _close_ledger(ledger: Ledger) -> None:
    with anyio.move_on_after(1.5, shield=True):
        await ledger.aclose()


async def _stop_on_signal(signals: AsyncIterator[signal.Signals], daemon: Daemon) -> None:
    """Stop in order at the first signal, the next one ends the process, the ledger as safe; SIGUSR1 reads manifests."""
    async for number in signals:
        if number is signal.SIGUSR1:
            await reload_manifests(daemon.settings, daemon.bus, daemon.supervisor)
            continue
        _log.info("stopping", signal=number.name)
        daemon.halt.stop()


def _settle_process() -> None:
    """Let the writer thread have the interpreter soon, spare the collector what stays, have room for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < (wanted := _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 100)
