"""What the gateway costs and gives: receipts to many WebSockets beside NATS, and emissions with and without it."""

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass

import psutil

import lifebus
from bench.child import expect
from bench.lifebus_client import KEEP_ALL, Broker, Lifebus, broker
from bench.measures.flood import CLIENT, request
from bench.report import Aim, Run, print_table, ratio
from bench.web_peers import following
from bench.workload import Item, Peer, cpu_seconds, items, percentile

FRAMES = "lifebus, a frame a message"
BATCHED = "lifebus, ?batch=true"
NATS = "NATS WebSocket"
FOLLOWERS = (1, 10, 100)
OFF, ON = "off", "on, nobody follows"
RATE = 1_000
"""Receipts a second that a crowd is to follow."""

FREE = 0.95
"""What emissions keep of their speed where the gateway is on and nobody follows."""

_ON = KEEP_ALL + "[gateway]\nenabled = true\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """Messages a second that all followers got together, the server's CPU time for one, and one at a time."""

    per_second: float
    server_us: float
    median_us: float


Send = Callable[[Item], Awaitable[object]]
"""Records one message durably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _System:
    """A server with WebSockets: what records messages there, many or one by one, and how its followers are started."""

    publisher: Peer
    sender: Callable[[], AbstractAsyncContextManager[Send]]
    arguments: tuple[object, ...]


def fan_out(messages: int, singles: int, say: Callable[[str], None]) -> dict[str, dict[int, FanOut]]:
    """Return what each system gives to so many followers, by its name."""
    found: dict[str, dict[int, FanOut]] = {}
    for name, start in _systems():
        with start() as system:
            if system is None:
                say("nats-server is not installed: there is nothing to stand beside lifebus")
                continue
            say(f"{name}: {system.publisher.settings}")
            for followers in FOLLOWERS:
                found.setdefault(name, {})[followers] = _fan_out(system, followers, messages, singles)
    return found


def emissions(receipts: int, rounds: int, say: Callable[[str], None]) -> dict[str, tuple[float, float]]:
    """Return receipts a second (batches of 64, 16 at a time) and µs of one at a time: without and with the gateway."""
    rates: dict[str, list[float]] = {}
    waits: dict[str, list[float]] = {}
    with broker(config=KEEP_ALL) as off, _with_gateway() as on, _with_gateway() as followed:
        systems = {OFF: Lifebus(off), ON: Lifebus(on), "on, one follows": Lifebus(followed)}
        with _followers_of(followed, 1, "/api/stream?batch=true", 2**53):
            for system in systems.values():
                system.batches(items(2_000), 64, 1)  # warm up
            for turn in range(rounds):
                say(f"gateway off and on: round {turn + 1} of {rounds}")
                for name, system in systems.items():
                    rates.setdefault(name, []).append(system.batches(items(receipts), 64, 16).per_second)
                    waits.setdefault(name, []).extend(system.one_by_one(items(receipts // 40)))
    return {name: (statistics.median(rates[name]), 1e6 * percentile(waits[name], 0.5)) for name in rates}


def _fan_out(system: _System, followers: int, messages: int, singles: int) -> FanOut:
    # A crowd gets fewer of them, so that each case takes about as long.
    messages = max(64, messages // followers)
    process = psutil.Process(system.publisher.pid)
    with following(*system.arguments, followers, messages) as crowd:
        work, before, started = items(messages), cpu_seconds(process), time.perf_counter()
        system.publisher.batches(work, 64, 16)
        expect(crowd, "done")
        seconds, spent = time.perf_counter() - started, cpu_seconds(process) - before
        waits = asyncio.run(_one_by_one(system, crowd, singles))
    delivered = followers * messages
    return FanOut(
        per_second=delivered / seconds,
        server_us=1e6 * spent / delivered,
        median_us=1e6 * percentile(waits, 0.5),
    )


async def _one_by_one(system: _System, crowd: "subprocess.Popen[str]", count: int) -> list[float]:
    """Return the seconds from each call that records a message until every follower has it."""
    waits: list[float] = []
    async with system.sender() as send:
        for item in items(count):
            started = time.perf_counter()
            await send(item)
            await asyncio.to_thread(expect, crowd, "got")
            waits.append(time.perf_counter() - started)
    return waits


def _systems() -> tuple[tuple[str, Callable[[], AbstractContextManager[_System | None]]], ...]:
    return (
        (FRAMES, lambda: _lifebus("/api/stream")),
        (BATCHED, lambda: _lifebus("/api/stream?batch=true")),
        (NATS, _nats),
    )


def _with_gateway() -> AbstractContextManager[Broker]:
    return broker(config=_ON, last_file="gateway.json")


@contextmanager
def _lifebus(target: str) -> Iterator[_System | None]:
    with _with_gateway() as running:

        @asynccontextmanager
        async def sender() -> AsyncIterator[Send]:
            async with lifebus.connect(CLIENT, runtime_dir=running.runtime_dir) as bus:
                yield lambda item: bus.emit(request(item))

        yield _System(publisher=Lifebus(running), sender=sender, arguments=_arguments(running, target))


@contextmanager
def _nats() -> Iterator[_System | None]:
    from bench.peers import nats_websocket  # noqa: PLC0415  no other part needs the peers' libraries

    with nats_websocket.running() as server:
        if server is None:
            yield None
        else:
            yield _System(publisher=server.publisher, sender=server.publisher.sender, arguments=("nats", server.port))


def _followers_of(running: Broker, how_many: int, target: str, messages: int) -> AbstractContextManager[object]:
    return following(*_arguments(running, target), how_many, messages)


def _arguments(running: Broker, target: str) -> tuple[object, ...]:
    found = json.loads((running.runtime_dir / "gateway.json").read_bytes())
    return "lifebus", found["url"], found["tokenFile"], target


def _measure(run: Run) -> list[Aim]:
    messages, singles, receipts, rounds = (2_000, 20, 2_000, 1) if run.quick else (50_000, 300, 20_000, 5)
    found = fan_out(messages, singles, run.say)
    _print(run, "WebSocket: messages a second that all followers got together", found, lambda one: one.per_second)
    cost = "WebSocket: µs CPU of the server for a message and follower, its durable record included"
    _print(run, cost, found, lambda one: one.server_us)
    single = "WebSocket: one at a time, from the call until the last follower has it, p50 µs"
    _print(run, single, found, lambda one: one.median_us)
    emitted = emissions(receipts, rounds, run.say)
    rows = [[name, f"{rate:,.0f}", f"{wait:,.0f}"] for name, (rate, wait) in emitted.items()]
    head = ("gateway", "a second (batches of 64, 16 at a time)", "one at a time, p50 µs")
    print_table(run.console, f"Receipts with the gateway off and on, median of {rounds}", head, rows)
    return _aims(found, emitted)


def _print(run: Run, title: str, found: dict[str, dict[int, FanOut]], value: Callable[[FanOut], float]) -> None:
    rows = [[name, *(f"{value(cases[count]):,.1f}" for count in FOLLOWERS)] for name, cases in found.items()]
    ours, theirs = found[BATCHED], found.get(NATS)
    if theirs is not None:
        shares = [ratio(value(ours[count]), value(theirs[count])) or 0 for count in FOLLOWERS]
        rows.append([f"{BATCHED}: × NATS", *(f"{share:.2f}" for share in shares)])
    print_table(run.console, title, ("followers", *map(str, FOLLOWERS)), rows)


def _aims(found: dict[str, dict[int, FanOut]], emitted: dict[str, tuple[float, float]]) -> list[Aim]:
    """Return the aims: a crowd of 100 at 1,000 receipts a second, and emissions that pay nothing for the gateway."""
    crowd, share = max(FOLLOWERS), emitted[ON][0] / emitted[OFF][0]
    return [
        Aim(
            text=f"{crowd} WebSockets: messages a second that they get together",
            limit=crowd * RATE,
            measured=found[BATCHED][crowd].per_second,
            unit="/s",
        ),
        Aim(text="receipts/s with a gateway that nobody follows: × without it", limit=FREE, measured=share),
    ]


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"gateway": _measure}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""
