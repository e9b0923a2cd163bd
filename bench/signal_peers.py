"""An observer and a follower of signals, each in a process of its own.

`python -m bench.signal_peers observe RUNTIME_DIR ORIGINS SIGNALS RATE` prints `ready`, waits for a line, sends, and
prints `done SECONDS`; a RATE of 0 is as fast as it goes, otherwise so many signals a second until it is killed.
`python -m bench.signal_peers follow RUNTIME_DIR SIGNALS` prints `ready`, then `done SECONDS GAPS`.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path

import msgspec
import zmq

import lifebus
from bench.child import child
from lifebus._internal.connection import Connection
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.signals import Observe, ObserveAnswer, ObservedSignal

BATCH = 256
PARAMS_BYTES = 200
_TIMEOUT_S = 60


def peer(role: str, *arguments: object) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Run one of the two for the length of a block, which starts when it is ready."""
    return child("bench.signal_peers", role, *arguments)


def go(process: "subprocess.Popen[str]") -> None:
    """Let an observer begin."""
    if process.stdin is not None:
        process.stdin.write("go\n")
        process.stdin.flush()


def some_signal(thread: str) -> ObservedSignal:
    """Return a signal as a streaming answer has thousands of."""
    event = "app_server.item.agent_message.delta"
    envelope = {
        "source": "app_server",
        "signalType": "notification",
        "eventType": event,
        "method": "item/agentMessage/delta",
        "receivedAt": "2026-11-22T04:00:00.000Z",
        "context": {"threadId": thread, "turnId": "turn-1"},
        "params": {"threadId": thread, "turnId": "turn-1", "delta": "x" * (PARAMS_BYTES - 50)},
        "session": None,
    }
    return ObservedSignal(thread=thread, event_type=event, signal=msgspec.json.encode(envelope))


async def _observe(runtime_dir: str, origins: int, signals: int, rate: int) -> None:
    """Be so many observers, each with one thread, which together send so many signals."""
    size = BATCH if not rate else max(1, min(BATCH, rate // origins // 20))
    with zmq.Context() as context, closing(Connection(context, Path(runtime_dir))) as connection:
        await connection.ask("ping", Nothing(), Nothing, timeout=_TIMEOUT_S)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        started = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(origins):
                share = signals // origins if not rate else sys.maxsize
                pause = size * origins / rate if rate else 0.0
                tasks.create_task(_report(connection, f"t{number}", share, size, pause))
        print(f"done {time.perf_counter() - started:.3f}", flush=True)


async def _report(connection: Connection, thread: str, signals: int, size: int, pause: float) -> None:
    origin, first, one = f"{thread}-{time.time_ns()}", 1, some_signal(thread)
    due = time.perf_counter()
    while first <= signals:
        batch = (one,) * min(size, signals - first + 1)
        body = Observe(client_id="bench", adapter_id="codex", origin=origin, first=first, observations=batch)
        await connection.ask("observe", body, ObserveAnswer, timeout=_TIMEOUT_S)
        first += len(batch)
        due += pause
        await asyncio.sleep(max(0.0, due - time.perf_counter()))


async def _follow(runtime_dir: str, signals: int) -> None:
    gaps = 0
    async with lifebus.connect("bench", runtime_dir=runtime_dir, timeout=_TIMEOUT_S) as bus:
        following = bus.signals(since="start", gaps="yield")
        print("ready", flush=True)
        started = time.perf_counter()
        async for item in following:
            gaps += isinstance(item, lifebus.Gap)
            signals -= not isinstance(item, lifebus.Gap)
            if signals == 0:
                break
    print(f"done {time.perf_counter() - started:.3f} {gaps}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "observe":
        asyncio.run(_observe(sys.argv[2], *[int(argument) for argument in sys.argv[3:]]))
    else:
        asyncio.run(_follow(sys.argv[2], int(sys.argv[3])))
