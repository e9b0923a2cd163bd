"""Every ledger can be read as a log; what only a file can say is here as well."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.log import LogSource
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ports import Ledger
from lifebus_contract import InternalError
from support.contract_suites.log_suite import LogContract, Open
from support.receipts import keyed, recorded


class TestUnkeptLedger(LogContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[tuple[Ledger, LogSource]]:
            async with aclosing(await open_unkept(tmp_path)) as ledger:
                with ledger.open_log() as log:
                    yield ledger, log

        return open_it


class TestSqliteLog(LogContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Open:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[tuple[Ledger, LogSource]]:
            ledger = await SqliteLedger.open(tmp_path / "ledger.db")
            try:
                with SqliteLog(tmp_path / "ledger.db") as log:
                    yield ledger, log
            finally:
                await ledger.aclose()

        return open_it


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def test_who_reads_slowly_neither_holds_a_transaction_nor_misses_a_line(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, keyed(range(1500)))
    with SqliteLog(path) as log:
        lines = log.lines(0, 1500)
        assert next(lines).position == 1
        assert not log._connection.in_transaction
        await recorded(ledger, keyed(range(2000, 2010)))
        assert [line.position for line in lines] == [*range(2, 1501)]
    await ledger.aclose()


async def test_lines_that_are_pruned_under_the_reader_are_missed_aloud(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, keyed(range(1500)))
    with SqliteLog(path) as log:
        lines = log.lines(0, 1500)
        next(lines)
        await ledger.prune(1400, b"")
        with pytest.raises(InternalError) as refused:
            list(lines)
    assert refused.value.code == "history_pruned"
    await ledger.aclose()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("DELETE FROM rows WHERE position = 7", "row 7: it is missing"),
        ("DELETE FROM keys WHERE position = 7", "row 7: idempotency key"),
        ("UPDATE keys SET digest = zeroblob(20) WHERE position = 7", "row 7: idempotency key"),
        ("UPDATE rows SET receipt = x'00' WHERE position = 7", "row 7: does not hold a receipt"),
        ("UPDATE base SET body = x'00'", "base"),
    ],
)
async def test_what_is_not_as_it_was_written_is_not_served(path: Path, damage: str, expected: str) -> None:
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, keyed(range(10)))
    await ledger.prune(2, b"base")
    await ledger.aclose()
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    with SqliteLog(path) as log, pytest.raises(InternalError, match=expected) as refused:
        (log.base(), list(log.lines(2, 10)))
    assert refused.value.code == "ledger_damaged"


def test_a_file_that_is_not_there_or_no_ledger_is_refused(path: Path) -> None:
    with pytest.raises(InternalError) as refused:
        SqliteLog(path)
    assert refused.value.code == "ledger_failed"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(InternalError) as refused:
        SqliteLog(path)
    assert refused.value.code == "ledger_failed"
