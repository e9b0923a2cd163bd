"""Many jobs: what is forgotten is dropped together, what is kept is read together."""

import sqlite3
from collections import Counter
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.records import append_records
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Journal, NewRecord
from lifebus_contract import StateConflict
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import JobState
from lifebus_supervisor.queue import dropping
from lifebus_supervisor.queue.ports import AttemptTools
from lifebus_supervisor.queue.records import JobDefinition, JobStanding, WholeJob, encode_record
from lifebus_supervisor.queue.rules.attempts import AttemptEnd
from support.integration.following import until
from support.patience import PATIENCE_S
from support.queue_box import queue_box

FORGOTTEN = 10_000
KEPT_IDS = 100
MOST_ROWS = 10 + KEPT_IDS + dropping.REMOVE_EVERY


async def test_what_is_forgotten_is_dropped_in_few_writes_and_what_is_kept_is_read_in_few(tmp_path: Path) -> None:
    async with aclosing(await SqliteLedger.open(tmp_path / "ledger.db")) as ledger:
        counting: Any = CountingJournal(ledger.journal)
        async with queue_box(counting, keep=10, concurrency=32, max_jobs=1_000, max_per_project=1_000) as box:
            box.runner.run = at_once  # type: ignore[method-assign]
            async with anyio.create_task_group() as tasks:
                for number in range(300):
                    tasks.start_soon(box.add, f"j{number}", f"p{number % 20}")
            await until(lambda: not box.table.indexes.open_count and len(box.table.indexes.jobs) == 200)
            kept = set(box.table.indexes.jobs)
            await until(lambda: len(box.runner.forgotten) == 100)
            with anyio.fail_after(PATIENCE_S):
                while {one.stream for one in await ledger.journal.read_all("job/")} != {f"job/{name}" for name in kept}:
                    pass
        # One a job would be a hundred; rounds come half a second apart.
        assert counting.calls["drop"] == 0
        assert counting.calls["drop_all"] < 50
        counting.calls.clear()
        async with queue_box(counting, keep=10) as box:
            assert set(box.table.indexes.jobs) == kept
            assert {box.state(name) for name in kept} == {"completed"}
        assert counting.calls.total() <= 3


async def test_ten_thousand_forgotten_jobs_leave_no_more_in_the_file_than_some_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropping, "GATHER_S", 0)
    monkeypatch.setattr(dropping, "KNOWN", KEPT_IDS)
    file, names = tmp_path / "ledger.db", [f"j{number:05d}" for number in range(FORGOTTEN)]
    async with aclosing(await SqliteLedger.open(file)) as ledger:
        for first in range(0, FORGOTTEN, 2_000):
            bodies = [NewRecord(f"job/{name}", whole(name)) for name in names[first : first + 2_000]]
            await append_records(ledger.journal, bodies)
        async with queue_box(ledger.journal, keep=10) as box:
            with anyio.move_on_after(PATIENCE_S):
                while len(await ledger.journal.streams("job/")) > MOST_ROWS:
                    pass
            assert len(await ledger.journal.streams("job/")) <= MOST_ROWS
            assert len(box.table.indexes.jobs) == 10
            # The newest ones are known, so that no call repeats them; older ones are as if they had never been.
            with pytest.raises(StateConflict):
                await box.add(names[-11])
            await box.add(names[FORGOTTEN // 2])
            assert await ledger.verify() == []
    assert rows_of(file) <= MOST_ROWS + 2  # beside the events of one project, and what stands for the removed ones
    async with aclosing(await SqliteLedger.open(file)) as ledger:
        assert await ledger.verify() == []
        async with queue_box(ledger.journal, keep=10) as box:
            assert len(box.table.indexes.jobs) == 11


def whole(name: str) -> bytes:
    """A job that is over, as one record."""
    definition = JobDefinition(
        job_id=name, type="t", version=1, project_id="p", digest="d", max_attempts=1, time_limit_ms=1_000,
        cancel_grace_ms=1, pause=RetryPause(),
    )  # fmt: skip
    standing = JobStanding(
        definition=definition, payload={}, state=JobState.COMPLETED, created_at_ms=int(name[1:]),
        completed_at_ms=int(name[1:]),
    )  # fmt: skip
    return encode_record(WholeJob(standing=standing))


def rows_of(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as plain:
        return int(plain.execute("SELECT count(*) FROM note_streams").fetchone()[0])


async def test_a_record_that_cannot_be_read_costs_its_own_job_alone() -> None:
    async with aclosing(await open_unkept()) as ledger:
        async with queue_box(ledger.journal) as box:
            for name in ("a", "b", "c"):
                await box.add(name, name)
                await box.end(name, 1)
        written = anyio.Event()
        bad = [NewRecord("job/b", b"no record"), NewRecord("job/b", b"none either")]
        assert ledger.journal.append(bad, lambda _: written.set()) is None
        await written.wait()
        async with queue_box(ledger.journal) as box:
            assert sorted(box.table.indexes.jobs) == ["a", "c"]
            records = (await ledger.journal.read("job/a")).records
            assert box.table.indexes.jobs["a"].records == len(records) == 3
            assert box.table.indexes.jobs["a"].size == sum(len(one.body) for one in records)


async def at_once(job: JobStanding, tools: AttemptTools) -> AttemptEnd:
    """Make an attempt that ends as soon as it begins."""
    return AttemptEnd(result=1)


class CountingJournal:
    """A journal that counts what is read and dropped."""

    def __init__(self, journal: Journal) -> None:
        self.calls: Counter[str] = Counter()
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        if name in {"read", "read_all", "streams", "drop", "drop_all"}:
            self.calls[name] += 1
        return getattr(self._journal, name)
