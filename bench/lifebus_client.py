"""lifebus as a system under test: a broker process of our own, and clients that speak to its request socket.

As with the peers there are two clients: the library where a program would use it, and a bare DEALER socket where many
messages are in flight.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import lifebus
from bench.measures.flood import CLIENT, flood, request
from bench.peers.process import find_program, start, stop, workspace
from bench.workload import Item, Pace, Rate, Stopwatch, chunks, paced
from lifebus_contract import LifebusError
from lifebus_transports.messages.reads import Backfill

UP = (find_program("lifebus") or "lifebus", "up")
"""The command that is a broker."""

KEEP_ALL = "[retention]\nkeep_mb = 0\n"
"""Configuration of a broker that drops nothing, however large its ledger grows."""


class Broker:
    """A broker process with its own directories; it can be killed and started again on the same ledger."""

    def __init__(self, folder: Path, command: Sequence[str] = UP) -> None:
        self.runtime_dir, self.state_dir = folder / "run", folder / "state"
        self._folder, self._command = folder, command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a command finds its directories, and nothing of the user's."""
        config = self._folder / "config.toml"
        own = {"LIFEBUS_RUNTIME_DIR": self.runtime_dir, "LIFEBUS_STATE_DIR": self.state_dir, "LIFEBUS_CONFIG": config}
        # The user's own settings would change what is measured.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LIFEBUS_")}
        environment |= {name: str(path) for name, path in own.items()}
        environment["LIFEBUS_TELEMETRY_ENABLED"] = "false"  # there is no harness whose sessions could be read
        return environment

    def configure(self, text: str) -> None:
        """Write the configuration file; it counts from the next start on."""
        (self._folder / "config.toml").write_text(text)

    def start(self, ready: Callable[[], bool] | None = None) -> None:
        """Start it and wait until it answers, or is ready in another sense."""
        self._process = start(self._command, ready or self.answers, self._folder / "log", self.environment)

    def kill(self) -> None:
        """Kill it as a power cut of the process would: SIGKILL, without any cleanup."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Stop it in order."""
        stop(self._running)

    def answers(self) -> bool:
        """Whether it answers a request."""
        return (self.runtime_dir / "requests.ipc").exists() and asyncio.run(_ping(self.runtime_dir))


@contextmanager
def broker(command: Sequence[str] = UP, config: str = "", last_file: str = "requests.ipc") -> Iterator[Broker]:
    """Provide a running broker on an empty SQLite ledger with `synchronous=FULL`; `config` is its file's text.

    `last_file` is what it writes last into its runtime directory with this configuration.
    """
    with workspace() as folder:
        running = Broker(folder, command)
        running.configure(config)
        running.start(lambda: (running.runtime_dir / last_file).exists() and running.answers())
        try:
            yield running
        finally:
            running.stop()


class Lifebus:
    """A client of that broker."""

    name = "lifebus"

    def __init__(self, running: Broker) -> None:
        self.pid = running.pid
        self.broker = running
        self._runtime_dir = running.runtime_dir
        self.settings = asyncio.run(self._describe())

    def batches(self, items: Sequence[Item], size: int, in_flight: int) -> Rate:
        """Emit lists of `size` (client library), or several such lists at once (bare socket)."""
        # The library awaits each list; only the bare socket keeps several under way.
        if in_flight > 1:
            return flood(self._runtime_dir, items, size, in_flight).rate
        return asyncio.run(self._batches(items, size))

    def overload(self, items: Sequence[Item], size: int, in_flight: int, offered: float) -> Rate:
        """Emit several lists at once (bare socket), and what is refused again: `offered` receipts a second in all."""
        found = flood(self._runtime_dir, items, size, in_flight, Pace(offered))
        return replace(found.rate, refusals=found.refusals)

    def singles(self, items: Sequence[Item], in_flight: int) -> Rate:
        """Emit one request a message, `in_flight` at a time on one connection."""
        return flood(self._runtime_dir, items, 1, in_flight).rate

    def one_by_one(self, items: Sequence[Item]) -> list[float]:
        """Emit one request after the other (client library)."""
        return asyncio.run(self._one_by_one(items))

    def one_by_one_bare(self, items: Sequence[Item]) -> list[float]:
        """Emit one request after the other (bare socket)."""
        return flood(self._runtime_dir, items, 1, 1).waits

    def trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        """Emit list after list, or single requests where a list holds one (client library)."""
        asyncio.run(self._trickle(batches, pause))

    def follow(self, take: Callable[[str], bool]) -> None:
        """Follow the whole ledger from now on (client library)."""
        asyncio.run(self._follow(take))

    def receipt_size(self) -> int:
        """Return the size in bytes of one recorded receipt."""
        return asyncio.run(self._receipt_size())

    async def _describe(self) -> str:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            ledger = (await bus.status()).ledger
        return f"ledger {ledger.backend} ({ledger.library}), durability {ledger.durability}"

    async def _receipt_size(self) -> int:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            # The newest one, as it is stored: with every key of the contract.
            position = (await bus.status()).ledger.head
            page = await bus.read(Backfill(after=max(0, position - 1)))
        return len(page.rows[0].receipt)

    async def _batches(self, items: Sequence[Item], size: int) -> Rate:
        # Requests are made before the clock runs: the peers get ready bodies as well.
        lists = [[request(item) for item in batch] for batch in chunks(items, size)]
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            watch, acknowledged = Stopwatch(), 0
            for one in lists:
                acknowledged += sum(len(done.receipts) for done in await bus.emit(one))
            return watch.rate(acknowledged)

    async def _one_by_one(self, items: Sequence[Item]) -> list[float]:
        seconds = []
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            for item in items:
                one = request(item)
                started = time.perf_counter()
                await bus.emit(one)
                seconds.append(time.perf_counter() - started)
        return seconds

    async def _trickle(self, batches: Iterable[Sequence[Item]], pause: float) -> None:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            async for batch in paced(batches, pause):
                await (bus.emit(request(batch[0])) if len(batch) == 1 else bus.emit([request(one) for one in batch]))

    async def _follow(self, take: Callable[[str], bool]) -> None:
        async with lifebus.connect(CLIENT, runtime_dir=self._runtime_dir) as bus:
            async for receipt in bus.receipts():
                if take(receipt.idempotency_key or ""):
                    return


async def _ping(runtime_dir: Path) -> bool:
    try:
        async with lifebus.connect(CLIENT, runtime_dir=runtime_dir, timeout=0.5):
            return True
    except LifebusError:
        return False
