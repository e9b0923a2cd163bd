"""What a snapshot costs: bytes, time, what it does to appends, and the archive that boots on another machine."""

import asyncio
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, Literal

import lifebus
from bench.lifebus_client import KEEP_ALL, UP, Broker, broker
from bench.measures.flood import CLIENT, flood
from bench.measures.storage.appends import Waits, append_while
from bench.workload import items

TYPES: tuple[Literal["SCENE", "SESSION", "CAMPAIGN"], ...] = ("SCENE", "SESSION", "CAMPAIGN")
Ledger = tuple[int, int]
"""Receipts, and the sessions that they are dealt over."""

SMALL: Sequence[Ledger] = ((1_000, 50), (5_000, 1_000))
LARGE: Sequence[Ledger] = ((10_000, 50), (100_000, 50), (100_000, 10_000), (1_000_000, 50))
_CHUNK = 20_000
_TIMEOUT_S = 600.0
_SAVES: Final = 12
# A process of its own: a thread would slow down the client that measures.
_PROCESSES: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCost:
    """What a snapshot took of a running broker and as a command without one, in seconds, and its size in bytes."""

    live_s: float
    command_s: float
    size: int


def collect(ledgers: Sequence[Ledger], say: Callable[[str], None]) -> dict[Ledger, dict[str, SnapshotCost]]:
    """Measure each type of snapshot, and the archive, on each ledger."""
    found: dict[Ledger, dict[str, SnapshotCost]] = {}
    for receipts, sessions in ledgers:
        with broker(config=KEEP_ALL) as running:
            for start in range(0, receipts, _CHUNK):
                flood(running.runtime_dir, items(min(_CHUNK, receipts - start), sessions), 64, 16)
            found[receipts, sessions] = _measure(running)
            say(f"{receipts:,} receipts, {sessions:,} sessions: {found[receipts, sessions]}")
    return found


def _measure(running: Broker) -> dict[str, SnapshotCost]:
    live = asyncio.run(_measure_live(running))
    # Beside a broker the command would only ask it; without one it works on the file.
    running.stop()
    costs = {
        each: SnapshotCost(live_s=seconds, command_s=_run(running, "save", each.lower()), size=size)
        for each, (seconds, size) in live.items()
    }
    archive = running.state_dir.with_name("archive")
    seconds = _run(running, "save", "campaign", "--to", str(archive))
    running.start()
    return costs | {"archive": SnapshotCost(live_s=0.0, command_s=seconds, size=archive.stat().st_size)}


def beside(receipts: int, say: Callable[[str], None]) -> tuple[Waits, Waits, int]:
    """Return how appends fared without saves and beside one after the other, and how many saves that were."""
    with broker(config=KEEP_ALL) as running:
        for start in range(0, receipts, _CHUNK):
            flood(running.runtime_dir, items(min(_CHUNK, receipts - start)), 64, 16)
        before = append_while(running.runtime_dir, lambda: False)
        over, taken = _PROCESSES.Event(), _PROCESSES.Value("i")
        saving = _PROCESSES.Process(target=_save_until, args=(running.runtime_dir, over, taken), daemon=True)
        saving.start()
        try:
            meanwhile = append_while(running.runtime_dir, lambda: taken.value < _SAVES)
        finally:
            over.set()
            saving.join()
        say(f"appends beside {taken.value} saves: {before} {meanwhile}")
        return before, meanwhile, taken.value


def _save_until(runtime_dir: Path, over: Event, taken: "Synchronized[int]") -> None:
    async def save() -> None:
        async with lifebus.connect(CLIENT, runtime_dir=runtime_dir, timeout=_TIMEOUT_S) as bus:
            while not over.is_set():
                for each in TYPES:
                    await bus.saves.save(each)
                    taken.value += 1

    asyncio.run(save())


async def _measure_live(running: Broker) -> dict[str, tuple[float, int]]:
    """Return the seconds and the bytes of each type; the first snapshot waits until the broker has read its log."""
    found: dict[str, tuple[float, int]] = {}
    async with lifebus.connect(CLIENT, runtime_dir=running.runtime_dir, timeout=_TIMEOUT_S) as bus:
        for each in ("SCENE", *TYPES):  # the first SCENE warms up and is overwritten
            # Something has to change, or the broker returns the snapshot that it has.
            await bus.emit(lifebus.make_request("context.compacted", "codex", session="s0"))
            began = time.perf_counter()
            answer = await bus.saves.save(each)
            seconds = time.perf_counter() - began
            file = running.state_dir / "snapshots" / f"{answer.snapshot_id}.json"
            found[each] = (seconds, file.stat().st_size)
    return found


def _run(running: Broker, *words: str) -> float:
    """Return the seconds that a command takes, the start of Python included."""
    began = time.perf_counter()
    subprocess.run((UP[0], *words), env=running.environment, capture_output=True, check=True)
    return time.perf_counter() - began
