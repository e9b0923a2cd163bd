"""What the client library adds to one emit at a time: bare DEALER sockets, `lifebus` and `lifebus.blocking` in turns.

One bare socket waits in libzmq, and one on an event loop, as a program beside which other things go on has to.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import zmq
import zmq.asyncio

import lifebus
import lifebus.blocking
from bench.lifebus_client import Lifebus, broker
from bench.measures.flood import CLIENT, one_message, request
from bench.report import Aim, Run, print_table
from bench.workload import Item, items, percentile

BARE: Final = "a bare DEALER socket"
ON_A_LOOP: Final = "a DEALER socket of zmq.asyncio"
LIBRARY: Final = "await bus.emit(one)"
BLOCKING: Final = "lifebus.blocking: bus.emit(one)"
LISTS: Final = "await bus.emit(64 in a list), for each"
_WITHIN_US: Final = {(LIBRARY, BARE): 60, (LIBRARY, ON_A_LOOP): 60, (BLOCKING, BARE): 100}
_SIZE: Final = 64


def collect(count: int, rounds: int) -> dict[str, float]:
    """Return the median of each way's p50 in microseconds an emission."""
    found: dict[str, list[float]] = {}
    with broker() as running:
        Lifebus(running).batches(items(2_000), _SIZE, 1)  # warm up
        for _ in range(rounds):
            for way, measure in _WAYS.items():
                found.setdefault(way, []).append(1e6 * percentile(measure(running.runtime_dir, items(count)), 0.5))
    return {way: statistics.median(times) for way, times in found.items()}


def _bare(runtime_dir: Path, work: Sequence[Item]) -> list[float]:
    seconds: list[float] = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
        for number, item in enumerate(work):
            message = one_message(number, [item])
            began = time.perf_counter()
            dealer.send_multipart(message)
            dealer.recv_multipart()
            seconds.append(time.perf_counter() - began)
    return seconds


def _on_a_loop(runtime_dir: Path, work: Sequence[Item]) -> list[float]:
    async def send() -> list[float]:
        seconds: list[float] = []
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(f"ipc://{runtime_dir / 'requests.ipc'}")
            for number, item in enumerate(work):
                message = one_message(number, [item])
                began = time.perf_counter()
                await dealer.send_multipart(message)
                await dealer.recv_multipart()
                seconds.append(time.perf_counter() - began)
        return seconds

    return asyncio.run(send())


def _library(runtime_dir: Path, work: Sequence[Item]) -> list[float]:
    async def emit() -> list[float]:
        seconds: list[float] = []
        async with lifebus.connect(CLIENT, runtime_dir=runtime_dir) as bus:
            for one in [request(item) for item in work]:
                began = time.perf_counter()
                await bus.emit(one)
                seconds.append(time.perf_counter() - began)
        return seconds

    return asyncio.run(emit())


def _lists(runtime_dir: Path, work: Sequence[Item]) -> list[float]:
    async def emit() -> list[float]:
        seconds: list[float] = []
        requests = [request(item) for item in work]
        async with lifebus.connect(CLIENT, runtime_dir=runtime_dir) as bus:
            for start in range(0, len(requests), _SIZE):
                part = requests[start : start + _SIZE]
                began = time.perf_counter()
                await bus.emit(part)
                seconds.append((time.perf_counter() - began) / len(part))
        return seconds

    return asyncio.run(emit())


def _blocking(runtime_dir: Path, work: Sequence[Item]) -> list[float]:
    seconds: list[float] = []
    with lifebus.blocking.connect(CLIENT, runtime_dir=runtime_dir) as bus:
        for one in [request(item) for item in work]:
            began = time.perf_counter()
            bus.emit(one)
            seconds.append(time.perf_counter() - began)
    return seconds


_WAYS: Final[dict[str, Callable[[Path, Sequence[Item]], list[float]]]] = {
    BARE: _bare,
    ON_A_LOOP: _on_a_loop,
    LIBRARY: _library,
    BLOCKING: _blocking,
    LISTS: _lists,
}


def _measure(run: Run) -> list[Aim]:
    count, rounds = (200, 2) if run.quick else (1_000, 9)
    found = collect(count, rounds)
    rows = [(way, f"{us:.0f}", f"{us - found[BARE]:+.0f}") for way, us in found.items()]
    title = f"One emit at a time: p50 of {count:,}, median of {rounds} rounds in turns"
    print_table(run.console, title, ("", "µs", "beside the bare socket"), rows)
    return [
        Aim(text=f"{way}: beyond {other}", limit=most, measured=found[way] - found[other], at_most=True, unit="µs")
        for (way, other), most in _WITHIN_US.items()
    ]


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"client": _measure}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
