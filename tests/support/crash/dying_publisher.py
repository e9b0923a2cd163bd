"""The thread-sync example, killed by itself at the Nth of its steps: within a write, before and after fsync and ack.

Run: ``python dying_publisher.py EXAMPLE STEP FILE SESSION…``; STEP 0 lets it live.
"""

import os
import runpy
import signal
import sys
from collections.abc import Iterable
from typing import Any

import lifebus.consumer

_left = 0


def step() -> None:
    """Die here, if it is time."""
    global _left  # noqa: PLW0603  it is the whole state of this program
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def dying_write(descriptor: int, data: bytes, write: Any = os.write) -> int:
    """Write in two pieces."""
    step()
    first: int = write(descriptor, data[: len(data) // 2])
    step()
    return first + int(write(descriptor, data[first:]))


def dying_sync(descriptor: int, sync: Any = os.fsync) -> None:
    step()
    sync(descriptor)
    step()


async def dying_ack(self: lifebus.Deliveries[Any], deliveries: Iterable[Any]) -> None:
    step()
    await _ack(self, deliveries)
    step()


_ack = lifebus.consumer.Deliveries.ack

if __name__ == "__main__":
    example, _left, sys.argv = sys.argv[1], int(sys.argv[2]), ["thread_sync", *sys.argv[3:]]
    lifebus.consumer.Deliveries.ack = dying_ack  # type: ignore[method-assign]
    vars(os).update(write=dying_write, fsync=dying_sync)
    runpy.run_path(example, run_name="__main__")
