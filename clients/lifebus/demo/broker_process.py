"""A broker as a child process, in directories of its own."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from anyio.abc import Process

from lifebus._internal.broker_child import broker_child

_START_S: Final = 20.0


def demo_environment(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which nothing of the user's own lifebus is seen or touched."""
    own = {name: text for name, text in environ.items() if not name.startswith(("LIFEBUS_", "XDG_"))}
    return own | {
        "LIFEBUS_RUNTIME_DIR": str(home / "run"),
        "LIFEBUS_STATE_DIR": str(home / "state"),
        "LIFEBUS_TELEMETRY_ENABLED": "false",  # only the recordings are shown, not the user's own sessions
        "LIFEBUS_TICKS_ENABLED": "false",
        "XDG_CONFIG_HOME": str(home / "config"),
    }


@asynccontextmanager
async def running_broker(home: Path, environment: Mapping[str, str]) -> AsyncGenerator[Process]:
    """Start a broker, yield it when it answers, and stop it.

    Raises:
        TransportError: it does not start; the text holds the end of its log.
    """
    async with broker_child(
        home / "run",
        home / "log",
        environment,
        client_id="demo",
        start_s=_START_S,
        start_new_session=True,  # Ctrl-C reaches only the demo, which then stops the broker in order
    ) as process:
        yield process
