"""How many signals a second pass from observers to a follower, and what they cost the receipts beside them."""

import time
from dataclasses import dataclass

import psutil

from bench.child import expect
from bench.lifebus_client import Lifebus, broker
from bench.report import Aim
from bench.signal_peers import go, peer
from bench.workload import cpu_seconds, items, percentile

RATES = (1_000, 5_000)
"""Signals a second beside which receipts are measured; a fast model streams about a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Signals a second that were acknowledged, and that one follower got; the broker's CPU time a signal in µs."""

    acknowledged: float
    followed: float
    server_us: float
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Receipts a second (batches of 64, 16 at a time), and the µs of one at a time: median and 99th percentile."""

    per_second: float
    median_us: float
    slowest_us: float


def flow(signals: int, origins: int) -> Flow:
    """Send signals as fast as they are acknowledged, one batch of each observer at a time, to one follower."""
    with broker() as running, peer("follow", running.runtime_dir, signals) as follower:
        server = psutil.Process(running.pid)
        with peer("observe", running.runtime_dir, origins, signals, 0) as observer:
            # Both processes are connected by now; the clock starts with the first batch.
            before, started = cpu_seconds(server), time.perf_counter()
            go(observer)
            (sent_s,) = expect(observer, "done")
            _, gaps = expect(follower, "done")
            seconds = time.perf_counter() - started
            spent = cpu_seconds(server) - before
    return Flow(
        acknowledged=signals / float(sent_s),
        followed=signals / seconds,
        server_us=1e6 * spent / signals,
        gaps=int(gaps),
    )


def receipts_beside(receipts: int, rounds: int) -> dict[int, Beside]:
    """Return how receipts fare beside no signals and beside each rate: the best of some rounds."""
    found: dict[int, list[Beside]] = {}
    with broker() as running:
        system = Lifebus(running)
        # Warm up, so that the first rate is not the slowest for that alone.
        system.batches(items(2_000), 64, 1)
        for _ in range(rounds):
            for rate in (0, *RATES):
                found.setdefault(rate, []).append(_beside(system, running.runtime_dir, receipts, rate))
    return {
        rate: Beside(
            per_second=max(one.per_second for one in several),
            median_us=min(one.median_us for one in several),
            slowest_us=min(one.slowest_us for one in several),
        )
        for rate, several in found.items()
    }


def aims(beside: dict[int, Beside]) -> list[Aim]:
    """Return what receipts must keep of their speed."""
    share = beside[RATES[0]].per_second / beside[0].per_second
    return [Aim(text=f"receipts/s beside {RATES[0]:,} signals/s: × without", limit=0.8, measured=share)]


def _beside(system: Lifebus, runtime_dir: object, receipts: int, rate: int) -> Beside:
    if not rate:
        return _measure(system, receipts)
    with peer("observe", runtime_dir, 2, 0, rate) as observer:
        go(observer)
        return _measure(system, receipts)


def _measure(system: Lifebus, receipts: int) -> Beside:
    rate = system.batches(items(receipts), 64, 16).per_second
    seconds = system.one_by_one(items(receipts // 40))
    return Beside(
        per_second=rate, median_us=1e6 * percentile(seconds, 0.50), slowest_us=1e6 * percentile(seconds, 0.99)
    )
