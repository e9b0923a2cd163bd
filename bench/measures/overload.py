"""Far more than a system can do for a minute: four clients that flood, and a fifth that asks ten times a second.

The flooders are to offer twelve times what the system does alone, and manage ten; what it refuses they offer once more.
The fifth client is measured, and of lifebus the refusals and the hooks that come meanwhile as well.
"""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, Final

import psutil

from bench.hook_calls import HookCalls
from bench.lifebus_client import Lifebus
from bench.measures.throughput import LIFEBUS, systems
from bench.report import Aim, Run, print_table
from bench.workload import Item, Peer, Rate, RefusedError, items, percentile
from lifebus_contract import LifebusError

FLOODERS: Final = 4
BATCH: Final = 128
IN_FLIGHT: Final = 2_048
TIMES: Final = 12
_PAUSE_S: Final = 0.1
_HOOK_PAUSE_S: Final = 0.6
_SAMPLE: Final = 10_000
_MOST: Final = 280_000
_QUIET_S: Final = 2.0
_LOOK_S: Final = 0.02
# Forked, so that each client is the object that the parent made, with the receipts that it made.
_PROCESSES: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """What a system did under it; seconds, MiB beyond what it had before, at most and in the end."""

    seconds: float
    alone: float
    floods: Sequence[Rate]
    waits: Sequence[float]
    unanswered: int
    peak_mb: float
    left_mb: float
    idle_percent: float
    hooks: HookCalls
    hooks_recorded: int

    @property
    def per_second(self) -> float:
        """Receipts that were acknowledged to the flooders, a second."""
        return sum(flood.acknowledged for flood in self.floods) / self.seconds

    @property
    def refusals(self) -> list[float]:
        """The seconds to each refusal."""
        return [seconds for flood in self.floods for seconds in flood.refusals]

    @property
    def offered(self) -> float:
        """What the flooders offered, by what the system does alone."""
        return self.per_second / self.alone + len(self.refusals) * BATCH / self.seconds / self.alone


def collect(seconds: float, say: Callable[[str], None]) -> dict[str, Overload]:
    """Measure each system that is installed; the flood is what it does alone in so many seconds."""
    found: dict[str, Overload] = {}
    for start in systems():
        with start() as system:
            if system is not None:
                say(f"overload: {system.name}")
                found[system.name] = one = _measure(system, seconds)
                say(f"p50 and p99 {_ms(one.waits, 0.50)} and {_ms(one.waits, 0.99)} ms, {one.peak_mb:.0f} MiB more")
    return found


def _measure(system: Peer, seconds: float) -> Overload:
    server = psutil.Process(system.pid)
    system.batches(items(2_000), BATCH, 1)  # warm up
    alone = system.batches(items(_SAMPLE), BATCH, 16).per_second
    receipts = min(_MOST, int(alone * seconds / FLOODERS))
    before = server.memory_info().rss
    over = _PROCESSES.Event()
    steady = _Client(_ask, system, over)
    floods = [_Client(_flood, system, items(receipts), TIMES * alone / FLOODERS) for _ in range(FLOODERS)]
    hooks = HookCalls()
    # Before the hooks: a process that is forked meanwhile would hold the pipes of one that is being started.
    for client in (steady, *floods):
        client.process.start()
    with _calling(hooks, system):
        began, peak = time.perf_counter(), before
        while not all(flood.answer.poll() for flood in floods):
            peak = max(peak, server.memory_info().rss)
            _raise_dead(floods)
            time.sleep(_LOOK_S)
        took = time.perf_counter() - began
    over.set()
    waits, unanswered = steady.result()
    rates = [flood.result() for flood in floods]
    time.sleep(_QUIET_S)  # part of what is measured: how large and how busy it is so long after
    left, idle = server.memory_info().rss, server.cpu_percent(1.0)
    return Overload(
        seconds=took,
        alone=alone,
        floods=rates,
        waits=waits,
        unanswered=unanswered,
        peak_mb=(peak - before) / 2**20,
        left_mb=(left - before) / 2**20,
        idle_percent=idle,
        hooks=hooks,
        hooks_recorded=hooks.recorded(system.broker.runtime_dir) if isinstance(system, Lifebus) else 0,
    )


class _Client:
    """A process that calls a function with one end of a pipe behind its arguments, and what it sent back."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self.answer, sending = _PROCESSES.Pipe(duplex=False)
        self.process = _PROCESSES.Process(target=work, args=(*arguments, sending))

    def result(self) -> Any:
        """Return what it sent, and wait for its end."""
        found = self.answer.recv()
        self.process.join()
        return found


def _raise_dead(clients: Sequence[_Client]) -> None:
    for client in clients:
        if client.process.exitcode:
            raise RuntimeError("a client of the overload failed: see above")


@contextmanager
def _calling(hooks: HookCalls, system: Peer) -> Iterator[None]:
    """Have hooks called for the length of a block, where the system has them."""
    if not isinstance(system, Lifebus):
        yield
        return
    over = threading.Event()
    arguments = (over.wait, system.broker.environment, _HOOK_PAUSE_S)
    calling = threading.Thread(target=hooks.make_until, args=arguments)
    calling.start()
    try:
        yield
    finally:
        over.set()
        calling.join()


def _flood(system: Peer, work: Sequence[Item], offered: float, answer: Connection) -> None:
    """Record the receipts, with far more of them under way than the system can take."""
    answer.send(system.overload(work, BATCH, IN_FLIGHT, offered))


def _ask(system: Peer, over: Event, answer: Connection) -> None:
    """Record one receipt after the other, ten a second, and send back how long each took."""
    waits: list[float] = []
    unanswered = 0
    while not over.is_set():
        began = time.perf_counter()
        try:
            waits += system.one_by_one(items(1, sessions=1))
        except (TimeoutError, LifebusError, RefusedError):
            waits.append(time.perf_counter() - began)
            unanswered += 1
        over.wait(_PAUSE_S)
    answer.send((waits, unanswered))


def _overload(run: Run) -> list[Aim]:
    found = collect(3.0 if run.quick else 60.0, run.say)
    print_table(
        run.console,
        f"Overload: {FLOODERS} clients, {IN_FLIGHT:,} batches of {BATCH} each under way, offered at {TIMES} × the rate "
        "alone; one client asks ten times a second",
        (
            "",
            "s",
            "alone/s",
            "receipts/s",
            "p50 ms",
            "p99 ms",
            "longest",
            "unanswered",
            "refusals",
            "MiB more",
            "… then",
            "% CPU 2 s later",
        ),
        [_row(name, one) for name, one in found.items()],
    )
    ours = found[LIFEBUS]
    rows = [
        ("offered × the rate alone", f"{ours.offered:.1f}"),
        ("refusals", f"{len(ours.refusals):,}"),
        *((f"… after, {name} ms", _ms(ours.refusals, share)) for name, share in _SHARES),
        ("hooks called", str(len(ours.hooks.sessions))),
        ("… recorded", str(ours.hooks_recorded)),
        *((f"… whole process, {name} ms", _ms(ours.hooks.seconds, share)) for name, share in _SHARES),
    ]
    print_table(run.console, "… and of lifebus", ("", "lifebus"), rows)
    return aims(ours)


_SHARES: Final = (("p50", 0.50), ("p99", 0.99), ("longest", 1.0))


def _row(name: str, one: Overload) -> tuple[str, ...]:
    return (
        name,
        f"{one.seconds:.0f}",
        f"{one.alone:,.0f}",
        f"{one.per_second:,.0f}",
        *(_ms(one.waits, share) for _, share in _SHARES),
        str(one.unanswered),
        f"{len(one.refusals):,}",
        *(f"{figure:.0f}" for figure in (one.peak_mb, one.left_mb, one.idle_percent)),
    )


def _ms(seconds: Sequence[float], share: float) -> str:
    return f"{1e3 * percentile(seconds, share):.0f}" if seconds else "–"


def aims(ours: Overload) -> list[Aim]:
    """Return the aims of lifebus under overload."""
    refusals, hooks = ours.refusals, ours.hooks.sessions
    return [
        Aim(
            text="under overload, one that asks ten times a second: p99",
            limit=250,
            measured=1e3 * percentile(ours.waits, 0.99),
            at_most=True,
            unit="ms",
        ),
        Aim(text="… of its requests unanswered", limit=0, measured=ours.unanswered, at_most=True, unit=""),
        Aim(
            text="… every refusal within",
            limit=100,
            measured=1e3 * max(refusals) if refusals else None,
            at_most=True,
            unit="ms",
        ),
        Aim(text="… memory beyond idle", limit=256, measured=ours.peak_mb, at_most=True, unit="MiB"),
        Aim(
            text="… share of the hooks that are recorded",
            limit=1,
            measured=ours.hooks_recorded / len(hooks) if hooks else None,
        ),
        Aim(text="… 2 s later", limit=1, measured=ours.idle_percent, at_most=True, unit="% of a core"),
    ]


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"overload": _overload}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
