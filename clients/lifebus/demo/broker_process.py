"""A broker as a child process, in directories of its own."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from lifebus.client import connect
from lifebus_contract import TransportError

_START_S: Final = 20.0
_STOP_S: Final = 8.0
_RETRY_S: Final = 0.05


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
    log = home / "log"
    with log.open("wb") as output:
        process = await anyio.open_process(
            [sys.executable, "-m", "lifebus", "up"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches only the demo, which then stops the broker in order
        )
    try:
        if not await _answers(process, home / "run"):
            raise TransportError(f"the broker did not start: {log.read_text(errors='replace')[-1500:]}")
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _answers(process: Process, runtime_dir: Path) -> bool:
    """Wait until the broker answers; return False where it ended, or took too long."""
    with anyio.move_on_after(_START_S):
        while process.returncode is None:
            try:
                async with connect("demo", runtime_dir=runtime_dir, timeout=1.0):
                    return True
            except TransportError:
                await anyio.sleep(_RETRY_S)
    return False


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    # In order first: the check of its exit code is one of the claims.
    with anyio.move_on_after(_STOP_S):
        await process.wait()
        return
    process.kill()
    await process.wait()
