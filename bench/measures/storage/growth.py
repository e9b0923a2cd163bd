"""What only lifebus is asked: flat cost, flat memory, quiet when idle, many subscribers."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from bench.child import expect
from bench.lifebus_client import KEEP_ALL, Broker, Lifebus, broker
from bench.measures.followers import following
from bench.report import Aim
from bench.workload import Rate, cpu_seconds, items

_WINDOW = 10_000
_WINDOWS = 5
_CHUNK = 20_000
_FOLLOWERS = 10
_WARM = 100_000
_SETTLE_S = 120
_QUIET_PERCENT = 2.0  # below it only timers run
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds that a receipt takes: of the clock, and of the broker's processor time."""

    clock_us: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.clock_us:.1f} µs a receipt, {self.server_us:.1f} µs of the broker's processor time"


@dataclass(slots=True)
class Growth:
    """What a receipt costs by receipts in the ledger and by sessions; the broker's memory in MiB by receipts.

    `settle_s` is how long the broker was at work after the last receipt, `settle_percent` the most that it took of a
    core in a second of it, `idle_share` what it takes afterwards.
    """

    by_receipts: dict[int, Cost] = field(default_factory=dict)
    by_sessions: dict[int, Cost] = field(default_factory=dict)
    memory: dict[int, float] = field(default_factory=dict)
    settle_s: float | None = None
    settle_percent: float | None = None
    idle_share: float | None = None


def followed(receipts: int) -> tuple[Rate, Rate, float, int]:
    """Return the rate without and with ten subscribers, the seconds until all had all, and the gaps they saw."""
    with broker() as running:
        system = Lifebus(running)
        # Warm up: the first batches pay for imports and for an empty file's growth.
        system.batches(items(2_000), 64, 16)
        alone = system.batches(items(receipts), 64, 16)
        work = items(receipts)
        with following(running.runtime_dir, _FOLLOWERS, receipts) as process:
            attended = system.batches(work, 64, 16)
            seconds, gaps = expect(process, "done")
    return alone, attended, float(seconds), int(gaps)


def grow(largest: int, most_sessions: int, idle_s: float, say: Callable[[str], None]) -> Growth:
    """Fill one ledger, measuring at each power of ten; then let the broker idle."""
    growth = Growth()
    with broker(config=KEEP_ALL) as running:
        system = Lifebus(running)
        _by_receipts(running, system, growth, largest, say)
        sessions = 10
        while sessions <= most_sessions:
            growth.by_sessions[sessions] = _cost(system, sessions)
            say(f"{sessions:,} sessions: {growth.by_sessions[sessions]}")
            sessions *= 10
        process = psutil.Process(running.pid)
        shares = _settle(process)
        growth.settle_s, growth.settle_percent = float(len(shares)), max(shares, default=0.0)
        growth.idle_share = _share(process, idle_s)
    return growth


def aims(growth: Growth) -> list[Aim]:
    """Return the aims of growth; costs are processor time, since neighbours on the machine change the clock's."""
    warm = [mebibytes for receipts, mebibytes in growth.memory.items() if receipts >= _WARM]
    return [
        _flat("processor time a receipt, largest ledger to smallest", growth.by_receipts),
        _flat("processor time a receipt, most sessions to fewest", growth.by_sessions),
        Aim(text="quiet after the last receipt", limit=10, measured=growth.settle_s, at_most=True, unit="s"),
        Aim(text="until then", limit=50, measured=growth.settle_percent, at_most=True, unit="% of a core"),
        Aim(text="idle broker", limit=1, measured=growth.idle_share, at_most=True, unit="% of a core"),
        Aim(
            text=f"memory, largest ledger to {_WARM:,} receipts",
            limit=1.15,
            measured=warm[-1] / warm[0] if len(warm) > 1 else None,
            at_most=True,
        ),
    ]


def _flat(text: str, costs: dict[int, Cost]) -> Aim:
    figures = [cost.server_us for cost in costs.values()]
    return Aim(text=text, limit=1.15, measured=figures[-1] / figures[0] if figures else None, at_most=True)


def _by_receipts(running: Broker, system: Lifebus, growth: Growth, largest: int, say: Callable[[str], None]) -> None:
    recorded, target = 0, 1_000
    while target <= largest:
        while recorded < target:
            recorded += system.batches(items(min(_CHUNK, target - recorded)), 64, 16).acknowledged
        growth.memory[target] = psutil.Process(running.pid).memory_info().rss / _MEBIBYTE
        growth.by_receipts[target] = _cost(system, 50)
        recorded += _WINDOW * _WINDOWS
        say(f"{target:,} receipts: {growth.by_receipts[target]}, {growth.memory[target]:.0f} MiB")
        target *= 10


def _cost(system: Lifebus, sessions: int) -> Cost:
    """Return what a receipt costs now: the medians of some windows."""
    server, size = psutil.Process(system.pid), max(_WINDOW, sessions)
    clock, processor = [], []
    for _ in range(_WINDOWS):
        # Made before the clock starts: bodies cost the client as much as a receipt costs the broker.
        work = items(size, sessions)
        before = cpu_seconds(server)
        clock.append(1e6 / system.batches(work, 64, 16).per_second)
        processor.append(1e6 * (cpu_seconds(server) - before) / size)
    return Cost(clock_us=statistics.median(clock), server_us=statistics.median(processor))


def _settle(process: psutil.Process) -> list[float]:
    """Wait until the maintenance after the last receipts is done; return what each second of it took of a core."""
    shares: list[float] = []
    while len(shares) < _SETTLE_S and (share := _share(process, 1.0)) >= _QUIET_PERCENT:
        shares.append(share)
    return shares


def _share(process: psutil.Process, seconds: float) -> float:
    """Return the share of a core, in percent, that the broker takes with nothing to do."""
    before = cpu_seconds(process)
    time.sleep(seconds)
    return 100 * (cpu_seconds(process) - before) / seconds
