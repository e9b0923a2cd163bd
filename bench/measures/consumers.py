"""A named consumer: deliveries a second, each acknowledged durably, by how many are acknowledged at once."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

import lifebus
from bench.lifebus_client import Lifebus, broker
from bench.workload import cpu_seconds, items

WAYS = ((1, 1), (64, 1), (64, 64), (256, 256))
"""What is measured: most receipts in flight, and how many are acknowledged at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """Deliveries a second that were acknowledged, and the broker's CPU time for each in µs."""

    max_in_flight: int
    at_once: int
    per_second: float
    server_us: float


def consumed(receipts: int) -> list[Consumed]:
    """Consume a ledger of so many receipts in each way; one at a time takes a tenth of them."""
    with broker() as running:
        Lifebus(running).batches(items(receipts), 256, 4)
        server = psutil.Process(running.pid)
        found: list[Consumed] = []
        for number, (most, at_once) in enumerate(WAYS):
            # One at a time is ten times slower, and its figure settles soon.
            count = receipts if at_once > 1 else receipts // 10
            before = cpu_seconds(server)
            seconds = asyncio.run(_consume(running.runtime_dir, f"c{number}", most, at_once, count))
            spent = cpu_seconds(server) - before
            found.append(
                Consumed(max_in_flight=most, at_once=at_once, per_second=count / seconds, server_us=1e6 * spent / count)
            )
        return found


async def _consume(runtime_dir: Path, name: str, max_in_flight: int, at_once: int, count: int) -> float:
    """Take and acknowledge so many; return the seconds that took."""
    settings = lifebus.ConsumerSettings(max_in_flight=max_in_flight)
    async with (
        lifebus.connect("bench", runtime_dir=runtime_dir, timeout=30) as bus,
        bus.consume(name, settings, since="start") as deliveries,
    ):
        started, done = time.perf_counter(), 0
        batch: list[lifebus.Delivery] = []
        async for item in deliveries:
            if isinstance(item, lifebus.Delivery):
                batch.append(item)
            # With nothing left to read, waiting for a full batch could wait for ever: the rest is unacknowledged.
            if len(batch) >= at_once or not deliveries.ready:
                await deliveries.ack(batch)
                done, batch = done + len(batch), []
            if done >= count:
                break
        return time.perf_counter() - started
