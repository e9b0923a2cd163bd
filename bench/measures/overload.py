"""Far more than a system can do: four clients that flood, and a fifth that asks ten times a second and is measured."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any, Final

import psutil

from bench.measures.throughput import systems
from bench.report import Aim, Run, print_table
from bench.workload import Item, Peer, items, percentile
from lifebus_contract import LifebusError

FLOODERS: Final = 4
BATCH: Final = 64
IN_FLIGHT: Final = 256
_PAUSE_S: Final = 0.1
_QUIET_S: Final = 2.0
_LOOK_S: Final = 0.02
# Forked, so that each client is the object that the parent made, with the receipts that it made.
_PROCESSES: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """What a system did under it; seconds, MiB beyond what it had before, at most and in the end."""

    per_second: float
    waits: Sequence[float]
    unanswered: int
    peak_mb: float
    left_mb: float
    idle_percent: float


def collect(receipts: int, say: Callable[[str], None]) -> dict[str, Overload]:
    """Measure each system that is installed; every flooder records so many receipts."""
    found: dict[str, Overload] = {}
    for start in systems():
        with start() as system:
            if system is not None:
                say(f"overload: {system.name}")
                found[system.name] = _measure(system, receipts)
    return found


def _measure(system: Peer, receipts: int) -> Overload:
    server = psutil.Process(system.pid)
    system.batches(items(2_000), BATCH, 1)  # warm up
    before = server.memory_info().rss
    floods = [_PROCESSES.Process(target=_flood, args=(system, items(receipts))) for _ in range(FLOODERS)]
    asking, answers = _PROCESSES.Pipe(duplex=False)
    over = _PROCESSES.Event()
    steady = _PROCESSES.Process(target=_ask, args=(system, over, answers))
    for process in (steady, *floods):
        process.start()
    began, peak = time.perf_counter(), before
    while any(process.is_alive() for process in floods):
        peak = max(peak, server.memory_info().rss)
        floods[0].join(_LOOK_S)
    seconds = time.perf_counter() - began
    over.set()
    waits, unanswered = asking.recv()
    steady.join()
    if any(process.exitcode for process in floods):
        raise RuntimeError(f"a client of {system.name} failed")
    time.sleep(_QUIET_S)  # part of what is measured: how large and how busy it is so long after
    return Overload(
        per_second=FLOODERS * receipts / seconds,
        waits=waits,
        unanswered=unanswered,
        peak_mb=(peak - before) / 2**20,
        left_mb=(server.memory_info().rss - before) / 2**20,
        idle_percent=server.cpu_percent(1.0),
    )


def _flood(system: Peer, work: Sequence[Item]) -> None:
    """Record the receipts, with far more of them under way than the system can take."""
    system.batches(work, BATCH, IN_FLIGHT)


def _ask(system: Peer, over: Event, answers: Any) -> None:
    """Record one receipt after the other, ten a second, and send back how long each took."""
    waits: list[float] = []
    unanswered = 0
    while not over.is_set():
        began = time.perf_counter()
        try:
            waits += system.one_by_one(items(1, sessions=1))
        except (TimeoutError, LifebusError):
            waits.append(time.perf_counter() - began)
            unanswered += 1
        over.wait(_PAUSE_S)
    answers.send((waits, unanswered))


def _overload(run: Run) -> list[Aim]:
    receipts = 5_000 if run.quick else 200_000
    found = collect(receipts, run.say)
    rows = [
        (
            name,
            f"{one.per_second:,.0f}",
            *(f"{1e3 * percentile(one.waits, share):.0f}" for share in (0.5, 0.99, 1.0)),
            str(one.unanswered),
            *(f"{figure:.0f}" for figure in (one.peak_mb, one.left_mb, one.idle_percent)),
        )
        for name, one in found.items()
    ]
    title = f"Overload: {FLOODERS} clients, {IN_FLIGHT} batches of {BATCH} each under way; one asks ten times a second"
    head = (
        "",
        "receipts a second",
        "p50 ms",
        "p99 ms",
        "longest",
        "unanswered",
        "MiB more",
        "… afterwards",
        "% CPU 2 s later",
    )
    print_table(run.console, title, head, rows)
    ours = found["lifebus"]
    return [
        Aim(
            text="under overload, one that asks ten times a second: p99",
            limit=250,
            measured=1e3 * percentile(ours.waits, 0.99),
            at_most=True,
            unit="ms",
        ),
        Aim(text="under overload: memory beyond idle", limit=256, measured=ours.peak_mb, at_most=True, unit="MiB"),
    ]


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"overload": _overload}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
