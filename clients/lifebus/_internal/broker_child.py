"""A broker as a child process of ours: started, waited for until it answers, stopped."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from lifebus.client import connect
from lifebus_contract import TransportError

COMMAND: Final = (sys.executable, "-m", "lifebus", "up")
"""What is run; the environment says where the broker's directories are."""

_STOP_S: Final = 8.0
_RETRY_S: Final = 0.05
_TAIL: Final = 1_500


@asynccontextmanager
async def broker_child(
    runtime_dir: Path,
    log: Path,
    environment: Mapping[str, str],
    *,
    client_id: str,
    start_s: float,
    start_new_session: bool,
) -> AsyncGenerator[Process]:
    """Run a broker while the block lasts, and yield it when it answers; what it logs is added to `log`.

    Without `start_new_session` it is in our process group: what ends the one ends the other.

    Raises:
        TransportError: it does not start; the text holds the end of its log.
    """
    with log.open("ab") as output:
        process = await anyio.open_process(
            COMMAND,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=environment,
            start_new_session=start_new_session,
        )
    try:
        if not await answers(lambda: process.returncode is None, runtime_dir, client_id=client_id, start_s=start_s):
            raise not_started(log)
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def answers(is_running: Callable[[], bool], runtime_dir: Path, *, client_id: str, start_s: float) -> bool:
    """Wait until a broker answers; return False where it ended, or took too long."""
    with anyio.move_on_after(start_s):
        while is_running():
            try:
                async with connect(client_id, runtime_dir=runtime_dir, timeout=1.0):
                    return True
            except TransportError:
                await anyio.sleep(_RETRY_S)
    return False


def not_started(log: Path) -> TransportError:
    """Return the error of a broker that did not start, with the end of its log."""
    return TransportError(f"the broker did not start: {log.read_text(errors='replace')[-_TAIL:]}")


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    # In order first: how it ends is looked at.
    with anyio.move_on_after(_STOP_S):
        await process.wait()
        return
    process.kill()
    await process.wait()
