"""What commands work with: a connection to the broker, or the settings where no broker is asked."""

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lifebus._internal.log import FACTS
from lifebus.cli.log_library import load_log_library
from lifebus.cli.terminal import color_wanted, say

if TYPE_CHECKING:
    from lifebus.cli.arguments import ConnectionOptions
    from lifebus.client import Bus
    from lifebus_supervisor.configuration.settings import Settings

T = TypeVar("T")

CLIENT_ID: Final = "lifebus-cli"
"""The client under whose name the command line records."""


class _CommandLog(logging.Handler):
    """Writes what the library logs in the form of everything else that a command logs."""

    def emit(self, record: logging.LogRecord) -> None:
        import structlog  # noqa: PLC0415  most commands never log anything

        nothing: dict[str, Any] = {}
        event, facts = getattr(record, FACTS, (record.getMessage(), nothing))
        structlog.get_logger(record.name).log(record.levelno, event, exc_info=record.exc_info, **facts)


_COMMAND_LOG: Final = _CommandLog()


def configure_logs() -> None:
    """Set the logs of a client up: warnings, readable, on stderr."""
    load_log_library()
    from lifebus_supervisor.configuration.settings import LogSettings  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    if not os.environ.get("LIFEBUS_TRACEBACK"):
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # its complaints are tracebacks
    logging.getLogger("lifebus").addHandler(_COMMAND_LOG)  # the same one again is not added
    configure(LogSettings(level="warning", format="console"), color=color_wanted(sys.stderr))


def on_bus(
    connection: "ConnectionOptions",
    work: "Callable[[Bus], Awaitable[T]]",
    *,
    client_id: str = CLIENT_ID,
    lasting: bool = False,
    tell: Callable[[bool], None] | None = None,
) -> T:
    """Connect, do the work, disconnect, and return what it returned; end within a second where the broker is gone.

    `lasting` work outlives its broker: then it is said that there is none, and when there is one again; `tell` gets
    that instead, True for the first.

    Raises:
        LifebusError: no broker answers, or the work failed.
    """
    # Imported here: `--help` and completions must not wait for the event loop and ZeroMQ.
    import anyio  # noqa: PLC0415

    from lifebus._internal.liveness import across_brokers, while_broker_lives  # noqa: PLC0415
    from lifebus.client import connect  # noqa: PLC0415
    from lifebus_transports.directories import default_runtime_dir  # noqa: PLC0415

    configure_logs()
    directory = connection.runtime_dir or default_runtime_dir()

    async def connected() -> T:
        async with connect(client_id, runtime_dir=directory, timeout=connection.seconds) as bus:
            if lasting:
                return await across_brokers(directory, partial(work, bus), tell or partial(_tell, directory))
            # Around all that the command asks and reads; what takes long is watched more closely by its connection.
            return await while_broker_lives(directory, partial(work, bus))

    return anyio.run(connected)


def _tell(directory: Path, gone: bool) -> None:
    now = "is gone; waiting for another one" if gone else "runs again"
    say(f"the broker at {directory} {now}", color="yellow" if gone else "dim")


def present_settings() -> "Settings":
    """Return the settings of the environment and the configuration file.

    Raises:
        LifebusError: they contradict themselves or cannot be read.
    """
    load_log_library()
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415  the supervisor's half costs start-up time

    return load()[0]
