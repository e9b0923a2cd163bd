"""From the start of the process to the first acknowledgement after a kill -9, by the size of the ledger.

Measured with the broker's caches in place and with all of them deleted, beside the time to rebuild everything from the
log, which no request ever waits for.
"""

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from bench.lifebus_client import KEEP_ALL, UP, Broker, broker
from bench.measures.flood import flood, one_message
from bench.report import Aim
from bench.workload import items

_CHUNK = 20_000
_SMALLEST = 1_000
_LIMIT_S = 1.0
_REBUILD_LIMIT_S = 60.0
_CACHES = "compactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """Seconds to the first acknowledgement, with and without caches, and to rebuild all; None where it failed."""

    cached_s: float
    bare_s: float
    rebuilt_s: float | None


def collect(largest: int, rounds: int, say: Callable[[str], None]) -> dict[int, Boot]:
    """Fill one ledger, and measure at each power of ten: the medians of some rounds."""
    found: dict[int, Boot] = {}
    with broker(config=KEEP_ALL) as running:
        recorded, size = 0, _SMALLEST
        while size <= largest:
            while recorded < size:
                count = min(_CHUNK, size - recorded)
                recorded += flood(running.runtime_dir, items(count), 64, 16).rate.acknowledged
            found[size] = _boot(running, rounds)
            # Each start recorded one receipt, with caches and without.
            recorded += 2 * rounds
            say(f"{size:,} receipts: {found[size]}")
            size *= 10
    return found


def aims(boots: dict[int, Boot]) -> list[Aim]:
    """Return the aims: flat, quick, and a rebuild in bounded time."""
    first, last = boots[min(boots)], boots[max(boots)]
    flat = {"with caches": (first.cached_s, last.cached_s), "caches deleted": (first.bare_s, last.bare_s)}
    found = [
        Aim(
            text=f"first acknowledgement, {name}: largest ledger",
            limit=_LIMIT_S,
            measured=large,
            at_most=True,
            unit="s",
        )
        for name, (_, large) in flat.items()
    ]
    found += [
        Aim(text=f"first acknowledgement, {name}: largest by smallest", limit=1.5, measured=large / small, at_most=True)
        for name, (small, large) in flat.items()
    ]
    text = f"everything rebuilt from {max(boots):,} receipts"
    return [*found, Aim(text=text, limit=_REBUILD_LIMIT_S, measured=last.rebuilt_s, at_most=True, unit="s")]


def _boot(running: Broker, rounds: int) -> Boot:
    cached = [first_acknowledgement(running, bare=False) for _ in range(rounds)]
    bare = [first_acknowledgement(running, bare=True) for _ in range(rounds)]
    running.stop()
    rebuilt = _rebuild(running)
    running.start()
    return Boot(cached_s=statistics.median(cached), bare_s=statistics.median(bare), rebuilt_s=rebuilt)


def first_acknowledgement(running: Broker, *, bare: bool) -> float:
    """Kill the broker and start it; return the seconds until a request that already waits is answered."""
    # SIGKILL, so that no cache is written on the way out.
    running.kill()
    if bare:
        shutil.rmtree(running.state_dir / _CACHES, ignore_errors=True)
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.RECONNECT_IVL, 1)
        dealer.connect(f"ipc://{running.runtime_dir / 'requests.ipc'}")
        # Sent before the broker exists: it lies in the socket's queue, so no polling delay is measured.
        dealer.send_multipart(one_message(0, items(1)))
        started = time.perf_counter()
        running.start(lambda: bool(dealer.poll(1)))
        return time.perf_counter() - started


def _rebuild(running: Broker) -> float | None:
    """Return the seconds to rebuild the state from the whole log and to verify it, in a process of its own."""
    if _run(running, "save", "campaign"):
        return None
    shutil.rmtree(running.state_dir / _CACHES, ignore_errors=True)
    started = time.perf_counter()
    failed = _run(running, "boot", "--check")
    return None if failed else time.perf_counter() - started


def _run(running: Broker, *words: str) -> int:
    return subprocess.run((UP[0], *words), env=running.environment, capture_output=True, check=False).returncode
