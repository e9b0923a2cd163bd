"""Dispatches to one Python program as a client of a broker: a fresh child each time, and children that stay.

Each dispatch goes the whole way: emitted over the request socket, asked, answered, its receipt durable in SQLite and
acknowledged.  The program is the same, and does the same work.
"""

import asyncio
import sys
import time
from pathlib import Path
from statistics import median

import lifebus
from bench import command_client
from bench.lifebus_client import Broker, broker
from bench.measures.flood import ADAPTER, CLIENT, EVENT
from bench.report import Aim
from bench.workload import Rate
from lifebus_contract import ReceiptStatus

AIM = 20
PROTOCOLS = ("oneshot", "jsonl", "msgpack")
WORKERS = 2
IN_FLIGHT = 64
_PROGRAM = str(Path(command_client.__file__))
_CONFIG = """
[[clients]]
client_id = "bench-command"
command = ["{python}", "{program}", "{argument}"]
events = ["{event}"]
protocol = "{protocol}"
workers = {workers}
deadline_ms = 60000
"""


def collect(fresh: int, warm: int, rounds: int) -> dict[str, float]:
    """Return the dispatches a second of each protocol: the median of some rounds, which take turns."""
    found: dict[str, list[float]] = {protocol: [] for protocol in PROTOCOLS}
    for _ in range(rounds):
        for protocol in PROTOCOLS:
            rate = _measure(protocol, fresh if protocol == "oneshot" else warm)
            found[protocol].append(rate.per_second)
    return {protocol: median(rates) for protocol, rates in found.items()}


def aims(rates: dict[str, float]) -> list[Aim]:
    """Return the aims: children that stay beside fresh ones, in the same run."""
    return [
        Aim(text=f"dispatches/s to {protocol} workers: × fresh children", limit=AIM, measured=rate / rates["oneshot"])
        for protocol, rate in rates.items()
        if protocol != "oneshot"
    ]


def _measure(protocol: str, count: int) -> Rate:
    config = _CONFIG.format(
        python=sys.executable,
        program=_PROGRAM,
        argument="msgpack" if protocol == "msgpack" else "jsonl",
        event=EVENT,
        protocol=protocol,
        workers=WORKERS,
    )
    with broker(config=config) as running:
        return asyncio.run(_dispatch(running, count))


async def _dispatch(running: Broker, count: int) -> Rate:
    """Emit so many facts, a number of them at once, and count what was answered by the command."""
    async with lifebus.connect(CLIENT, runtime_dir=running.runtime_dir, timeout=60) as bus:
        await _emit(bus, IN_FLIGHT)  # the children that stay are up, and caches filled
        began = time.perf_counter()
        answered = sum([await _emit(bus, min(IN_FLIGHT, count - done)) for done in range(0, count, IN_FLIGHT)])
        return Rate(acknowledged=answered, seconds=time.perf_counter() - began)


async def _emit(bus: lifebus.Bus, many: int) -> int:
    results = await bus.emit([lifebus.make_request(EVENT, ADAPTER, session=f"s{number}") for number in range(many)])
    for result in results:
        if [receipt.status for receipt in result.receipts] != [ReceiptStatus.OBSERVED]:
            raise RuntimeError(f"the command did not answer: {result}")
    return len(results)
