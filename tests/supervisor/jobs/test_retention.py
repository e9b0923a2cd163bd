"""Retention at work on a real ledger: what is too old or too much goes, and it is said what went."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from lifebus_broker.ledger import retention
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Query
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_supervisor.jobs.retention import RetentionTask
from support.integration.following import until
from support.logs import base_at
from support.receipts import append, every_receipt, keyed, recorded

DAY = 86_400
NOW = 1_790_000_000
NO_LIMITS = {"keep_days": 0, "keep_mb": 0}


def retaining(ledger: SqliteLedger, path: Path, names: Iterable[str] = (), **settings: int) -> RetentionTask:
    async def consumers_affected() -> list[str]:
        return list(names)

    async def base(position: int) -> bytes:
        return base_at(path, position)

    limits = RetentionSettings(**{**NO_LIMITS, **settings})
    return RetentionTask(
        limits, ledger, base_at=base, consumers_affected=consumers_affected, retention_clock=lambda: NOW
    )


async def fill(ledger: SqliteLedger, first: int, many: int, **changes: object) -> None:
    for start in range(first, first + many, 500):
        await recorded(ledger, keyed(range(start, min(start + 500, first + many)), **changes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def test_receipts_older_than_the_days_are_dropped_and_no_others(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    try:
        for age in (40, 31, 30, 2):
            await fill(ledger, age * 10, 3, at_epoch_s=NOW - age * DAY)
        task = retaining(ledger, path, ["mirror"], keep_days=30)
        assert await task.enforce() == retention.PruneDecision(6, "age")
        assert ledger.status().floor == 6
        assert [one.position for one in await every_receipt(ledger, after=6)] == list(range(7, 13))
        last = task.report().last
        assert last is not None
        assert (last.reason, last.after, last.until, last.consumers) == ("age", 0, 6, ("mirror",))
        assert await task.enforce() is None
    finally:
        await ledger.aclose()


@pytest.mark.parametrize(("dedupe_days", "code"), [(0, "history_pruned"), (5, "history_pruned"), (1, None)])
async def test_the_keys_of_dropped_receipts_are_known_for_the_days_that_are_asked_for(
    path: Path, dedupe_days: int, code: str | None
) -> None:
    ledger = await SqliteLedger.open(path, clock=lambda: NOW - 2 * DAY)
    try:
        await fill(ledger, 0, 3, at_epoch_s=NOW - 40 * DAY)
        task = retaining(ledger, path, keep_days=30)
        await task.enforce()
        await until(lambda: ledger._file.store.pruned >= 3)
        await retaining(ledger, path, dedupe_days=dedupe_days).enforce()
        (answer,) = await append(ledger, keyed([1]))
        assert (None if answer.refusal is None else answer.refusal.code) == code
    finally:
        await ledger.aclose()


async def test_a_ledger_that_is_too_large_shrinks_to_its_limit_and_keeps_the_newest(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    try:
        await fill(ledger, 0, 6_000)
        assert await retaining(ledger, path).enforce() is None, "0 is no limit"
        task = retaining(ledger, path, keep_mb=2)
        decision = await task.enforce()
        assert decision is not None
        assert decision.reason == "size"
        assert 0 < decision.floor <= ledger.head - retention.LEAST_ROWS
        assert (await ledger.read(Query(after=decision.floor))).stored[0].position == decision.floor + 1
        assert (await ledger.read(Query(after=decision.floor - 1))).snapshot_required
    finally:
        await ledger.aclose()


async def test_a_ledger_that_takes_no_writes_now_is_looked_at_again_later(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await fill(ledger, 0, 10, at_epoch_s=NOW - 40 * DAY)
    task = retaining(ledger, path, keep_days=30)
    await ledger.aclose()
    assert await task.enforce() is None
    assert task.report().last is None
