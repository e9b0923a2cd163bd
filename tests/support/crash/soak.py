"""Everything that goes on at a broker for a long time, and what was seen of it: the parts of the soak."""

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import msgpack
import psutil

import lifebus
from lifebus_broker.snapshots.compactions.state_cache import CACHE_EVERY
from lifebus_contract import FrameClass, StateConflict
from lifebus_transports.framing.frames import encode_header
from support.broker_process import BrokerProcess
from support.integration.observing import Observer, signal
from support.integration.peers import raw_peer
from support.patience import PATIENCE_S

POOL = 40
BATCH = 256
BURST = 60
MEBIBYTE = 1_048_576
REST_S = 20.0
"""Four times what the ledger waits without a write until it gives its pages back."""

SOMETIMES = (
    "gap seen",
    "backfill used",
    "busy answered",
    "replay answered",
    "receipts dropped",
    "save made",
    "cache written",
    "delivery acknowledged",
    "signal followed",
)
"""What must have happened at least once, or the soak was none."""


@dataclass
class Samples:
    """The process as it was again and again: memory in bytes, descriptors, threads."""

    memory: list[int] = field(default_factory=list[int])
    descriptors: list[int] = field(default_factory=list[int])
    threads: list[int] = field(default_factory=list[int])

    def take(self, process: psutil.Process) -> None:
        with process.oneshot():
            self.memory.append(process.memory_info().rss)
            self.threads.append(process.num_threads())
        self.descriptors.append(process.num_fds())

    def course(self) -> list[int]:
        """Return the memory in MiB, as it was at twenty times."""
        return [value // MEBIBYTE for value in self.memory[:: max(1, len(self.memory) // 20)]]

    def grown(self, values: list[int]) -> float:
        """Return how much more it was in the last third than in the second; the first is the warm-up."""
        third = len(values) // 3
        return statistics.median(values[-third:]) - statistics.median(values[third : 2 * third])


class Soak:
    """Clients of all kinds, each at its work until the time is over; `seen` counts what happened."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker, self.until, self.latest = broker, 0.0, 0.0
        self.seen: Counter[str] = Counter()
        self.samples = Samples()
        self.acknowledged = 0
        self._process = psutil.Process(broker.pid)

    @property
    def missing(self) -> list[str]:
        """What must have happened at least once, and has not."""
        return [what for what in SOMETIMES if not self.seen[what]]

    async def run(self, seconds: float, *, until_seen: bool = False) -> None:
        """Do everything at once for so long, after as much as the first state cache takes.

        With `until_seen` it goes on until everything was seen that must have happened, as long as a test waits.
        """
        async with lifebus.connect("soak-fill", runtime_dir=self.broker.runtime_dir, timeout=PATIENCE_S) as bus:
            while self.acknowledged < CACHE_EVERY:
                await self._emit(bus)
        self.until = time.monotonic() + seconds
        self.latest = self.until + (PATIENCE_S if until_seen else 0)
        parts = (self._emit, self._repeat, self._reconnect, self._start_over, self._consume, self._observe, self._crowd)
        async with anyio.create_task_group() as tasks:
            for part in (*parts, self._look):
                tasks.start_soon(self._again, part)

    async def rest(self) -> int:
        """Do nothing for `REST_S`, and return the least memory that the broker had meanwhile, in bytes."""
        least = self.broker.memory
        with anyio.move_on_after(REST_S):
            while True:
                await anyio.sleep(0.25)
                least = min(least, self.broker.memory)
        return least

    async def _again(self, part: Callable[[lifebus.Bus], Awaitable[None]]) -> None:
        """Let a part do its round on a new connection, again and again."""
        while (now := time.monotonic()) < self.until or (self.missing and now < self.latest):
            name = part.__name__.strip("_")
            async with lifebus.connect(f"soak-{name}", runtime_dir=self.broker.runtime_dir, timeout=PATIENCE_S) as bus:
                await part(bus)

    async def _emit(self, bus: lifebus.Bus) -> None:
        """Sessions come, work and end; most names come again."""
        for number in range(32):
            events = ("session.started", "frame.opened", "frame.ended", "session.ended")
            name = f"s{number % POOL}" if number else f"once-{self.acknowledged}"
            requests = [
                lifebus.make_request(events[step % 4], "codex", session=name, frame=_frame(step))
                for step in range(BATCH)
            ]
            results = await bus.emit(requests)
            assert all(result.refusal is None for result in results)
            self.acknowledged += len(results)

    async def _repeat(self, bus: lifebus.Bus) -> None:
        request = lifebus.make_request("session.started", "codex", session="again")
        try:
            for _ in range(20):
                self.seen["replay answered"] += (await bus.emit(request)).replayed
        except StateConflict as refused:
            self.seen["tombstone answered"] += refused.code == "history_pruned"

    async def _reconnect(self, bus: lifebus.Bus) -> None:
        """Follow from the start of what is kept, and leave in the middle."""
        count = 0
        async for item in bus.receipts(since="start", gaps="yield"):
            self.seen["gap seen"] += isinstance(item, lifebus.Gap)
            self.seen["backfill used"] += 1
            count += 1
            if count >= 200:
                return

    async def _start_over(self, bus: lifebus.Bus) -> None:
        """Go on from a cursor that is long gone: it is told so."""
        status = await bus.status()
        self.seen["receipts dropped"] += status.ledger.floor > 0
        cursor = lifebus.Position(status.ledger.epoch, 0)
        async for item in bus.receipts(since=cursor, until_head=True, gaps="yield"):
            self.seen["gap seen"] += isinstance(item, lifebus.Gap)
            break

    async def _consume(self, bus: lifebus.Bus) -> None:
        async with bus.consume("soak", since="start", gaps="yield") as deliveries:
            with anyio.move_on_after(1.0):
                async for delivery in deliveries:
                    if isinstance(delivery, lifebus.Gap):
                        self.seen["gap seen"] += 1
                        continue
                    await delivery.ack()
                    self.seen["delivery acknowledged"] += 1
                    if self.seen["delivery acknowledged"] % 50 == 0:
                        return

    async def _observe(self, bus: lifebus.Bus) -> None:
        origin = f"o{self.seen['signal followed'] % 7}-{time.monotonic_ns()}"
        await Observer(bus, origin).observe(*[signal(f"t{number % POOL}", size=500) for number in range(64)])
        with anyio.move_on_after(1.0):
            async for _ in bus.signals(since="start", until_head=True, gaps="yield"):
                self.seen["signal followed"] += 1

    async def _crowd(self, bus: lifebus.Bus) -> None:
        """Ask for more at once than is served at once."""
        body = bytes(msgpack.packb({"limit": 8, "after": (await bus.status()).ledger.floor}))
        with raw_peer(self.broker.runtime_dir) as peer:
            for number in range(BURST):
                peer.send(encode_header(number, "backfill"), body)
            for _ in range(BURST):
                _, outcome, answer = await peer.answer()
                self.seen["busy answered"] += outcome == "refused" and answer["code"] == "busy"

    async def _look(self, bus: lifebus.Bus) -> None:
        """Sample the process, and what it says of itself."""
        for _ in range(10):
            self.samples.take(self._process)
            status = await bus.status()
            self.seen["save made"] = status.counters["saves"]
            self.seen["cache written"] += await asyncio.to_thread(self._has_caches)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.25):
                    await anyio.sleep_forever()

    def _has_caches(self) -> bool:
        directory = self.broker.ledger_path.parent / "compactions"
        return any(path.is_file() for path in directory.rglob("*"))


def _frame(step: int) -> lifebus.FrameContext | None:
    return (
        lifebus.FrameContext(frame_id=f"f{step // 4}", frame_class=FrameClass.TOP_LEVEL) if step % 4 in {1, 2} else None
    )


def warnings_of(broker: BrokerProcess) -> Counter[str]:
    """Return what the broker logged as a warning or worse, and how often."""
    lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
    return Counter(
        f"{line['event']} {line.get('detail', '')}".strip() for line in lines if line["level"] not in {"debug", "info"}
    )
