"""Subscribers in a process of their own: each must get every receipt, in order, and says when it has.

`python -m bench.measures.followers RUNTIME_DIR HOW_MANY RECEIPTS` prints `ready`, then `done SECONDS GAPS`.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import lifebus
from bench.child import child


def following(runtime_dir: Path, how_many: int, receipts: int) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Run that process for the length of a block, which starts when all subscribers have joined."""
    return child("bench.measures.followers", runtime_dir, how_many, receipts)


async def _follow(bus: lifebus.Bus, start: lifebus.Position, receipts: int) -> int:
    """Count receipts until all have come; return how many gaps were among them."""
    gaps = 0
    subscription = bus.receipts(since=start, gaps="yield")
    async for item in subscription:
        if isinstance(item, lifebus.Gap):
            gaps += 1
        else:
            receipts -= 1
        if receipts == 0:
            break
    await subscription.aclose()
    return gaps


async def _main(runtime_dir: str, how_many: int, receipts: int) -> None:
    async with lifebus.connect("bench-followers", runtime_dir=runtime_dir, timeout=30) as bus:
        ledger = (await bus.status()).ledger
        # One place for all of them: each has to get exactly the same receipts.
        start = lifebus.Position(ledger.epoch, ledger.head)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_follow(bus, start, receipts)) for _ in range(how_many)]
            print("ready", flush=True)
            started = time.perf_counter()
        gaps = sum(task.result() for task in running)
    print(f"done {time.perf_counter() - started:.3f} {gaps}", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
