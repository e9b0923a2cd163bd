"""The comparison: every system does the same work in the same minutes, in turns, and the median turn counts."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

import psutil

from bench.lifebus_client import Lifebus, broker
from bench.report import Aim, ratio
from bench.workload import Item, Peer, Rate, cpu_seconds, items, percentile

LIFEBUS, REDIS, JETSTREAM, RELAXED = "lifebus", "Redis Streams", "JetStream", "JetStream (default sync)"

BATCHES = "batches of 64, 1 at a time (client libraries)"
MANY_BATCHES = "batches of 64, 16 at a time (bare connections)"
PIPELINES = "batches of 1,000, 1 at a time (client libraries)"
SINGLES = "1 message a request, 1,000 in flight (bare connections)"
MEDIAN, SLOWEST = "one at a time, p50 (client libraries)", "one at a time, p99 (client libraries)"
BARE_MEDIAN = "one at a time, p50 (bare socket)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much each scenario does, and how often."""

    receipts: int
    closed_loop: int
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement: receipts a second (one at a time: microseconds), and the server's CPU time a receipt in µs."""

    value: float
    server_us: float


Results = dict[str, dict[str, Figure]]
"""Scenario to system to figure."""


def compare(sizes: Sizes, say: Callable[[str], None]) -> tuple[Results, dict[str, str]]:
    """Measure every system that is installed; return the medians and each system's settings."""
    turns: dict[str, dict[str, list[Figure]]] = {}
    settings: dict[str, str] = {}
    for turn in range(sizes.rounds):
        for start in systems():
            with start() as system:
                if system is None:
                    continue
                say(f"round {turn + 1} of {sizes.rounds}: {system.name}")
                settings[system.name] = system.settings
                for scenario, figure in _measure(system, sizes):
                    turns.setdefault(scenario, {}).setdefault(system.name, []).append(figure)
    medians = {
        scenario: {name: _median(figures) for name, figures in systems.items()} for scenario, systems in turns.items()
    }
    return medians, settings


def aims(results: Results) -> list[Aim]:
    """Return the aims that compare lifebus with its peers."""

    def of(scenario: str, system: str) -> float | None:
        figure = results[scenario].get(system)
        return figure.value if figure else None

    def by(scenario: str, peer: str) -> float | None:
        return ratio(of(scenario, LIFEBUS), of(scenario, peer))

    def cpu(scenario: str) -> float | None:
        ours, theirs = results[scenario].get(LIFEBUS), results[scenario].get(REDIS)
        return ratio(ours.server_us, theirs.server_us) if ours and theirs else None

    throughputs = {BATCHES: 0.85, MANY_BATCHES: 1.0, SINGLES: 0.6}
    bare, jetstream = of(BARE_MEDIAN, LIFEBUS), of(MEDIAN, JETSTREAM)
    return [
        *(Aim(text=f"{name}: × Redis", limit=least, measured=by(name, REDIS)) for name, least in throughputs.items()),
        *(
            Aim(text=f"{name}: × JetStream", limit=2, measured=by(name, JETSTREAM))
            for name in (BATCHES, MANY_BATCHES, PIPELINES, SINGLES)
        ),
        Aim(text="one at a time, p50: JetStream's × ours", limit=2, measured=ratio(jetstream, of(MEDIAN, LIFEBUS))),
        Aim(text=f"{MANY_BATCHES}, CPU of the server: × Redis", limit=1.4, measured=cpu(MANY_BATCHES), at_most=True),
        Aim(text=f"{MEDIAN}: × Redis", limit=2.3, measured=by(MEDIAN, REDIS), at_most=True),
        Aim(text=f"{BARE_MEDIAN}: × Redis", limit=2.0, measured=ratio(bare, of(MEDIAN, REDIS)), at_most=True),
    ]


def _measure(system: Peer, sizes: Sizes) -> Iterator[tuple[str, Figure]]:
    server = psutil.Process(system.pid)
    system.batches(items(2_000), 64, 1)  # warm up

    def timed(count: int, work: Callable[[list[Item]], Rate]) -> Figure:
        prepared = items(count)
        before = cpu_seconds(server)
        rate = work(prepared)
        return Figure(value=rate.per_second, server_us=1e6 * (cpu_seconds(server) - before) / count)

    yield BATCHES, timed(sizes.receipts, lambda work: system.batches(work, 64, 1))
    yield MANY_BATCHES, timed(sizes.receipts, lambda work: system.batches(work, 64, 16))
    yield PIPELINES, timed(sizes.receipts, lambda work: system.batches(work, 1_000, 1))
    yield SINGLES, timed(sizes.receipts, lambda work: system.singles(work, 1_000))
    before = cpu_seconds(server)
    seconds = system.one_by_one(items(sizes.closed_loop))
    server_us = 1e6 * (cpu_seconds(server) - before) / sizes.closed_loop
    yield MEDIAN, Figure(value=percentile(seconds, 0.50) * 1e6, server_us=server_us)
    yield SLOWEST, Figure(value=percentile(seconds, 0.99) * 1e6, server_us=server_us)
    if isinstance(system, Lifebus):
        before = cpu_seconds(server)
        seconds = system.one_by_one_bare(items(sizes.closed_loop))
        server_us = 1e6 * (cpu_seconds(server) - before) / sizes.closed_loop
        yield BARE_MEDIAN, Figure(value=percentile(seconds, 0.50) * 1e6, server_us=server_us)


def _median(figures: list[Figure]) -> Figure:
    return Figure(
        value=statistics.median(figure.value for figure in figures),
        server_us=statistics.median(figure.server_us for figure in figures),
    )


@contextmanager
def _lifebus() -> Iterator[Peer | None]:
    with broker() as running:
        yield Lifebus(running)


def systems() -> tuple[Callable[[], AbstractContextManager[Peer | None]], ...]:
    """Return how to start each system; one that is not installed yields None."""
    from bench.peers import jetstream, redis_streams  # noqa: PLC0415  no other part needs the peers' libraries

    return (
        _lifebus,
        redis_streams.running,
        partial(jetstream.running, always=True),
        partial(jetstream.running, always=False),
    )
