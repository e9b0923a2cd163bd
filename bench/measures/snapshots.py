"""What a save costs: the snapshot's bytes and the time it takes, and the archive that boots on another machine."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import lifebus
from bench.lifebus_client import KEEP_ALL, UP, Broker, broker
from bench.measures.flood import CLIENT, flood
from bench.workload import items

TYPES: tuple[Literal["SCENE", "SESSION", "CAMPAIGN"], ...] = ("SCENE", "SESSION", "CAMPAIGN")
Ledger = tuple[int, int]
"""Receipts, and the sessions that they are dealt over."""

SMALL: Sequence[Ledger] = ((1_000, 50), (5_000, 1_000))
LARGE: Sequence[Ledger] = ((10_000, 50), (100_000, 50), (100_000, 10_000), (1_000_000, 50))
_CHUNK = 20_000
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a save took of a running broker and as a command without one, in seconds, and its size in bytes."""

    live_s: float
    command_s: float
    size: int


def collect(ledgers: Sequence[Ledger], say: Callable[[str], None]) -> dict[Ledger, dict[str, Saved]]:
    """Measure each type of save, and the archive, on each ledger."""
    found: dict[Ledger, dict[str, Saved]] = {}
    for receipts, sessions in ledgers:
        with broker(config=KEEP_ALL) as running:
            for start in range(0, receipts, _CHUNK):
                flood(running.runtime_dir, items(min(_CHUNK, receipts - start), sessions), 64, 16)
            found[receipts, sessions] = _save(running)
            say(f"{receipts:,} receipts, {sessions:,} sessions: {found[receipts, sessions]}")
    return found


def _save(running: Broker) -> dict[str, Saved]:
    live = asyncio.run(_save_live(running))
    running.stop()
    saved = {
        each: Saved(live_s=seconds, command_s=_run(running, "save", each.lower()), size=size)
        for each, (seconds, size) in live.items()
    }
    archive = running.state_dir.with_name("archive")
    seconds = _run(running, "save", "campaign", "--to", str(archive))
    running.start()
    return saved | {"archive": Saved(live_s=0.0, command_s=seconds, size=archive.stat().st_size)}


async def _save_live(running: Broker) -> dict[str, tuple[float, int]]:
    """Return the seconds and the bytes of each save; the first one waits until the broker has folded its log."""
    found: dict[str, tuple[float, int]] = {}
    async with lifebus.connect(CLIENT, runtime_dir=running.runtime_dir, timeout=_PATIENCE_S) as bus:
        for each in ("SCENE", *TYPES):
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
