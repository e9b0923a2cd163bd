"""What sessions that ended leave: the broker's memory and its start, by how many there are in one ledger."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psutil

import lifebus
from bench.lifebus_client import KEEP_ALL, Broker, broker
from bench.measures.storage.boot import first_acknowledgement
from bench.report import Aim, Run, print_table

MOST: Final = 100_000
_SMALLEST: Final = 1_000
_BATCH: Final = 500
_SETTLE_S: Final = 12.0
_LIMIT_MB: Final = 120.0
_FLAT: Final = 1.5
_MEBIBYTE: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """MiB of the broker that recorded them, and of one that was started anew; seconds to its first answer."""

    recorded_mb: float
    started_mb: float
    start_s: float


def collect(most: int, say: Callable[[str], None]) -> dict[int, Ended]:
    """Fill one ledger with sessions that begin and end, and measure at each power of ten."""
    found: dict[int, Ended] = {}
    with broker(config=KEEP_ALL) as running:
        recorded, size = 0, _SMALLEST
        while size <= most:
            asyncio.run(_end_sessions(running, recorded, size))
            recorded = size
            found[size] = _measure(running)
            say(f"{size:,} sessions: {found[size]}")
            size *= 10
    return found


def aims(found: dict[int, Ended]) -> list[Aim]:
    """Return the aims: bounded memory, and a start that does not notice them."""
    first, last = found[min(found)], found[max(found)]
    text = f"{max(found):,} sessions that ended"
    return [
        Aim(text=f"{text}: memory", limit=_LIMIT_MB, measured=last.recorded_mb, at_most=True, unit="MiB"),
        Aim(text="… after a start", limit=_LIMIT_MB, measured=last.started_mb, at_most=True, unit="MiB"),
        Aim(text=f"… start: × with {min(found):,}", limit=_FLAT, measured=last.start_s / first.start_s, at_most=True),
    ]


async def _end_sessions(running: Broker, first: int, last: int) -> None:
    """Record the beginning and the end of each session from `first` to `last`."""
    async with lifebus.connect(runtime_dir=running.runtime_dir, timeout=60.0) as bus:
        for start in range(first, last, _BATCH):
            numbers = range(start, min(last, start + _BATCH))
            await bus.emit(
                [
                    lifebus.make_request(event, "codex", session=f"0199a213-81c0-7800-8aa1-{number:012d}")
                    for number in numbers
                    for event in ("session.started", "session.ended")
                ]
            )


def _measure(running: Broker) -> Ended:
    recorded = _settled_mb(running)
    seconds = first_acknowledgement(running, bare=False)
    return Ended(recorded_mb=recorded, start_s=seconds, started_mb=_settled_mb(running))


def _settled_mb(running: Broker) -> float:
    """Return the broker's memory once it has followed what was recorded and given back what it could."""
    process = psutil.Process(running.pid)
    quiet = time.monotonic() + _SETTLE_S
    while time.monotonic() < quiet:
        before = process.cpu_times()
        time.sleep(1)
        used = process.cpu_times()
        # As long as it is at work, the wait begins again.
        if used.user + used.system - before.user - before.system > 0.05:
            quiet = time.monotonic() + _SETTLE_S
    return process.memory_info().rss / _MEBIBYTE


def _sessions(run: Run) -> list[Aim]:
    found = collect(10 * _SMALLEST if run.quick else MOST, run.say)
    rows = [
        (f"{count:,}", f"{one.recorded_mb:.0f}", f"{one.started_mb:.0f}", f"{1e3 * one.start_s:.0f}")
        for count, one in found.items()
    ]
    head = ("sessions that ended", "memory, MiB", "after a start", "start to first answer, ms")
    print_table(run.console, "What sessions that ended leave", head, rows)
    return aims(found)


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"sessions": _sessions}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
