"""A broker under everything at once for a while: memory, descriptors and threads stay, and nothing is wrong after."""

from collections.abc import Callable
from typing import Any

import pytest

import lifebus
from support.broker_process import broker_process
from support.crash.soak import MEBIBYTE, SOMETIMES, Soak, warnings_of
from support.effort import TORTURE, effort
from support.patience import PATIENCE_S
from support.running import short_directory

SECONDS = effort(5, 7_200)
GROWTH = 4 * MEBIBYTE
"""What the broker may hold more at rest after the last third than after the second: nothing is kept for ever."""
CACHES = 160 * MEBIBYTE
"""What it may hold more at work: 64 MiB of the writer's pages, those of readers, and what allocators keep a thread."""
KEPT = 96 * MEBIBYTE
"""What is kept, and a write-ahead log of 64 MiB."""
KEY_BYTES = 64
"""What a dropped receipt leaves at most, for `retention.dedupe_days` and whatever `keep_mb` says: a tombstone
(tests/broker/ledger/test_tombstone_size.py)."""
SETTINGS: dict[str, Any] = {
    "LIFEBUS_RETENTION_KEEP_MB": "4",
    "LIFEBUS_RETENTION_CHECK_S": "1",
    "LIFEBUS_SIGNALS_KEEP_MB": "1",
    "LIFEBUS_LIMITS_BACKFILLS": "4",
}


@pytest.mark.slow
async def test_a_broker_under_everything_at_once_stays_as_large_as_it_is(
    record_property: Callable[[str, object], None],
) -> None:
    with short_directory() as directory:
        async with broker_process(directory, **SETTINGS) as broker:
            soak, rests = Soak(broker), list[int]()
            for third in range(3):
                await soak.run(SECONDS / 3, until_seen=third == 2)
                rests += [await soak.rest()] if TORTURE >= 1 else []
            async with lifebus.connect("after", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                faults = (await bus.verify()).faults
            size = sum(path.stat().st_size for path in broker.ledger_path.parent.glob("ledger.db*"))
            assert await broker.terminate() == 0
            warnings = warnings_of(broker)
    samples = soak.samples
    record_property("seconds", SECONDS)
    record_property("acknowledged", soak.acknowledged)
    for what in SOMETIMES:
        record_property(what, soak.seen[what])
    record_property("RSS MiB", f"{samples.memory[0] // MEBIBYTE} -> {samples.memory[-1] // MEBIBYTE}")
    record_property("RSS at work, MiB", samples.course())
    record_property("RSS at rest after each third, MiB", [round(rest / MEBIBYTE, 1) for rest in rests])
    record_property("ledger files MiB", size // MEBIBYTE)
    record_property("warnings", dict(warnings))
    assert faults == ()
    assert [one for one in warnings if "pruned meanwhile" not in one] == [], "such a save is made again at once"
    assert soak.missing == []
    assert max(samples.memory) - samples.memory[0] < CACHES
    assert not rests or rests[-1] - rests[-2] < GROWTH
    assert abs(samples.grown(samples.descriptors)) <= 12, "connections come and go"
    assert abs(samples.grown(samples.threads)) <= 4
    assert size < KEPT + soak.acknowledged * KEY_BYTES, "what is kept, and the tombstones of what was dropped"
