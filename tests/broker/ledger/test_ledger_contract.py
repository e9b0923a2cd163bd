"""Both ledgers keep the same promises."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lifebus_broker.ledger import memory
from lifebus_broker.ledger.memory import MemoryLedger
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Ledger, StoredReceipt
from support.contract_suites.ledger_suite import LedgerContract, Open
from support.receipts import DIGEST, entry, every_row, keyed, recorded

Committed = Callable[[list[StoredReceipt]], None]


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def opened(self) -> Open:
        @asynccontextmanager
        async def open_it(committed: Committed | None = None) -> AsyncIterator[Ledger]:
            ledger = MemoryLedger(committed=committed)
            yield ledger
            await ledger.aclose()

        return open_it

    async def test_it_keeps_the_newest_rows_and_keys_only(self) -> None:
        ledger = MemoryLedger(max_rows=4, max_keys=6)
        rows = await recorded(ledger, keyed(range(10)))
        assert await every_row(ledger, after=6) == rows[6:]
        assert ledger.status().floor == 6
        found = await ledger.find([("alice", "codex", f"k{number:06d}") for number in (3, 4, 9)])
        assert found == [None, (DIGEST, None), (DIGEST, rows[9])]

    async def test_it_keeps_a_bounded_number_of_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory, "MAX_BYTES", 2000)
        ledger = MemoryLedger()
        await recorded(ledger, [entry(number) for number in range(20)])
        assert 0 < ledger.status().size_bytes <= 2000
        assert ledger.status().floor > 0
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
