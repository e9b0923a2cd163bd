"""What one emission costs between its bytes and its answer, without sockets and without a sync.

`python -m bench.emission_cost` prints processor time a receipt: decode, plan, digest, number, link, insert, encode.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel

from bench.measures.flood import one_message
from bench.workload import items
from lifebus_adapters import ADAPTERS
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_contract import IdSource, LifebusError, encode_msgpack
from lifebus_supervisor.api.emissions import EmissionVerbs
from lifebus_transports.framing.frames import decode_body
from lifebus_transports.messages.emissions import Emit

_ROUNDS: Final = 8
_RECEIPTS: Final = 4_096
_A_TURN: Final = 128


class _Answers:
    """Encodes answers and counts them; `all_there` is set once there are as many as are expected."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self.all_there = anyio.Event()

    def answer(self, body: object) -> None:
        encode_msgpack(body)
        self._missing -= 1
        if not self._missing:
            self.all_there.set()

    def refuse(self, fault: LifebusError) -> None:
        raise fault


def main() -> None:
    """Measure batches and single messages and print the best round of each."""
    for size in (64, 1):
        rounds = asyncio.run(_measure(size))
        print(f"messages of {size:2}: {min(rounds):.1f} µs a receipt, best of {len(rounds)} rounds")


async def _measure(size: int) -> list[float]:
    rounds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with anyio.create_task_group() as tasks:
            fanout = Fanout()
            ledger = await SqliteLedger.open(Path(folder) / "ledger.db", committed=fanout.publish, durability="relaxed")
            bus = EventBus(
                registry=Registry(adapter.registered for adapter in ADAPTERS.values()),
                ledger=ledger,
                fanout=fanout,
                ids=IdSource(lambda: time.time_ns() // 1_000_000, os.urandom),
                clock=time.time,
                tasks=tasks,
            )
            emit = EmissionVerbs(bus).handlers()["emit"]
            rounds += [await _round(emit, list(_messages(size))) for _ in range(_ROUNDS)]
            await ledger.aclose()
    return rounds


def _messages(size: int) -> Iterator[bytes]:
    work = items(_RECEIPTS)
    for start in range(0, len(work), size):
        yield one_message(start, work[start : start + size])[1]


async def _round(emit: Callable[[Any, Emit], object], messages: Sequence[bytes]) -> float:
    """Return the microseconds of processor time a receipt, of all threads."""
    answers = _Answers(len(messages))
    gc.collect()
    began = time.process_time()
    a_turn = max(1, _A_TURN * len(messages) // _RECEIPTS)
    for start in range(0, len(messages), a_turn):
        for message in messages[start : start + a_turn]:
            emit(answers, decode_body(message, Emit))
        await anyio.lowlevel.checkpoint()
    await answers.all_there.wait()
    return 1e6 * (time.process_time() - began) / _RECEIPTS


if __name__ == "__main__":
    main()
