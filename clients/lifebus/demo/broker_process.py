"""A broker as a child process, in directories of its own."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from lifebus_contract import TransportError

_START_S: Final = 20.0
_STOP_S: Final = 8.0


def demo_environment(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which nothing of the user's own lifebus is seen or touched."""
    own = {name: text for name, text in environ.items() if not name.startswith(("LIFEBUS_", "XDG_"))}
    return own | {
        "LIFEBUS_RUNTIME_DIR": str(home / "run"),
        "LIFEBUS_STATE_DIR": str(home / "state"),
        "LIFEBUS_LOG_FORMAT": "json",
        "LIFEBUS_TELEMETRY_ENABLED": "false",  # the recordings are the show, not the user's own sessions
        "LIFEBUS_TICKS_ENABLED": "false",
        "XDG_CONFIG_HOME": str(home / "config"),
    }


class BrokerProcess:
    """The child, once it has said that it is ready.  `exit_code` is None while it runs."""

    def __init__(self, process: Process) -> None:
        self.ready = anyio.Event()
        self.exit_code: int | None = None
        self._process = process
        self._last: deque[str] = deque(maxlen=5)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def watch(self) -> None:
        """Read its log until it ends, and note when it is ready."""
        if self._process.stderr is None:
            return
        pending = ""
        async for text in TextReceiveStream(self._process.stderr, errors="replace"):
            *lines, pending = (pending + text).split("\n")
            for line in lines:
                self._note(line)
        self.exit_code = await self._process.wait()
        self.ready.set()

    async def stop(self) -> int:
        """Ask it to stop, wait, and return its exit code; kill it where it does not."""
        if self._process.returncode is None:
            self._process.terminate()
        with anyio.move_on_after(_STOP_S, shield=True):
            return await self._process.wait()
        self._process.kill()
        return await self._process.wait()

    async def wait_ready(self) -> None:
        """Wait until its doors are open.

        Raises:
            TransportError: it ended, or took too long; the text has its last words.
        """
        with anyio.move_on_after(_START_S):
            await self.ready.wait()
        if not self.ready.is_set() or self.exit_code is not None:
            raise TransportError("the broker did not start: " + " | ".join(self._last), code="no_broker")

    def _note(self, line: str) -> None:
        self._last.append(line[:300])
        try:
            event = msgspec.json.decode(line, type=dict[str, object]).get("event")
        except msgspec.DecodeError:
            return
        if event == "ready":
            self.ready.set()


@asynccontextmanager
async def running_broker(environment: Mapping[str, str]) -> AsyncGenerator[BrokerProcess]:
    """Start a broker, yield it when it is ready, and stop it.

    Raises:
        TransportError: it does not start.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", "lifebus", "up"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    broker = BrokerProcess(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.watch)
        try:
            await broker.wait_ready()
            yield broker
        finally:
            with anyio.CancelScope(shield=True):
                await broker.stop()
            tasks.cancel_scope.cancel()
