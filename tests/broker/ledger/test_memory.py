"""A ledger that nobody writes to gives back the memory that it wrote with, once."""

from contextlib import closing
from pathlib import Path

import apsw

from lifebus_broker.ledger.batching import Batch
from lifebus_broker.ledger.sqlite.schema import executor
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.writing.maintenance import Maintenance
from support.receipts import entry

EPOCH = "0123456789abcdef" * 2
ROOM = (1 << 40, 1 << 41)


def write(store: Store, many: int) -> None:
    batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
    for number in range(store.head, store.head + many):
        batch.add([entry(number, key=f"k{number}")])
    store.write(batch)
    store.checkpoint()


def cached_bytes(store: Store) -> int:
    """Return what SQLite itself says that its pages take."""
    return store.connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]


def test_pages_are_given_back_once_after_a_rest_and_the_next_write_is_there(tmp_path: Path) -> None:
    now = [100.0]
    with closing(Store.open(tmp_path / "ledger.db", epoch=EPOCH)) as store:
        maintenance = Maintenance(store, lambda: ROOM, lambda: now[0])
        assert maintenance.timeout(full=False) is None
        write(store, 2_000)
        assert maintenance.next_task(2_000, full=False) is None
        before = cached_bytes(store)

        now[0] += 1
        assert maintenance.next_task(0, full=False) is None, "somebody asked something, and writing may go on"
        pause_s = maintenance.timeout(full=False)
        assert pause_s is not None
        now[0] += pause_s
        rest = maintenance.next_task(0, full=False)
        assert rest is not None
        rest()
        assert cached_bytes(store) < before / 4
        assert (maintenance.next_task(0, full=False), maintenance.timeout(full=False)) == (None, None)

        write(store, 1)
        assert store.head == 2_001
        assert executor(store.connection)("PRAGMA quick_check").get == "ok"
