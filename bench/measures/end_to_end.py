"""From an emit to a subscriber's hands, beside Redis Streams (XREAD BLOCK) and JetStream (ordered push consumer).

One client records a receipt every 10 ms and writes the time into its key; one or ten subscribers, a process each, take
the time when they have it.  The same while another client records 5,000 receipts a second, which they all get too.
"""

import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event, Semaphore
from typing import Final

from bench.measures.throughput import LIFEBUS, REDIS, systems
from bench.report import Aim, Run, print_table, ratio
from bench.workload import Item, Peer, item, percentile

SUBSCRIBERS: Final = (1, 10)
PER_SECOND: Final = 5_000
_PAUSE_S: Final = 0.01
_BATCH: Final = 50
_SETTLE: Final = 50
_MEASURED: Final = "measured-"
_LAST: Final = "last-"
_START_S: Final = 60.0
# Forked, so that each client is the object that the parent made.
_PROCESSES: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Setting:
    """How many follow, and whether another client records meanwhile."""

    subscribers: int
    busy: bool

    def __str__(self) -> str:
        who = f"{self.subscribers} subscriber{'s' if self.subscribers > 1 else ''}"
        return f"{who}, {f'under {PER_SECOND:,}/s' if self.busy else 'idle'}"


SETTINGS: Final = tuple(Setting(count, busy) for busy in (False, True) for count in SUBSCRIBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Seconds from each emit to each subscriber, and what the other client recorded a second."""

    seconds: Sequence[float]
    beside: float

    def ms(self, share: float) -> float:
        """Return a percentile in milliseconds."""
        return 1e3 * percentile(self.seconds, share)


Deliveries = dict[Setting, dict[str, Delivery]]


def collect(emits: int, say: Callable[[str], None]) -> Deliveries:
    """Measure each system that is installed, with so many emits a setting."""
    found: Deliveries = {setting: {} for setting in SETTINGS}
    for setting, start in itertools.product(SETTINGS, systems()):
        with start() as system:
            if system is not None:
                say(f"{setting}: {system.name}")
                found[setting][system.name] = _measure(system, setting, emits)
    return found


def _measure(system: Peer, setting: Setting, emits: int) -> Delivery:
    joined, begun, over = _PROCESSES.Semaphore(0), _PROCESSES.Event(), _PROCESSES.Event()
    answers, sending = zip(*(_PROCESSES.Pipe(duplex=False) for _ in range(setting.subscribers)), strict=True)
    followers = [_PROCESSES.Process(target=_follow, args=(system, joined, end), daemon=True) for end in sending]
    sender = _PROCESSES.Process(target=_send, args=(system, begun, emits), daemon=True)
    rate, answer = _PROCESSES.Pipe(duplex=False)
    beside = _PROCESSES.Process(target=_record_beside, args=(system, over, answer), daemon=True)
    for process in (*followers, sender):
        process.start()
    if not all(joined.acquire(timeout=_START_S) for _ in followers):
        raise RuntimeError(f"a subscriber of {system.name} got nothing within {_START_S:.0f} s")
    if setting.busy:
        beside.start()
    begun.set()
    sender.join()
    over.set()
    per_second = rate.recv() if setting.busy else 0.0
    system.one_by_one([item(f"{_LAST}{time.monotonic_ns()}")])
    seconds = [one for answer in answers for one in answer.recv()]
    for process in followers:
        process.join()
    return Delivery(seconds=seconds, beside=per_second)


def _send(system: Peer, begun: Event, emits: int) -> None:
    system.trickle(stamped(begun.is_set, emits), _PAUSE_S)


def stamped(begun: Callable[[], bool], emits: int, now: Callable[[], int] = time.monotonic_ns) -> Iterator[list[Item]]:
    """Yield receipts that have the time in their key: some until it has begun, some more, then the measured ones."""
    while not begun():
        yield [item(f"early-{now()}")]
    for number in range(_SETTLE + emits):
        yield [item(f"{_MEASURED if number >= _SETTLE else 'settling-'}{now()}")]


def _record_beside(system: Peer, over: Event, answer: Connection) -> None:
    """Record so many a second until it is over, and send how many a second that were."""
    began, recorded = time.perf_counter(), 0

    def batches() -> Iterator[list[Item]]:
        nonlocal recorded
        while not over.is_set():
            yield [item(f"beside-{number:012d}") for number in range(recorded, recorded + _BATCH)]
            recorded += _BATCH

    system.trickle(batches(), _BATCH / PER_SECOND)
    answer.send(recorded / (time.perf_counter() - began))


def _follow(system: Peer, joined: Semaphore, answer: Connection) -> None:
    seconds: list[float] = []
    first = True

    def take(key: str) -> bool:
        nonlocal first
        arrived = time.monotonic_ns()
        if first:
            first = False
            joined.release()
        if key.startswith(_MEASURED):
            seconds.append((arrived - int(key.removeprefix(_MEASURED))) / 1e9)
        return key.startswith(_LAST)

    system.follow(take)
    answer.send(seconds)


def aims(found: Deliveries) -> list[Aim]:
    """Return the aims: lifebus beside Redis, and its p99 beside its p50."""
    return [aim for setting, by_system in found.items() for aim in _aims(setting, by_system)]


def _aims(setting: Setting, found: dict[str, Delivery]) -> list[Aim]:
    ours, redis = found[LIFEBUS], found.get(REDIS)
    share = ratio(ours.ms(0.5), redis.ms(0.5) if redis else None)
    spread = ratio(ours.ms(0.99), ours.ms(0.5))
    return [
        Aim(text=f"end to end, {setting}: p50, × Redis", limit=1.5, measured=share, at_most=True),
        Aim(text=f"end to end, {setting}: p99, × p50", limit=5, measured=spread, at_most=True),
    ]


def _end_to_end(run: Run) -> list[Aim]:
    emits = 100 if run.quick else 1_000
    found = collect(emits, run.say)
    rows = [
        (
            f"{setting}: {name}",
            f"{one.ms(0.5):.2f}",
            f"{one.ms(0.99):.2f}",
            f"{one.beside:,.0f}" if setting.busy else "–",
        )
        for setting, by_system in found.items()
        for name, one in by_system.items()
    ]
    title = f"From an emit to a subscriber's hands: {emits} emits, one every {1e3 * _PAUSE_S:.0f} ms"
    print_table(run.console, title, ("", "p50 ms", "p99 ms", "recorded beside, /s"), rows)
    return aims(found)


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"end-to-end": _end_to_end}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
