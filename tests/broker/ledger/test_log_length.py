"""The write-ahead log stays short although somebody reads at every moment."""

import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.batching import Batch
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.store import Store
from support.receipts import entry

EPOCH = "0123456789abcdef" * 2


def write(store: Store, many: int) -> None:
    for number in range(store.head, store.head + many):
        batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
        batch.add([entry(number, key=f"k{number}")])
        store.write(batch)


def test_a_log_that_became_too_long_waits_for_its_readers_and_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    log = tmp_path / "ledger.db-wal"
    monkeypatch.setattr(sqlite_store, "_READER_MS", 20_000)
    with closing(Store.open(path, epoch=EPOCH)) as store, closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM rows").fetchall()
        write(store, 50)
        store.checkpoint()
        long = log.stat().st_size
        assert long > 0, "somebody still needs it"
        monkeypatch.setattr(sqlite_store, "_LONGEST_FRAMES", 10)
        letting_go = threading.Timer(0.05, lambda: reader.execute("COMMIT"))
        letting_go.start()
        store.checkpoint()
        letting_go.join()
        assert log.stat().st_size == 0
        assert not store.wal_is_long


def test_a_reader_that_does_not_let_go_leaves_the_log_to_be_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    monkeypatch.setattr(sqlite_store, "_READER_MS", 1)
    monkeypatch.setattr(sqlite_store, "_LONG_FRAMES", 10)
    monkeypatch.setattr(sqlite_store, "_LONGEST_FRAMES", 10)
    with closing(Store.open(path, epoch=EPOCH)) as store, closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM rows").fetchall()
        write(store, 50)
        store.checkpoint()
        was_long = store.wal_is_long
        reader.execute("COMMIT")
        store.truncate_wal()
        assert (was_long, store.wal_is_long) == (True, False)
        assert (tmp_path / "ledger.db-wal").stat().st_size == 0
