"""Parts of a broker that few settings ask for: each is imported where it is asked for, and costs nothing elsewhere."""

from lifebus_supervisor.daemon.composition import Core
from lifebus_transports.processes import Commands


def add_configured_clients(core: Core) -> None:
    """Register the commands of `[[clients]]` as callback clients, if there are any."""
    if core.settings.clients:
        from lifebus_supervisor.daemon.command_clients import add_command_clients  # noqa: PLC0415

        add_command_clients(core.settings, core.bus.clients, core.tasks)


async def start_configured_renewals(core: Core) -> None:
    """Start the profiles of `[[renewals]]`, if there are any."""
    if core.settings.renewals:
        from lifebus_supervisor.renewal.composing import start_renewals  # noqa: PLC0415

        await start_renewals(core.settings, core.bus, Commands(core.tasks).run_once, core.tasks)
