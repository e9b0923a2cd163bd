"""The log of signals: numbers without holes, known origins, bounded room, nothing published before it is durable."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_broker.signals.log import SignalLog, StoredSignal
from lifebus_broker.signals.quota import RECENT
from lifebus_contract import BrokerBusy
from support.crash.disks import SlowDisk
from support.effort import effort
from support.integration.following import until
from support.patience import PATIENCE_S

MIB = 1_048_576


class Seen(Struct, frozen=True):
    thread: str
    event_type: str = "app_server.error"
    signal: bytes = b"{}"


class Listening:
    """A log with what it published, whose quota is enforced meanwhile."""

    def __init__(self, log: SignalLog) -> None:
        self.log = log
        self.published: list[tuple[str, str, list[int]]] = []
        log.listen(self._hear)
        self._enforcing, self._enforce = False, log._enforce
        log._enforce = self._watched  # type: ignore[method-assign]

    @property
    def is_within_quota(self) -> bool:
        """Whether everything that is too much is dropped and counted."""
        return not (self._enforcing or self.log._is_due())

    async def _watched(self) -> None:
        self._enforcing = True
        await self._enforce()
        self._enforcing = False

    def _hear(self, adapter_id: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        self.published.append((adapter_id, thread, [one.sequence for one in signals]))


@asynccontextmanager
async def listening(journal: Journal, *, keep_bytes: int = 64 * MIB) -> AsyncIterator[Listening]:
    log = await SignalLog.open(journal, epoch="e1", keep_bytes=keep_bytes)
    enforcing = asyncio.ensure_future(log.enforce_quota())
    try:
        yield Listening(log)
    finally:
        enforcing.cancel()
        await asyncio.gather(enforcing, return_exceptions=True)


@asynccontextmanager
async def on_slow_disk(directory: Path) -> AsyncIterator[tuple[SlowDisk, Listening]]:
    disk = SlowDisk("slow-signals")
    ledger = await SqliteLedger.open(directory / "ledger.db", vfs=disk.name)
    async with listening(ledger.journal) as it:
        yield disk, it
    await ledger.aclose()
    disk.unregister()


@asynccontextmanager
async def unkept_journal(clock: Callable[[], float] = lambda: 1_700_000_000.0) -> AsyncIterator[Journal]:
    async with aclosing(await open_unkept(clock=clock)) as ledger:
        yield ledger.journal


async def test_what_is_published_is_what_can_be_read_each_threads_signals_together() -> None:
    async with unkept_journal() as journal, listening(journal) as it:
        await it.log.record("o", 4, "codex", [Seen("a"), Seen("b"), Seen("a"), Seen("")])
        await it.log.record("o", 5, "claude", [Seen("a")])
        assert it.published == [("codex", "a", [1, 2]), ("codex", "b", [1]), ("codex", "", [1]), ("claude", "a", [1])]
        assert it.log.take_changed() == {("codex", "a"): 2, ("codex", "b"): 1, ("codex", ""): 1, ("claude", "a"): 1}
        assert it.log.take_changed() == {}
        assert [one.sequence for one in (await it.log.read("codex", "a", 0, 10)).signals] == [1, 2]
        assert (it.log.through("o"), it.log.stored) == (5, 5)


async def test_nothing_is_published_or_known_before_it_is_durable(tmp_path: Path) -> None:
    async with on_slow_disk(tmp_path) as (disk, it):
        disk.gate.clear()
        recording = asyncio.ensure_future(it.log.record("o", 1, "codex", [Seen("a")]))
        await asyncio.to_thread(disk.waiting.wait, 10)
        assert (it.published, it.log.through("o"), recording.done()) == ([], 0, False)
        disk.gate.set()
        await recording
        assert (it.published, it.log.through("o")) == ([("codex", "a", [1])], 1)


async def test_a_full_queue_is_busy_and_what_was_refused_can_come_again(tmp_path: Path) -> None:
    async with on_slow_disk(tmp_path) as (disk, it):
        disk.gate.clear()
        batch = [Seen("a")] * 1_000
        taken = [asyncio.ensure_future(it.log.record(f"o{number}", 1, "codex", batch)) for number in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BrokerBusy):
            await it.log.record("late", 1, "codex", batch)
        disk.gate.set()
        await asyncio.gather(*taken)
        await it.log.record("late", 1, "codex", batch)
        assert [one for _, _, numbers in it.published for one in numbers] == list(range(1, 5_001))


async def test_observers_are_refused_while_what_is_too_much_cannot_be_dropped_fast_enough() -> None:
    async with unkept_journal() as journal:
        log = await SignalLog.open(journal, epoch="e1", keep_bytes=MIB)  # nobody runs its `keep`
        megabyte = [Seen("a", signal=b"x" * 100_000)] * 10
        for number in range(1, 9):
            await log.record("o", number, "codex", megabyte)
        with pytest.raises(BrokerBusy, match="dropped"):
            await log.record("o", 9, "codex", megabyte)
        assert (log.stored, log.through("o")) == (80, 8)


async def test_a_listener_that_fails_costs_neither_the_observer_nor_the_others_anything() -> None:
    async with unkept_journal() as journal:

        def fail(*_: object) -> None:
            raise ValueError("a defect")

        log = await SignalLog.open(journal, epoch="e1", keep_bytes=MIB)
        log.listen(fail)
        it = Listening(log)
        async with asyncio.timeout(PATIENCE_S):
            await log.record("o", 1, "codex", [Seen("a"), Seen("b")])
        assert it.published == [("codex", "a", [1]), ("codex", "b", [1])]


async def test_a_caller_that_is_cancelled_has_recorded_all_the_same() -> None:
    async with unkept_journal() as journal, listening(journal) as it:
        recording = asyncio.ensure_future(it.log.record("o", 1, "codex", [Seen("a")]))
        await asyncio.sleep(0)
        recording.cancel()
        await until(lambda: it.published)
        assert it.log.through("o") == 1


async def test_origins_are_known_after_a_restart_however_many_batches_they_sent() -> None:
    async with unkept_journal() as journal:
        async with listening(journal) as it:
            await it.log.record("quiet", 7, "codex", [])
            for number in range(1, 1_400):
                await it.log.record(f"o{number % 3}", number, "codex", [Seen("a")])
            await until(lambda: it.log._summarised > 1_000)
        (notes,) = [one for one in await journal.streams("observed") if one.stream == "observed"]
        assert notes.head - notes.floor < 1_000
        async with listening(journal) as again:
            assert [again.log.through(name) for name in ("quiet", "o0", "o1", "o2")] == [7, 1_398, 1_399, 1_397]


@settings(max_examples=effort(20, 400), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 40), st.integers(1, 30_000)), min_size=1, max_size=40)
)
async def test_what_is_kept_stays_within_its_bound_and_every_thread_is_whole_above_its_floor(
    batches: list[tuple[str, int, int]],
) -> None:
    async with unkept_journal() as journal:
        recorded = dict.fromkeys("abcd", 0)
        async with listening(journal, keep_bytes=MIB) as it:
            for place, (thread, count, size) in enumerate(batches, 1):
                await it.log.record("o", place, "codex", [Seen(thread, signal=b"x" * size)] * count)
                recorded[thread] += count
            await until(lambda: it.is_within_quota)
            kept = await journal.streams("signal/")
            assert sum(one.bytes for one in kept) <= 3 * MIB  # as much again comes between two looks
            for tip in await it.log.threads("codex"):
                page = await it.log.read("codex", tip.thread, tip.floor, 1_024)
                assert [one.sequence for one in page.signals][:5] == list(range(tip.floor + 1, tip.head + 1))[:5]
                assert tip.head == recorded[tip.thread]
        assert it.log.dropped == sum(one.floor for one in kept)


async def test_who_spoke_last_is_known_after_a_restart_too() -> None:
    now = [1_700_000_000.0]
    async with unkept_journal(lambda: now[0]) as journal:
        names = [f"t{number:03}" for number in range(RECENT + 20)]
        async with listening(journal, keep_bytes=64 * MIB) as it:
            for number, name in enumerate(reversed(names), 1):
                now[0] += 1
                await it.log.record("o", number, "codex", [Seen(name, signal=b"x" * 50_000)])
        async with listening(journal, keep_bytes=2 * MIB) as again:  # less room than before
            await until(lambda: again.log.dropped)
            await until(lambda: again.is_within_quota)
            gone = [tip.thread for tip in await again.log.threads("codex") if tip.floor]
            assert gone == names[-len(gone) :]
            assert 10 <= len(gone) < 20


async def test_a_cursor_below_what_is_kept_gets_no_part_of_it() -> None:
    async with unkept_journal() as journal, listening(journal) as it:
        await it.log.record("o", 1, "codex", [Seen("a")] * 10)
        await journal.drop("signal/codex/a", 4)
        gone = await it.log.read("codex", "a", 3, 10)
        rest = await it.log.read("codex", "a", 4, 3)
        assert (gone.signals, gone.snapshot_required, gone.next, gone.floor) == ((), True, 4, 4)
        assert ([one.sequence for one in rest.signals], rest.next, rest.complete) == ([5, 6, 7], 7, False)


async def test_a_thread_that_is_forgotten_goes_on_with_its_numbers() -> None:
    async with unkept_journal() as journal, listening(journal) as it:
        await it.log.record("o", 1, "codex", [Seen("a"), Seen("ab"), Seen("a")])
        await it.log.forget("codex", "a")
        await it.log.record("o", 2, "codex", [Seen("a")])
        assert [(tip.thread, tip.head, tip.floor) for tip in await it.log.threads("codex")] == [
            ("a", 3, 2),
            ("ab", 1, 0),
        ]
        assert [one.thread for one in await it.log.threads("codex", "a")] == ["a"]
        assert it.log.dropped == 2


async def test_signals_that_come_with_other_records_are_published_once_they_are_committed() -> None:
    async with unkept_journal() as journal, listening(journal) as it:
        new = it.log.new_records("lifebus", "queue/p", [("one", b"{}"), ("two", b"{}")])
        other = NewRecord("job/1", b"state")
        committed: asyncio.Future[list[Record] | Refusal] = asyncio.get_running_loop().create_future()
        assert it.log.append_beside(journal, [other], new, committed.set_result) is None
        assert it.published == []
        records = await committed
        assert not isinstance(records, Refusal)
        assert it.published == [("lifebus", "queue/p", [1, 2])]
        assert (it.log.take_changed(), it.log.stored) == ({("lifebus", "queue/p"): 2}, 2)
        kept = (await it.log.read("lifebus", "queue/p", 0, 10)).signals
        assert [(one.sequence, one.event_type, one.signal) for one in kept] == [(1, "one", b"{}"), (2, "two", b"{}")]
        assert (await journal.read("job/1")).head == 1
