"""What a slow disk costs: acknowledged receipts a second by the time of a sync and the requests in flight.

Each request is a message of its own on the real request socket; the disk is `slow_disk`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench import slow_disk
from bench.lifebus_client import broker
from bench.measures.flood import flood
from bench.report import Aim
from bench.workload import cpu_seconds, items, percentile

MILLISECONDS = (0, 2, 10)
"""What a sync takes at least; 0 is the disk as it is, behind the same VFS."""

IN_FLIGHT = (1, 32, 128)
AIMS = {(2, 32): 3_000, (2, 128): 6_000, (10, 32): 1_000, (10, 128): 3_000}
"""Receipts a second by milliseconds and requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Receipts a second, the milliseconds to an acknowledgement (median, 99th percentile), µs CPU of the server."""

    per_second: float
    median_ms: float
    slowest_ms: float
    server_us: float


def collect(seconds: float, rounds: int, say: Callable[[str], None]) -> dict[tuple[int, int], Speed]:
    """Measure each pair for some seconds; return the best of the rounds, as neighbours only ever add."""
    found: dict[tuple[int, int], Speed] = {}
    for milliseconds in MILLISECONDS:
        with broker(slow_disk.command(milliseconds)) as running:
            flood(running.runtime_dir, items(2_000), 64, 16)
            for _ in range(rounds):
                for in_flight in IN_FLIGHT:
                    one = _measure(running.runtime_dir, psutil.Process(running.pid), in_flight, seconds)
                    say(f"{milliseconds} ms a sync, {in_flight} in flight: {one.per_second:,.0f}/s")
                    best = found.get((milliseconds, in_flight))
                    found[milliseconds, in_flight] = max(one, best or one, key=lambda speed: speed.per_second)
    return found


def aims(speeds: dict[tuple[int, int], Speed]) -> list[Aim]:
    """Return the aims of throughput on a slow disk."""
    return [
        Aim(
            text=f"{milliseconds} ms a sync, {in_flight} requests in flight",
            limit=limit,
            measured=speeds[milliseconds, in_flight].per_second,
            unit="/s",
        )
        for (milliseconds, in_flight), limit in AIMS.items()
    ]


def _measure(runtime_dir: Path, server: psutil.Process, in_flight: int, seconds: float) -> Speed:
    """Find out how many receipts fill the time, then time them."""
    trial = flood(runtime_dir, items(20 * in_flight), 1, in_flight)
    count = max(100, 20 * in_flight, int(seconds * trial.rate.per_second))
    work, before = items(count), cpu_seconds(server)
    found = flood(runtime_dir, work, 1, in_flight)
    return Speed(
        per_second=found.rate.per_second,
        median_ms=1e3 * percentile(found.waits, 0.50),
        slowest_ms=1e3 * percentile(found.waits, 0.99),
        server_us=1e6 * (cpu_seconds(server) - before) / count,
    )
