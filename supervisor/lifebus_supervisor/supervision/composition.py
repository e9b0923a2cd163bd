"""Supervision put together from settings, and its tasks: recovery, ticks, and waking up when files change."""

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_adapters.adapter import Adapter
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_broker.routing.bus import Bus
from lifebus_broker.state.degradation import SilenceLimits
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_supervisor.supervision.environment import Environment, SupervisorLimits
from lifebus_supervisor.supervision.installed_hooks import InstalledHooks
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.supervision.ticks import Waker, run_ticks
from lifebus_supervisor.tailing.events import Found, WatchedFile
from lifebus_supervisor.tailing.watcher import Watcher
from lifebus_transports.directories import home_directory
from lifebus_transports.processes.identity import is_alive

_TAKE_UP_S: Final = 0.2
"""How long doors stay shut while what was recorded is read; what takes longer is read with open doors."""


class NoFiles:
    """A watcher where telemetry is not to be read."""

    def follow(self, adapter_id: str, session: str, path: str) -> bool:  # noqa: ARG002  as the protocol has it
        """Watch nothing."""
        return False

    def forget(self, adapter_id: str, session: str) -> None:
        """Have nothing to forget."""

    async def poll(self) -> Sequence[Found]:
        """Return nothing."""
        return ()

    def files(self) -> Sequence[WatchedFile]:
        """Return nothing."""
        return ()

    async def changes(self) -> AsyncIterator[None]:
        """End at once: nothing is watched."""
        never: tuple[None, ...] = ()
        for change in never:
            yield change


def compose_supervisor(settings: Settings, bus: Bus, adapters: Mapping[str, Adapter]) -> Supervisor:
    """Return the supervisor of a bus, with the watcher that the settings ask for."""
    watcher: Watcher | NoFiles = NoFiles()
    if settings.telemetry.enabled:
        watcher = Watcher(
            {name: adapter.sources for name, adapter in adapters.items()},
            Surroundings(home=str(home_directory()), environ=dict(os.environ)),
            uid=os.geteuid(),
            now=time.time,
            discover=settings.telemetry.discover,
        )
    silence = settings.silence
    limits = SupervisorLimits(
        interval_s=settings.ticks.interval_ms / 1000,
        thresholds=settings.pressure,
        silence=SilenceLimits(
            missing_polls=silence.missing_polls,
            unreadable_records=silence.unreadable_records,
            hook_ticks=silence.hook_ticks,
            app_s=silence.app_s,
        ),
        abandon_s=silence.abandon_s,
    )
    world = Environment(
        now=time.monotonic,
        epoch=time.time,
        is_alive=is_alive,
        hooks_installed=InstalledHooks(settings.state_dir),
    )
    return Supervisor(bus, watcher, limits, world)


async def take_up(supervisor: Supervisor, keeping: StateFollowerTask | None, tasks: TaskGroup) -> None:
    """Take up the open sessions where the keeper has them, so that whoever comes in sees what they have lost."""
    done = anyio.Event()

    async def recover() -> None:
        if keeping is not None:
            await keeping.taken_up.wait()
        await supervisor.recover()
        done.set()

    tasks.start_soon(recover)
    with anyio.move_on_after(_TAKE_UP_S):
        if keeping is None or await keeping.wait_if_near():
            await done.wait()


def start_supervision(supervisor: Supervisor, settings: Settings, tasks: TaskGroup) -> None:
    """Tick, and look early where files change."""
    waker = Waker()
    supervisor.wake = waker.wake
    if not settings.ticks.enabled:
        return
    tasks.start_soon(_tick_for_ever, supervisor, settings, waker)
    if settings.telemetry.wake:
        tasks.start_soon(_wake_on_changes, supervisor, waker)


async def _tick_for_ever(supervisor: Supervisor, settings: Settings, waker: Waker) -> None:
    await run_ticks(supervisor, interval=settings.ticks.interval_ms / 1000, now=time.monotonic, wait=waker.wait)


async def _wake_on_changes(supervisor: Supervisor, waker: Waker) -> None:
    async for _ in supervisor.watcher.changes():
        waker.wake()
