"""A broker of the runtime's own, in the folder that it was given for its state."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lifebus._internal.broker_child import broker_child

_START_S: Final = 60.0


@asynccontextmanager
async def own_broker(folder: Path) -> AsyncGenerator[Path]:
    """Run a broker while the block lasts, and yield its runtime directory.

    It is in the process group of its runtime: what kills the one kills the other.

    Raises:
        TransportError: it does not start; the text holds the end of its log.
    """
    runtime_dir = folder / "run"
    async with broker_child(
        runtime_dir,
        folder / "broker.log",
        _environment(folder, os.environ),
        client_id="loa",
        start_s=_START_S,
        start_new_session=False,
    ):
        yield runtime_dir


def _environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which nothing of the user's own lifebus is seen or touched."""
    others = {name: text for name, text in environ.items() if not name.startswith("LIFEBUS_")}
    return others | {
        "LIFEBUS_RUNTIME_DIR": str(folder / "run"),
        "LIFEBUS_STATE_DIR": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        # Harnesses of the user belong to the user's broker.
        "LIFEBUS_TELEMETRY_ENABLED": "false",
    }
