"""What keys of dropped receipts cost: so many bytes of the file each, and no memory beyond the writer's cache."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.batching import Batch
from lifebus_broker.ledger.sqlite import schema
from lifebus_broker.ledger.sqlite.schema import executor
from lifebus_broker.ledger.sqlite.store import Store
from support.effort import effort
from support.receipts import keyed

EPOCH = "0123456789abcdef" * 2
BATCH = 256
WARM_UP = 16
BATCHES = effort(64, 1_600)
CACHE_KIB = 256
LEAST_BYTES = 32
"""Key, part of the digest, second and checksum, without what SQLite needs for a row."""
MOST_BYTES = 64
"""By this tests/crash/test_soak.py bounds the files of a ledger."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # tombstones soon take more than this, so that a bound that does not hold shows
    monkeypatch.setattr(schema, "_WRITER_CACHE_KIB", CACHE_KIB)
    with closing(Store.open(tmp_path / "ledger.db", epoch=EPOCH, durability="none")) as opened:
        yield opened


def drop(store: Store, many: int) -> None:
    """Record so many receipts, and drop all of them as retention does."""
    for _ in range(many):
        batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
        batch.add(keyed(range(store.head, store.head + BATCH)))
        store.write(batch)
        store.prune_to(store.head, b"base", 1_790_000_000)
        while store.prune_step():
            pass
        store.checkpoint()


def used_bytes(store: Store) -> int:
    pages, free, size = (value(store, f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def value(store: Store, statement: str) -> int:
    """Return the one number that a statement answers."""
    return int(executor(store.connection)(statement).get)


def test_a_dropped_key_takes_a_bounded_part_of_the_file_and_no_memory_beyond_the_cache(store: Store) -> None:
    drop(store, WARM_UP)
    before, memory = used_bytes(store), apsw.memory_used()
    drop(store, BATCHES)
    grown = used_bytes(store) - before
    assert value(store, "SELECT count(*) FROM tombstones") == (WARM_UP + BATCHES) * BATCH, (
        "none is forgotten before its time"
    )
    assert LEAST_BYTES < grown / (BATCHES * BATCH) < MOST_BYTES
    cache = CACHE_KIB * 1024
    assert apsw.memory_used() - memory < cache < grown / 2, "their pages are in memory within the cache's bound"
