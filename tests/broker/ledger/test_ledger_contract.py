"""The ledger keeps the same promises whether its file is kept or not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from lifebus_broker.ledger.backends import LedgerLocation
from lifebus_broker.ledger.factory import open_ledger, open_unkept
from lifebus_broker.ledger.retention import LEAST_ROWS, Limits
from lifebus_broker.ledger.sqlite import ledger as sqlite_ledger
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.writing import maintenance
from lifebus_broker.ports import Ledger, StoredReceipt
from support.contract_suites.ledger_suite import LedgerContract, Open
from support.patience import PATIENCE_S
from support.receipts import DIGEST, append, every_receipt, keyed, recorded

Committed = Callable[[list[StoredReceipt]], None]


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


class TestUnkeptLedger(LedgerContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it(committed: Committed | None = None) -> AsyncIterator[Ledger]:
            async with aclosing(await open_unkept(tmp_path, committed=committed)) as ledger:
                yield ledger

        return open_it

    async def test_nothing_is_left_of_it(self, opened: Open, tmp_path: Path) -> None:
        async with opened() as ledger:
            await recorded(ledger, keyed(range(10)))
            epoch = ledger.epoch
            assert names(tmp_path)
        assert names(tmp_path) == []
        async with opened() as ledger:
            assert (ledger.head, ledger.epoch == epoch) == (0, False)

    async def test_what_one_that_was_killed_left_is_removed_by_the_next(self, opened: Open, tmp_path: Path) -> None:
        (tmp_path / "ledger-not-kept-1").mkdir()
        (tmp_path / "ledger-not-kept-1" / "ledger.db").write_bytes(b"left")
        (tmp_path / "other").mkdir()
        async with opened():
            assert not (tmp_path / "ledger-not-kept-1").exists()
        assert names(tmp_path) == ["other"]

    async def test_what_one_that_was_killed_left_is_removed_by_a_ledger_that_is_kept_too(self, tmp_path: Path) -> None:
        left = tmp_path / "run" / "ledger-not-kept-1"
        left.mkdir(parents=True)
        (left / "ledger.db").write_bytes(b"receipts")
        location = LedgerLocation("sqlite", tmp_path / "ledger.db")
        async with aclosing(await open_ledger(location, scratch=left.parent)):
            assert names(left.parent) == []

    async def test_it_says_what_it_lacks(self, opened: Open) -> None:
        async with opened() as ledger:
            status = ledger.status()
            assert (status.backend, status.durability) == ("memory", "none")
            assert status.lacks == ("durable", "snapshots", "retention", "local_file")

    async def test_it_keeps_the_newest_rows_only_and_no_key_for_ever(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite_ledger, "NOT_KEPT_BYTES", 2 * 1_048_576)
        monkeypatch.setattr(maintenance, "_MEASURE_S", 0.0)
        monkeypatch.setattr(maintenance, "time", SimpleNamespace(time=count(1).__next__))
        async with opened() as ledger:
            for first in range(0, 12_000, 500):
                await recorded(ledger, keyed(range(first, first + 500)))
            await recorded(ledger, keyed([12_000]))
            async with asyncio.timeout(PATIENCE_S):
                while await ledger.plan_prune(Limits(keep_bytes=2 * 1_048_576), 0):
                    await append(ledger, [])  # the writer looks after each transaction
            stored = await every_receipt(ledger, after=ledger.status().floor)
            assert LEAST_ROWS <= len(stored) < 6_000
            scopes = [("alice", "codex", f"k{number:06d}") for number in (0, 12_000)]
            assert await ledger.find(scopes) == [None, (DIGEST, stored[-1])]
            with ledger.open_log() as log:
                assert log.base() is None, "nobody dumped what the dropped receipts said"
            assert await ledger.verify() == []


class TestSqliteLedger(LedgerContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it(committed: Committed | None = None) -> AsyncIterator[Ledger]:
            ledger = await SqliteLedger.open(tmp_path / "ledger.db", committed=committed)
            try:
                yield ledger
            finally:
                await ledger.aclose()

        return open_it

    async def test_it_lacks_nothing(self, opened: Open) -> None:
        async with opened() as ledger:
            assert ledger.status().lacks == ()
