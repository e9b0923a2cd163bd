"""A broker as a process of its own, for tests that kill, stop or starve it.

The child reads its settings from the environment as `lifebus up` does, says through a pipe when its doors are open,
and logs to a file in its directory.
"""

import asyncio
import os
import resource
import select
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import psutil

from support.fork_server import Forked, fork_server
from support.patience import PATIENCE_S


class BrokerProcess:
    """A started broker.  Every signal goes to its own process id."""

    def __init__(self, process: Forked, directory: Path, ready: int) -> None:
        self.directory = directory
        self._process = process
        self._ready = ready

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runtime_dir(self) -> Path:
        return self.directory / "run"

    @property
    def ledger_path(self) -> Path:
        return self.directory / "state" / "ledger.db"

    @property
    def log(self) -> str:
        """Everything that the newest broker in this directory has logged."""
        return (self.directory / "log").read_text(errors="backslashreplace")

    @property
    def memory(self) -> int:
        """Its resident memory, in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def descriptors(self) -> int:
        """How many file descriptors it has open."""
        return int(psutil.Process(self.pid).num_fds())

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Signal it, if it still runs."""
        self._process.send_signal(number)

    def limit_file_size(self, limit: int) -> None:
        """Let no file of the broker grow beyond the limit from now on: a write beyond it fails."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    async def ready(self) -> bool:
        """Wait until its doors are open; False when it ended before that."""
        return await asyncio.to_thread(self._wait_ready)

    async def ended(self, patience: float = PATIENCE_S) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        return await asyncio.to_thread(self._process.wait, patience)

    async def terminate(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """End it as the kernel does when memory is short: without a last word."""
        if self.alive:
            self._process.kill()
        await self.ended()

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.alive:
            self._process.kill()
        self._process.wait(PATIENCE_S)
        os.close(self._ready)

    def _wait_ready(self) -> bool:
        found, _, _ = select.select([self._ready], [], [], PATIENCE_S)
        if not found:
            raise TimeoutError(f"the broker is not ready after {PATIENCE_S:g} s")
        return os.read(self._ready, 1) == b"+"


def start_broker(directory: Path, *, program: str | Path | None = None, **settings: str) -> BrokerProcess:
    """Start a broker in `directory`; `settings` are further variables, `LIFEBUS_LIMITS_BEACON_MS` for instance.

    `program` is a file to be run; it calls `main`, after having prepared whatever it is there for.

    The caller ends it; `broker_process` does that by itself.
    """
    ready, writing = os.pipe()
    environment = {
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PATH": os.defpath,
        "HOME": str(directory),
        "LIFEBUS_RUNTIME_DIR": str(directory / "run"),
        "LIFEBUS_STATE_DIR": str(directory / "state"),
        "LIFEBUS_LIMITS_BEACON_MS": "50",
        "LIFEBUS_LOG_FORMAT": "json",
        **settings,
    }
    try:
        with (directory / "log").open("wb") as log:
            return BrokerProcess(_started(program, environment, log.fileno(), writing), directory, ready)
    finally:
        os.close(writing)


def _started(program: str | Path | None, environment: dict[str, str], log: int, ready: int) -> Forked:
    entry, words = "support.broker_process:be_broker", ["{0}"]
    if program is not None:
        entry, words = "support.fork_server:script", [str(program), *words]
    return fork_server().start(entry, words, environment=environment, stdout=log, stderr=log, kept=[ready])


@contextmanager
def log_noted(broker: BrokerProcess) -> Iterator[None]:
    """Add to what a test fails with whether the broker lives, and the end of its log."""
    try:
        yield
    except BaseException as fault:
        fault.add_note(
            f"the broker {'lives' if broker.alive else 'has ended'}; the end of its log:\n{broker.log[-2_000:]}"
        )
        raise


@asynccontextmanager
async def broker_process(
    directory: Path, *, program: str | Path | None = None, **settings: str
) -> AsyncIterator[BrokerProcess]:
    """A running broker with all its doors open, gone at the end of the block."""
    broker = start_broker(directory, program=program, **settings)
    try:
        if not await broker.ready():
            raise RuntimeError(f"the broker ended with {await broker.ended()}:\n{broker.log}")
        with log_noted(broker):
            yield broker
    finally:
        broker.close()


async def until(condition: Callable[[], bool], patience: float = PATIENCE_S) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {patience:g} s")
        await anyio.sleep(0.005)


def main(ready: int) -> int:
    """Be the broker: as `lifebus up` does it, with a pipe to tell that it is ready."""
    from lifebus.cli.errors import report  # noqa: PLC0415  the parent needs none of this
    from lifebus_contract import LifebusError  # noqa: PLC0415
    from lifebus_supervisor.configuration import resolution as config  # noqa: PLC0415
    from lifebus_supervisor.daemon import logging as log  # noqa: PLC0415
    from lifebus_supervisor.daemon.composition import Daemon  # noqa: PLC0415
    from lifebus_supervisor.daemon.lifecycle import run  # noqa: PLC0415
    from support.crash.commit_ways import take_way  # noqa: PLC0415

    take_way()

    def report_ready(_: Daemon) -> None:
        os.write(ready, b"+")

    try:
        settings, _ = config.load()
        log.configure(settings.log)
        return asyncio.run(run(settings, on_ready=report_ready))
    except LifebusError as fault:
        return report(fault)


def be_broker(ready: str) -> int:
    """Be the broker in a forked process; `ready` is the number of the pipe's descriptor."""
    return main(int(ready))
