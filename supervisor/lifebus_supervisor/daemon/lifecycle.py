"""The life of a broker: its parts start in order, run until something halts them, and stop in reverse."""

import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from lifebus_broker.routing.fan_out import Fanout
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.composition import Core, Daemon, compose_core, compose_daemon
from lifebus_supervisor.daemon.halt import EXIT_IO, EXIT_OK, Halt
from lifebus_supervisor.daemon.lines import open_line_socket
from lifebus_supervisor.daemon.optional_parts import (
    add_configured_clients,
    configured_gateway,
    configured_rules,
    needed_at_start,
    start_configured_metrics,
    start_configured_renewals,
)
from lifebus_supervisor.daemon.periodic import publish_beacon, publish_beacons, sweep_leases
from lifebus_supervisor.daemon.process import set_up_process
from lifebus_supervisor.daemon.sockets import claim_sockets
from lifebus_supervisor.daemon.storage import close_ledger, hold_state, open_ledger, open_signals
from lifebus_supervisor.supervision.composition import recover_sessions, start_supervision
from lifebus_supervisor.supervision.reloading import reload_manifests
from lifebus_transports.processes.ignored import not_ignored
from lifebus_transports.runtime_dir import take_runtime_dir

# Which part of the time for stopping may go to what is not durable yet; the rest is for closing
_DRAIN_SHARE: Final = 0.6

_log = structlog.get_logger("lifebus.daemon")


async def run(settings: Settings, *, on_ready: Callable[[Daemon], None] | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT, or until its ledger fails; return the exit code.

    SIGINT is left alone where whoever started the broker has it ignored.

    Raises:
        LifebusError: it cannot start; ``already_running`` when another broker holds a directory or the ledger.
    """
    async with running(settings) as daemon:
        handled = (signal.SIGTERM, signal.SIGUSR1, *not_ignored(signal.SIGINT))
        with anyio.open_signal_receiver(*handled) as signals:
            _log.info("ready", runtime_dir=str(settings.runtime_dir), epoch=daemon.bus.ledger.epoch)
            if on_ready is not None:
                on_ready(daemon)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_handle_signals, signals, daemon)
                await daemon.halt.event.wait()
                tasks.cancel_scope.cancel()
    return daemon.halt.exit_code


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Daemon]:
    """Start a broker, yield it when every socket is open, and stop it in order.

    Raises:
        LifebusError: it cannot start.
    """
    registry = configured_adapters(settings)
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(take_runtime_dir(settings.runtime_dir))
        hold_state(settings, stack)  # before any socket is touched: the other lock may have been deleted
        # Only under both locks may a socket's file be taken for a dead broker's and removed.
        claim_sockets(settings.runtime_dir, lock)
        halt, fanout = Halt(), Fanout()
        ledger = await open_ledger(settings, fanout, halt)
        # Pushed before the task group: the ledger closes after everything that writes into it has ended.
        stack.push_async_callback(close_ledger, ledger)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        signals = await open_signals(settings, ledger, stack)
        core = compose_core(settings, halt, registry, ledger=ledger, fanout=fanout, signals=signals, tasks=tasks)
        stack.callback(core.flows.close)
        await _recover(core)
        daemon = compose_daemon(core, stack)
        await _start(daemon)
        try:
            async with configured_gateway(daemon), configured_rules(settings):
                # Last, when everything that stays has been made and can be frozen.
                set_up_process()
                yield daemon
        finally:
            # Shielded: the cancellation that stops the broker must not cut the last commit short.
            with anyio.move_on_after(settings.limits.shutdown_ms / 1000 * _DRAIN_SHARE, shield=True):
                await _stop(daemon)
            tasks.cancel_scope.cancel()


async def _recover(core: Core) -> None:
    """Go on where the broker before stopped, before anybody can ask or report something."""
    fanout, tasks, follower = core.bus.fanout, core.tasks, core.follower
    # The follower listens to commits before anybody can make one, so that it misses none.
    if follower is not None:
        fanout.listen(follower.on_commit)
        tasks.start_soon(follower.run)
    await recover_sessions(core.supervisor, follower, tasks)
    await core.snapshots.start(fanout, tasks)
    await core.consumers.open(fanout)
    for part in await needed_at_start(core):
        await part.load()
    add_configured_clients(core)


async def _start(daemon: Daemon) -> None:
    """Open the hook socket behind the others, then start what runs beside."""
    tasks, settings = daemon.tasks, daemon.settings
    await tasks.start(open_line_socket, daemon.api, settings.runtime_dir)
    await start_configured_renewals(daemon)
    # The spool is drained before the socket opens: its calls are older than any that come in now.
    await daemon.hooks.open(tasks)
    # A long history is read only now, so that hooks do not wait for it.
    if daemon.follower is not None:
        daemon.follower.is_serving.set()
    start_supervision(daemon.supervisor, settings, tasks)
    await daemon.flows.start()
    await daemon.sessions.start()
    tasks.start_soon(daemon.corrector.run)
    tasks.start_soon(publish_beacons, daemon)
    tasks.start_soon(sweep_leases, daemon)
    tasks.start_soon(daemon.signals.enforce_quota)
    start_configured_metrics(daemon)
    for job in (daemon.retention, daemon.scrubber, daemon.backups):
        if job is not None:
            tasks.start_soon(job.run)


async def _stop(daemon: Daemon) -> None:
    """Take nothing new, finish what was taken, announce the end, and keep what the next start can use."""
    # Before anything is awaited: what comes in from here on is refused as busy and asked again.
    daemon.api.stopping = True
    daemon.flows.stop()
    daemon.sessions.stop()
    while _is_unfinished(daemon):  # noqa: ASYNC110  the writer is a thread
        await anyio.sleep(0.01)
    await anyio.lowlevel.checkpoint()  # the acknowledgements of the last commit are sent in this turn of the loop
    publish_beacon(daemon, closing=True)
    if daemon.follower is not None:
        await daemon.follower.finish()
    # After a failure of the storage the snapshot could claim what was never made durable.
    if daemon.halt.exit_code == EXIT_OK:
        await daemon.snapshots.stop()


def _is_unfinished(daemon: Daemon) -> bool:
    """Whether something taken is not durable yet; once the ledger has failed, nothing will be."""
    if daemon.halt.exit_code == EXIT_IO:
        return False
    is_writing = daemon.bus.dispatches or daemon.bus.ledger.status().queued or daemon.corrector.is_pending
    return bool(is_writing or daemon.flows.is_finishing or daemon.sessions.is_finishing)


async def _handle_signals(signals: AsyncIterator[signal.Signals], daemon: Daemon) -> None:
    """Stop in order at the first signal, the next one ends the process, the ledger as safe; SIGUSR1 reads manifests."""
    async for number in signals:
        # Not SIGHUP: a terminal that closes sends it, and a broker must end then.
        if number is signal.SIGUSR1:
            await reload_manifests(daemon.settings, daemon.bus, daemon.supervisor)
            continue
        # Before it is said: who reads that the broker stops meets one that takes nothing new.
        daemon.api.stopping = True
        daemon.halt.stop()
        _log.info("stopping", signal=number.name)
