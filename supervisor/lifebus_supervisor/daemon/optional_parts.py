"""Parts of a broker that few ask for: each is imported where it is asked for, and costs nothing elsewhere."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import anyio.to_thread

from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.composition import Core, Daemon
from lifebus_supervisor.daemon.parts import Footprint, Part
from lifebus_supervisor.extensions.root_paths import has_any
from lifebus_supervisor.runtime.inbox.settings import InboxSettings

SESSION_STREAMS: Final = Footprint(
    # Of signals `observed`, and of actions `actions`, stand beside streams of their own.
    names=("observed", "session-marks", "actions", "synthesis-due", "extension-trust", "extension-audit"),
    prefixes=("transcript/", "job/"),
)
"""What work on sessions leaves in the journal, and what it is made from."""

FLOW_STREAMS: Final = Footprint(names=(), prefixes=("run/", "question/"))
"""The same of flows and the inbox."""


async def needed_at_start(core: Core) -> list[Part[Any]]:
    """Return the parts that are needed from the start on; others have nothing to act on before their first verb.

    Raises:
        LifebusError: the journal cannot be read.
    """
    settings, journal = core.settings, core.bus.ledger.journal
    extends = await anyio.to_thread.run_sync(has_any, settings.extensions, settings.runtime_dir)
    asks = (
        (core.sessions, extends, SESSION_STREAMS),
        (core.flows, settings.inbox != InboxSettings(), FLOW_STREAMS),
    )
    return [part for part, is_asked_for, streams in asks if is_asked_for or await streams.is_in(journal)]


def add_configured_clients(core: Core) -> None:
    """Register the commands of `[[clients]]` as callback clients, if there are any."""
    if core.settings.clients:
        from lifebus_supervisor.daemon.command_clients import add_command_clients  # noqa: PLC0415

        add_command_clients(core.settings, core.bus.clients, core.tasks)


async def start_configured_renewals(core: Core) -> None:
    """Start the profiles of `[[renewals]]`, if there are any."""
    if core.settings.renewals:
        from lifebus_supervisor.renewal.composing import start_renewals  # noqa: PLC0415
        from lifebus_transports.processes.once import Commands  # noqa: PLC0415

        await start_renewals(core.settings, core.bus, Commands(core.tasks).run_once, core.tasks)


def configured_gateway(daemon: Daemon) -> AbstractAsyncContextManager[None]:
    """Return what serves the gateway, if the settings ask for one.

    Raises:
        ConfigurationError: it cannot start as the settings say (when it is entered).
    """
    if not daemon.settings.gateway.enabled:
        return nullcontext()
    from lifebus_supervisor.daemon.gateway import open_gateway  # noqa: PLC0415

    return open_gateway(daemon)


def configured_rules(settings: Settings) -> AbstractAsyncContextManager[None]:
    """Return what carries out the `[[notifications]]`, if there are any."""
    if not settings.notifications:
        return nullcontext()
    from lifebus_supervisor.daemon.notification_rules import running_rules  # noqa: PLC0415

    return running_rules(settings)


def start_configured_metrics(daemon: Daemon) -> None:
    """Write the page of all metrics into the file of `[metrics]`, if there is one."""
    if (file := daemon.settings.metrics_file) is not None:
        from lifebus_supervisor.metrics.text_file import MetricsFile  # noqa: PLC0415

        daemon.tasks.start_soon(MetricsFile(file, daemon.settings.metrics.every_s, daemon.metrics).run)
