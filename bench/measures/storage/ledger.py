"""The durable ledger alone: rows a second and CPU microseconds a row, by batch, sessions and size of the ledger.

One process, appends made on the event loop with a bounded number in flight, receipts made beforehand, every row
acknowledged before it counts.  Run: ``python -m bench.measures.storage.ledger [--rows 100000] [--large 1000000]``.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import apsw

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import AppendResult, NewReceipt
from lifebus_contract import IntegrationMode, LifecycleEvent, Receipt, ReceiptStatus, encode_json

_IN_FLIGHT = 2048
_PART = 16_384


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run measured; CPU is that of the writer thread and of the loop's thread, acks in milliseconds."""

    rows_a_second: float
    writer_us: float
    loop_us: float
    ack_p50: float
    ack_p99: float
    ack_max: float


def entries(first: int, count: int, sessions: int) -> list[NewReceipt]:
    """Return entries numbered from `first`, going round the sessions."""
    return [
        NewReceipt(receipt=receipt(number, number % sessions), digest=b"d" * 16)
        for number in range(first, first + count)
    ]


def receipt(number: int, session: int) -> Receipt:
    """Return a receipt of about 650 bytes with an ascending idempotency key."""
    return Receipt(
        adapter_id="codex",
        at_epoch_s=1_790_000_000 + number // 50_000,
        capability_degradations=(),
        client_id="bench",
        event=LifecycleEvent.FRAME_OPENED,
        event_id=f"evt_01K{number:023d}",
        failure_class=None,
        harness_run_id=None,
        harness_session_id=f"session-{session:06d}",
        harness_task_id=None,
        idempotency_key=f"01K{number:023d}",
        integration_mode=IntegrationMode.NATIVE_HOOK,
        invocation_id=f"inv_01K{number:023d}",
        parent_receipt_id=None,
        payload_receipts=(),
        receipt_id=f"lfr_01K{number:023d}",
        retry_class=None,
        schema_version="lifeloop.v0.2",
        sequence=None,
        status=ReceiptStatus.OBSERVED,
        telemetry_summary={"frame_id": f"frame-{number % 7}", "harness_sequence": number},
        warnings=(),
    )


async def flood(ledger: SqliteLedger, work: list[NewReceipt], batch: int) -> list[float]:
    """Append `work` in calls of `batch` entries, `_IN_FLIGHT` entries in flight; return the time to each ack."""
    waits: list[float] = []
    todo = deque(work[start : start + batch] for start in range(0, len(work), batch))
    flying = max(1, _IN_FLIGHT // batch)
    finished = asyncio.get_running_loop().create_future()
    left = len(todo)

    def send() -> None:
        part, begun = todo.popleft(), time.perf_counter()

        def done(results: list[AppendResult]) -> None:
            nonlocal left
            waits.append(time.perf_counter() - begun)
            left -= 1
            if any(result.stored is None or result.replayed for result in results):
                finished.set_exception(RuntimeError("a row was not recorded"))
            elif todo:
                send()
            elif not left:
                finished.set_result(None)

        if (refusal := ledger.append(part, done)) is not None:
            finished.set_exception(RuntimeError(refusal.detail))

    for _ in range(min(flying, len(todo))):
        send()
    await finished
    return waits


async def measure(rows: int, batch: int, sessions: int, prefill: int) -> Figures:
    """Fill a new ledger with `prefill` rows, then time `rows` more."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = await SqliteLedger.open(Path(directory) / "ledger.db")
        try:
            for first in range(0, prefill, _PART):
                await flood(ledger, entries(first, min(_PART, prefill - first), sessions), 64)
            # The thread's own clock: other processes on the machine do not change it.
            writer = time.pthread_getcpuclockid(ledger._writer._thread.ident or 0)  # noqa: SLF001  the bench looks inside
            wall = writer_s = loop_s = 0.0
            waits: list[float] = []
            for first in range(prefill, prefill + rows, _PART):
                # Made outside the clock, part by part: a million receipts at once would fill the memory.
                work = entries(first, min(_PART, prefill + rows - first), sessions)
                begun = (time.perf_counter(), time.clock_gettime(writer), time.thread_time())
                waits += await flood(ledger, work, batch)
                wall += time.perf_counter() - begun[0]
                writer_s += time.clock_gettime(writer) - begun[1]
                loop_s += time.thread_time() - begun[2]
        finally:
            await ledger.aclose()
    quantiles = statistics.quantiles(waits, n=100)
    micro = 1e6 / rows
    return Figures(
        rows / wall, writer_s * micro, loop_s * micro, quantiles[49] * 1e3, quantiles[98] * 1e3, max(waits) * 1e3
    )


def main() -> None:
    """Measure every combination and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows a run")
    parser.add_argument("--large", type=int, default=1_000_000, help="rows in the large ledger")
    parser.add_argument("--switch-interval", type=float, default=sys.getswitchinterval(), help="seconds")
    parser.add_argument("--only", help="batch,sessions,prefilled")
    options = parser.parse_args()
    # The writer's thread and the event loop share one interpreter: how often they change places shows.
    sys.setswitchinterval(options.switch_interval)
    print(
        f"SQLite {apsw.sqlite_lib_version()}, WAL, synchronous=FULL; {len(encode_json(receipt(1, 1)))} bytes a receipt"
    )
    print(f"{options.rows} rows a run, {_IN_FLIGHT} entries in flight, {os.cpu_count()} cores", end=", ")
    print(f"switch interval {options.switch_interval} s")
    print(f"{'batch':>6}{'sessions':>9}{'prefilled':>10}{'rows/s':>9}{'writer µs':>10}{'loop µs':>9}", end="")
    print(f"{'ack ms p50/p99/max':>22}")
    for batch, sessions, prefill in plan(options.only, options.large):
        found = asyncio.run(measure(options.rows, batch, sessions, prefill))
        print(f"{batch:>6}{sessions:>9}{prefill:>10}{found.rows_a_second:>9.0f}", end="")
        print(f"{found.writer_us:>10.2f}{found.loop_us:>9.2f}", end="")
        print(f"{f'{found.ack_p50:.1f}/{found.ack_p99:.1f}/{found.ack_max:.1f}':>22}", flush=True)


def plan(only: str | None, large: int) -> list[tuple[int, int, int]]:
    """Return (batch, sessions, prefilled) of each run."""
    if only:
        batch, sessions, prefill = map(int, only.split(","))
        return [(batch, sessions, prefill)]
    few, many = 10, 10_000
    return [
        (64, few, 1_000),
        (64, many, 20_000),
        (64, few, large),
        (64, many, large),
        (1, few, 1_000),
        (512, few, 1_000),
    ]


if __name__ == "__main__":
    main()
