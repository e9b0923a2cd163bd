"""A named consumer at work when the journal refuses, and how little of the ledger it looks at."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_broker.consumers import journal
from lifebus_broker.consumers import table as consumer_table
from lifebus_broker.consumers.consumer import Consumer, FetchResult
from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.ledger.refusals import DISK_FULL
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Journal, NewRecord, Page, Query, Record, Refusal
from lifebus_contract import BrokerBusy, InternalError, LifebusError
from lifebus_contract.consumers import ConsumerInfo, ConsumerSettings
from support.contract_suites.journal_suite import noted
from support.integration.following import until
from support.patience import PATIENCE_S
from support.receipts import entry, recorded


class RefusingJournal:
    """A journal that refuses while it is `full`, at once or when the write would have been done; it may be slow.

    A `slow` one takes nothing before `release`, and sets `asked`.
    """

    def __init__(self, journal: Journal) -> None:
        self.full = self.late = self.slow = False
        self.asked = anyio.Event()
        self._kept: list[Callable[[], object]] = []
        self._journal = journal
        self.read, self.streams, self.drop = journal.read, journal.streams, journal.drop
        self.read_all, self.drop_all, self.heads = journal.read_all, journal.drop_all, journal.heads

    def append(self, notes: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]) -> Refusal | None:
        if self.slow:
            self._kept.append(partial(self._journal.append, notes, done))
            self.asked.set()
            return None
        if not self.full:
            return self._journal.append(notes, done)
        if not self.late:
            return DISK_FULL
        return self._journal.append([], lambda _: done(DISK_FULL))

    def release(self) -> None:
        """Take what was held back, and be quick again."""
        self.slow = False
        for take in self._kept:
            take()


class CountingLedger(SqliteLedger):
    """Counts the questions; its journal may refuse.

    `reading` has a read wait until it is set; nothing can be read from behind `damaged`.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.questions: list[Query] = []
        self.refusing = RefusingJournal(super().journal)
        self.reading: anyio.Event | None = None
        self.damaged = 2**53

    @property
    def journal(self) -> Journal:
        return self.refusing

    async def read(self, query: Query) -> Page:
        self.questions.append(query)
        if query.after >= self.damaged:
            raise InternalError("row 3 is damaged", code="row_damaged")
        page = await super().read(query)
        if self.reading is not None:
            await self.reading.wait()
        return page


@asynccontextmanager
async def counting_ledger(directory: Path) -> AsyncIterator[CountingLedger]:
    async with aclosing(await CountingLedger.open(directory / "ledger.db", durability="relaxed")) as ledger:
        yield ledger


async def reloaded(ledger: CountingLedger) -> ConsumerInfo:
    """Return how the consumer stands after a restart of the broker."""
    async with anyio.create_task_group() as tasks:
        table = ConsumerTable(ledger, tasks, lambda: 0.0)
        await table.load()
    return table.require("n").describe(attached=False)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "at the write"])
async def test_what_the_journal_refused_is_never_missed_by_what_it_took_later(tmp_path: Path, late: bool) -> None:
    async with counting_ledger(tmp_path) as ledger:
        await recorded(ledger, [entry(number) for number in range(6)])
        async with anyio.create_task_group() as tasks:
            table = ConsumerTable(ledger, tasks, itertools.count().__next__)
            settings = ConsumerSettings(max_in_flight=2, ack_wait_ms=3_600_000)
            consumer = await table.open("n", settings, client_id="c", epoch=None, after=0)
            result = await consumer.fetch(2, 0)
            assert [one.position for one, _ in result.items] == [1, 2]
            ledger.refusing.full, ledger.refusing.late = True, late
            with pytest.raises(LifebusError, match="full"):
                await consumer.acknowledge(ledger.epoch, [2], 0)
            with pytest.raises(LifebusError, match="full"):
                await consumer.fetch(2, 0)
            ledger.refusing.full = False
            assert (await reloaded(ledger)).position == 0
            result = await consumer.fetch(2, 0)
            assert [one.position for one, _ in result.items] == [3]
            await consumer.acknowledge(ledger.epoch, [3], 0)
            after = await reloaded(ledger)
            assert (after.position, after.scanned, after.open) == (0, 3, 1), "position 1 is still to be done"


@asynccontextmanager
async def consuming(directory: Path) -> AsyncIterator[tuple[CountingLedger, Consumer]]:
    """A consumer of six receipts that is given two at a time."""
    async with counting_ledger(directory) as ledger, anyio.create_task_group() as tasks:
        await recorded(ledger, [entry(number) for number in range(6)])
        table = ConsumerTable(ledger, tasks, itertools.count().__next__)
        settings = ConsumerSettings(max_in_flight=2, ack_wait_ms=3_600_000)
        yield ledger, await table.open("n", settings, client_id="c", epoch=None, after=0)


def tries(result: FetchResult) -> list[tuple[int, int]]:
    """Return position and number of the try of each receipt."""
    return [(one.position, attempt) for one, attempt in result.items]


async def test_nothing_leaves_before_it_is_durable_that_it_was_handed_out(tmp_path: Path) -> None:
    async with consuming(tmp_path) as (ledger, consumer):
        ledger.refusing.slow = True
        fetching = asyncio.ensure_future(consumer.fetch(2, 0))
        await ledger.refusing.asked.wait()
        assert not fetching.done()
        assert (await reloaded(ledger)).open == 0
        ledger.refusing.release()
        assert tries(await fetching) == [(1, 1), (2, 1)]
        assert (await reloaded(ledger)).open == 2


async def test_an_acknowledgement_and_what_is_handed_out_for_it_are_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TOGETHER_S", PATIENCE_S)
    async with consuming(tmp_path) as (ledger, consumer):
        assert tries(await consumer.fetch(2, 0)) == [(1, 1), (2, 1)]
        (before,) = await ledger.journal.streams("cursor/n")
        results: list[FetchResult] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.acknowledge, ledger.epoch, [1, 2], 0)

            async def ask_for_more() -> None:
                results.append(await consumer.fetch(2, 0))

            tasks.start_soon(ask_for_more)
        assert [tries(result) for result in results] == [[(3, 1), (4, 1)]]
        (after,) = await ledger.journal.streams("cursor/n")
        assert after.head == before.head + 1
        stands = await reloaded(ledger)
        assert (stands.position, stands.scanned, stands.open) == (2, 4, 2)


async def test_an_acknowledgement_does_not_wait_long_for_a_slow_read(tmp_path: Path) -> None:
    async with consuming(tmp_path) as (ledger, consumer), anyio.create_task_group() as tasks:
        assert tries(await consumer.fetch(2, 0)) == [(1, 1), (2, 1)]
        ledger.reading = anyio.Event()
        tasks.start_soon(consumer.fetch, 2, PATIENCE_S)
        with anyio.fail_after(PATIENCE_S):
            assert await consumer.acknowledge(ledger.epoch, [1, 2], 0) == 2
        assert (await reloaded(ledger)).position == 2
        ledger.reading.set()


async def test_what_could_not_leave_was_not_tried(tmp_path: Path) -> None:
    async with consuming(tmp_path) as (ledger, consumer):
        ledger.refusing.full = True
        for _try in range(2):
            with pytest.raises(LifebusError, match="full"):
                await consumer.fetch(2, 0)
        ledger.refusing.full, ledger.refusing.slow = False, True
        overtaken = asyncio.ensure_future(consumer.fetch(2, 0))
        await ledger.refusing.asked.wait()
        newer = asyncio.ensure_future(consumer.fetch(2, 0))
        await asyncio.sleep(0)
        ledger.refusing.release()
        assert tries(await overtaken) == []
        assert tries(await newer) == [(1, 1), (2, 1)]


async def test_what_comes_again_leaves_though_nothing_new_can_be_read(tmp_path: Path) -> None:
    async with consuming(tmp_path) as (ledger, consumer):
        assert tries(await consumer.fetch(2, 0)) == [(1, 1), (2, 1)]
        ledger.damaged = 2
        await consumer.acknowledge(ledger.epoch, [1], 0)
        consumer.nack(ledger.epoch, [2], 0)
        assert tries(await consumer.fetch(2, 0)) == [(2, 2)]
        with pytest.raises(LifebusError, match="damaged"):
            await consumer.fetch(2, 0)
        assert consumer.deliveries.in_flight == 1


async def test_what_is_settled_while_it_is_about_to_come_again_does_not_come(tmp_path: Path) -> None:
    async with consuming(tmp_path) as (ledger, consumer):
        assert tries(await consumer.fetch(2, 0)) == [(1, 1), (2, 1)]
        consumer.nack(ledger.epoch, [1, 2], 0)
        ledger.reading = anyio.Event()
        asked = len(ledger.questions)
        fetching = asyncio.ensure_future(consumer.fetch(1, 0))
        await until(lambda: len(ledger.questions) > asked)
        await consumer.acknowledge(ledger.epoch, [1], 0)  # during the read
        ledger.reading.set()
        assert tries(await fetching) == [(3, 1)]
        ledger.refusing.slow = True
        fetching = asyncio.ensure_future(consumer.fetch(1, 0))
        await ledger.refusing.asked.wait()
        settling = asyncio.ensure_future(consumer.acknowledge(ledger.epoch, [2], 0))  # during the write
        await asyncio.sleep(0)
        ledger.refusing.release()
        assert tries(await fetching) == []
        assert await settling == 1
        assert (await reloaded(ledger)).position == 2


async def test_a_fetch_asks_for_what_came_since_the_last_one_only(tmp_path: Path) -> None:
    async with counting_ledger(tmp_path) as ledger:
        await recorded(ledger, [entry(number) for number in range(500)])
        async with anyio.create_task_group() as tasks:
            table = ConsumerTable(ledger, tasks, itertools.count().__next__)
            settings = ConsumerSettings(sessions=(("codex", "rare"),))
            consumer = await table.open("n", settings, client_id="c", epoch=None, after=0)
            assert (await consumer.fetch(10, 0)).items == ()
            asked = len(ledger.questions)
            assert (await consumer.fetch(10, 0)).items == ()
            assert len(ledger.questions) == asked, "nothing came: there is nothing to look at"
            await recorded(ledger, [entry(501), entry(502, harness_session_id="rare")])
            result = await consumer.fetch(10, 0)
            assert [one.position for one, _ in result.items] == [502]
            assert [query.after for query in ledger.questions[asked:]] == [500]


async def test_notes_that_cannot_be_read_keep_the_broker_from_starting_and_say_whose_they_are(tmp_path: Path) -> None:
    async with counting_ledger(tmp_path) as ledger:
        await noted(ledger.journal, ("cursor/mirror", b'{"note":"from the future"}'))
        async with anyio.create_task_group() as tasks:
            with pytest.raises(LifebusError, match="cursor `mirror`") as refused:
                await ConsumerTable(ledger, tasks, lambda: 0.0).load()
        assert refused.value.code == "ledger_damaged"


async def test_there_is_an_end_to_the_number_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with counting_ledger(tmp_path) as ledger:
        monkeypatch.setattr(consumer_table, "MAX_CONSUMERS", 2)
        async with anyio.create_task_group() as tasks:
            table = ConsumerTable(ledger, tasks, lambda: 0.0)
            for name in ("a", "b"):
                await table.open(name, ConsumerSettings(), client_id="c", epoch=None, after=None)
            with pytest.raises(BrokerBusy, match="evict one"):
                await table.open("c", ConsumerSettings(), client_id="c", epoch=None, after=None)
            await table.evict("a")
            await table.open("c", ConsumerSettings(), client_id="c", epoch=None, after=None)
            assert [consumer.name for consumer in table.all()] == ["b", "c"]
