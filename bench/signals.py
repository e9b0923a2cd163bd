"""Signals of app-servers: how many a second from observers to a follower, and what they cost the receipts beside them.

Above: run.  Below: signal_peers, lifebus_client.
"""

import time
from dataclasses import dataclass

import psutil

from bench.lifebus_client import Lifebus, broker
from bench.report import Aim
from bench.signal_peers import expect, go, peer
from bench.workload import cpu_seconds, items

RATES = (1_000, 5_000)
"""Signals a second beside which receipts are measured; a fast model streams about a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Signals a second that were acknowledged, and that one follower got; the broker's CPU time a signal in µs."""

    acknowledged: float
    followed: float
    server_us: float
    gaps: int


def flow(signals: int, origins: int) -> Flow:
    """Send signals as fast as they are acknowledged, one batch of each observer at a time, to one follower."""
    with broker() as running, peer("follow", running.runtime_dir, signals) as follower:
        server = psutil.Process(running.pid)
        with peer("observe", running.runtime_dir, origins, signals, 0) as observer:
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


def receipts_beside(receipts: int, rounds: int) -> dict[int, float]:
    """Return receipts a second (batches of 64, 16 at a time) beside no signals and beside each rate, best of rounds."""
    best: dict[int, float] = {}
    with broker() as running:
        system = Lifebus(running)
        system.batches(items(2_000), 64, 1)
        for _ in range(rounds):
            for rate in (0, *RATES):
                best[rate] = max(best.get(rate, 0.0), _beside(system, running.runtime_dir, receipts, rate))
    return best


def aims(beside: dict[int, float]) -> list[Aim]:
    """Return what receipts must keep of their speed."""
    share = beside[RATES[0]] / beside[0]
    return [Aim(text=f"receipts/s beside {RATES[0]:,} signals/s: × without", limit=0.8, measured=share)]


def _beside(system: Lifebus, runtime_dir: object, receipts: int, rate: int) -> float:
    work = items(receipts)
    if not rate:
        return system.batches(work, 64, 16).per_second
    with peer("observe", runtime_dir, 2, 0, rate) as observer:
        go(observer)
        return system.batches(work, 64, 16).per_second
