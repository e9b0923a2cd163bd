"""Supervision put together from settings, and its tasks: recovery, ticks, and early passes when files change."""

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_adapters.harness import Harness
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_broker.durations import Durations
from lifebus_broker.routing.bus import EventBus
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_supervisor.supervision.distrusted_hooks import DistrustedHooks
from lifebus_supervisor.supervision.environment import Environment, NothingDeferred, SupervisorLimits
from lifebus_supervisor.supervision.installed_hooks import InstalledHooks
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.supervision.ticks import WakeSignal, run_ticks, settle_ends
from lifebus_supervisor.tailing.events import FileUpdate, TailedFile
from lifebus_supervisor.tailing.tailer import Tailer
from lifebus_transports.directories import home_directory
from lifebus_transports.processes.identity import is_alive

_RECOVERY_S: Final = 0.2
"""How long servers stay closed while open sessions are recovered; what takes longer goes on while they serve."""


class NoTelemetry:
    """Stands for telemetry that is not to be read."""

    def follow(self, adapter_id: str, session: str, path: str) -> bool:  # noqa: ARG002  as the protocol has it
        """Follow nothing."""
        return False

    def forget(self, adapter_id: str, session: str) -> None:
        """Do nothing."""

    async def poll(self) -> Sequence[FileUpdate]:
        """Return nothing."""
        return ()

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:  # noqa: ARG002
        """Return nothing."""
        return ()

    def files(self) -> Sequence[TailedFile]:
        """Return nothing."""
        return ()

    async def changes(self) -> AsyncIterator[None]:
        """End at once."""
        never: tuple[None, ...] = ()
        for change in never:
            yield change


def compose_supervisor(
    settings: Settings, bus: EventBus, adapters: Mapping[str, Harness], follower: StateFollowerTask | None
) -> Supervisor:
    """Return the supervisor of a bus, with the telemetry that the settings ask for.

    Its monitors begin with the state that the `follower` has, where there is one.
    """
    telemetry: Tailer | NoTelemetry = NoTelemetry()
    surroundings = Surroundings(home=str(home_directory()), environ=dict(os.environ))
    if settings.telemetry.enabled:
        telemetry = Tailer(
            {name: adapter.sources for name, adapter in adapters.items()},
            surroundings,
            uid=os.geteuid(),
            now=time.time,
            discover=settings.telemetry.discover,
        )
    limits = SupervisorLimits(
        interval_s=settings.ticks.interval_ms / 1000,
        thresholds=settings.pressure,
        silence=settings.silence,
        abandon_s=settings.silence.abandon_s,
        idle_s=settings.silence.idle_s,
        settle_s=settings.ticks.settle_ms / 1000,
    )
    environment = Environment(
        now=time.monotonic,
        epoch=time.time,
        ticks=Durations(time.monotonic),
        is_alive=is_alive,
        hooks_installed=InstalledHooks(settings.state_dir),
        hooks_distrusted=DistrustedHooks(adapters, surroundings),
    )
    known = None if follower is None else follower.known
    monitors = MonitorTable(bus.ledger, bus.capabilities.apply, environment.epoch, known)
    return Supervisor(bus, telemetry, limits, environment, monitors, deferred=NothingDeferred(), wake=WakeSignal())


async def recover_sessions(supervisor: Supervisor, follower: StateFollowerTask | None, tasks: TaskGroup) -> None:
    """Supervise the sessions that are open, once their state is known, so that new callers see what they have lost."""
    done = anyio.Event()

    async def recover() -> None:
        # Before the follower is there, each session would be read from its first receipt.
        if follower is not None:
            await follower.caught_up.wait()
        await supervisor.recover()
        done.set()

    tasks.start_soon(recover)
    with anyio.move_on_after(_RECOVERY_S):
        # A long way to the newest state must not keep the servers closed; recovery goes on beside them.
        if follower is None or await follower.wait_if_near():
            await done.wait()


def start_supervision(supervisor: Supervisor, settings: Settings, tasks: TaskGroup) -> None:
    """Tick at each interval, and make early passes where files change."""
    if not settings.ticks.enabled:
        tasks.start_soon(settle_ends, supervisor, time.monotonic)
        return
    tasks.start_soon(_tick_for_ever, supervisor, settings)
    if settings.telemetry.wake:
        tasks.start_soon(_wake_on_changes, supervisor)


async def _tick_for_ever(supervisor: Supervisor, settings: Settings) -> None:
    # A pass at once, and not after the first interval: what a session writes until then would be taken for old.
    supervisor.wake.set()
    interval_s = settings.ticks.interval_ms / 1000
    await run_ticks(supervisor, interval=interval_s, now=time.monotonic, wait=supervisor.wake.wait)


async def _wake_on_changes(supervisor: Supervisor) -> None:
    async for _ in supervisor.telemetry.changes():
        supervisor.wake.set()
