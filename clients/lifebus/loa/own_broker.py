"""A broker of the runtime's own, in the folder that it was given for its state."""

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

_START_S: Final = 60.0
_STOP_S: Final = 8.0
_RETRY_S: Final = 0.05


@asynccontextmanager
async def own_broker(folder: Path) -> AsyncGenerator[Path]:
    """Run a broker while the block lasts, and yield its runtime directory.

    It is in the process group of its runtime: what kills the one kills the other.

    Raises:
        TransportError: it does not start; the text holds the end of its log.
    """
    runtime_dir, log = folder / "run", folder / "broker.log"
    with log.open("ab") as output:
        process = await anyio.open_process(
            [sys.executable, "-m", "lifebus", "up"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=_environment(folder, os.environ),
        )
    try:
        if not await _answers(process, runtime_dir):
            raise TransportError(f"the broker did not start: {log.read_text(errors='replace')[-1_000:]}")
        yield runtime_dir
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


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


async def _answers(process: Process, runtime_dir: Path) -> bool:
    """Wait until the broker answers; return False where it ended, or took too long."""
    with anyio.move_on_after(_START_S):
        while process.returncode is None:
            try:
                async with connect("loa", runtime_dir=runtime_dir, timeout=1.0):
                    return True
            except TransportError:
                await anyio.sleep(_RETRY_S)
    return False


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(_STOP_S):
        await process.wait()
        return
    process.kill()
    await process.wait()
