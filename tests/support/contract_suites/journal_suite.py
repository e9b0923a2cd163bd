"""What every journal promises; run against each implementation by tests/broker/ledger/test_journal_contract.py."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from lifebus_broker.ledger.record_batch import MAX_QUEUED_RECORDS, MAX_RECORD_BYTES
from lifebus_broker.ports import Journal, Ledger, NewRecord, Record, RecordPage, RecordStream, Refusal
from lifebus_contract import FailureClass, RetryClass
from support.patience import PATIENCE_S
from support.receipts import append, keyed, recorded

Open = Callable[..., AbstractAsyncContextManager[Ledger]]
"""Opens a new, empty ledger whose clock stands at `AT`."""

AT = 1_790_000_000


async def noted(journal: Journal, *records: tuple[str, bytes]) -> list[Record]:
    """Append the notes in one call, and return them as written."""
    answer: asyncio.Future[list[Record] | Refusal] = asyncio.get_running_loop().create_future()
    refusal = journal.append([NewRecord(stream, body) for stream, body in records], answer.set_result)
    assert refusal is None, refusal
    async with asyncio.timeout(PATIENCE_S):
        written = await answer
    assert isinstance(written, list), written
    return written


async def every_record(journal: Journal, stream: str, after: int = 0, **query: int) -> list[Record]:
    """Read page by page until nothing is missing."""
    records: list[Record] = []
    while True:
        page = await journal.read(stream, after, **query)
        records += page.records
        if page.complete:
            return records
        assert page.records, "a page must lead on"
        after = page.records[-1].number


class JournalContract:
    """Subclasses provide the fixture `opened`."""

    async def test_each_stream_counts_from_one_without_holes(self, opened: Open) -> None:
        async with opened() as ledger:
            written = await noted(ledger.journal, ("a", b"1"), ("b", b"2"), ("a", b"3"))
            written += await noted(ledger.journal, ("a", b"4"))
            assert [(record.stream, record.number) for record in written] == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
            assert {record.at_epoch_s for record in written} == {AT}

    async def test_notes_are_read_back_as_they_were_written(self, opened: Open) -> None:
        async with opened() as ledger:
            bodies = [b"", b"\x00\xff", b"x" * 5000, *[b"%d" % number for number in range(300)]]
            written = await noted(ledger.journal, *[("a/\N{SNOWMAN}", body) for body in bodies])
            await noted(ledger.journal, ("a", b"other"))
            assert [record.body for record in written] == bodies
            assert await every_record(ledger.journal, "a/\N{SNOWMAN}", limit=7) == written
            assert await every_record(ledger.journal, "a/\N{SNOWMAN}", 299) == written[299:]

    async def test_a_page_says_where_it_ends_and_whether_more_is_there(self, opened: Open) -> None:
        async with opened() as ledger:
            one, two, three = await noted(ledger.journal, ("a", b"11"), ("a", b"22"), ("a", b"33"))
            page = await ledger.journal.read("a", limit=2)
            assert page == RecordPage(records=(one, two), head=3, floor=0, complete=False)
            page = await ledger.journal.read("a", 2)
            assert page == RecordPage(records=(three,), head=3, floor=0, complete=True)
            page = await ledger.journal.read("a", 3)
            assert page == RecordPage(records=(), head=3, floor=0, complete=True)

    async def test_a_page_is_bounded_in_bytes_but_never_empty_for_it(self, opened: Open) -> None:
        async with opened() as ledger:
            written = await noted(ledger.journal, *[("a", b"12345")] * 4)
            assert (await ledger.journal.read("a", max_bytes=10)).records == tuple(written[:2])
            assert (await ledger.journal.read("a", max_bytes=1)).records == tuple(written[:1])

    async def test_a_stream_that_nobody_wrote_is_empty(self, opened: Open) -> None:
        async with opened() as ledger:
            assert await ledger.journal.read("a") == RecordPage(records=(), head=0, floor=0, complete=True)
            assert await ledger.journal.streams() == []
            assert await ledger.journal.drop("a", 5) == 0

    async def test_streams_are_listed_by_prefix_and_name(self, opened: Open) -> None:
        async with opened() as ledger:
            await noted(ledger.journal, ("b/2", b"12"), ("a", b""), ("b/1", b"1"), ("b/2", b"345"), ("c", b"1"))
            streams = [RecordStream("b/1", 1, 0, 1), RecordStream("b/2", 2, 0, 5)]
            assert await ledger.journal.streams("b/") == streams
            assert [found.stream for found in await ledger.journal.streams()] == ["a", "b/1", "b/2", "c"]

    async def test_streams_that_keep_bytes_are_listed_with_the_one_written_last_first(self, opened: Open) -> None:
        async with opened() as ledger:
            await noted(ledger.journal, ("b/1", b"1"), ("b/2", b"2"), ("b/3", b"3"), ("b/4", b""), ("a", b"1"))
            await noted(ledger.journal, ("b/1", b"45"))
            await ledger.journal.drop("b/2", 1)
            await ledger.journal.drop("b/1", 1)
            streams = [RecordStream("b/1", 2, 1, 2), RecordStream("b/3", 1, 0, 1)]
            assert await ledger.journal.streams("b/", kept=True) == streams

    async def test_dropping_takes_whole_prefixes_and_the_floor_stays_known(self, opened: Open) -> None:
        async with opened() as ledger:
            written = await noted(ledger.journal, *[("a", b"12")] * 5, ("b", b"1"))
            assert await ledger.journal.drop("a", 3) == 3
            page = await ledger.journal.read("a", 1)
            assert (page.records, page.floor, page.head) == (tuple(written[3:5]), 3, 5)
            assert await ledger.journal.drop("a", 1) == 3
            assert await ledger.journal.drop("a", 99) == 5
            assert await ledger.journal.streams("a") == [RecordStream("a", 5, 5, 0)]
            (after,) = await noted(ledger.journal, ("a", b"6"))
            assert after.number == 6
            assert await every_record(ledger.journal, "a") == [after]
            assert await ledger.verify() == []

    async def test_many_streams_are_dropped_at_once(self, opened: Open) -> None:
        async with opened() as ledger:
            names = [f"b/{number:04d}" for number in range(1_500)]
            await noted(ledger.journal, *[(name, b"12") for name in names for _ in range(2)], ("b", b""), ("c", b"1"))
            await ledger.journal.drop_all({"b/0000": 1, "nobody": 7, **dict.fromkeys(names[1:], 99), "b": 0})
            assert await ledger.journal.streams() == [
                RecordStream("b", 1, 0, 0),
                RecordStream("b/0000", 2, 1, 2),
                *[RecordStream(name, 2, 2, 0) for name in names[1:]],
                RecordStream("c", 1, 0, 1),
            ]
            assert [one.number for one in await noted(ledger.journal, ("b/0001", b""), ("nobody", b""))] == [3, 1]
            assert await ledger.verify() == []

    async def test_streams_without_records_are_removed_but_for_the_newest(self, opened: Open) -> None:
        async with opened() as ledger:
            names = [f"b/{number:04d}" for number in range(1_500)]
            await noted(ledger.journal, *[(name, b"12") for name in names], ("b0", b"1"), ("a", b"1"), ("b/9", b"1"))
            await ledger.journal.drop_all(dict.fromkeys([*names[1:], "b0", "a"], 1), ("b/", 2))
            before = await ledger.journal.streams("b/")
            assert [one.stream for one in before] == ["b/0000", "b/1498", "b/1499", "b/9"]
            assert await ledger.journal.heads(["b/0001", "b/1498", "b0", "a", "b/9"]) == [0, 1, 1, 1, 1]
            assert await ledger.verify() == []
            again, other = await noted(ledger.journal, ("b/0001", b"new"), ("b/1498", b"on"))
            assert (again.number, other.number) == (1, 2)
            assert await every_record(ledger.journal, "b/0001") == [again]
            await ledger.journal.drop_all({"b/0001": 1}, ("b/", 0))
            assert [one.stream for one in await ledger.journal.streams("b")] == ["b/0000", "b/1498", "b/9", "b0"]
            assert await ledger.verify() == []

    async def test_the_heads_of_streams_are_known_also_where_nothing_is_kept(self, opened: Open) -> None:
        async with opened() as ledger:
            names = [f"a/{number}" for number in range(700)]
            await noted(ledger.journal, *[(name, b"1") for name in names], ("a/1", b"2"))
            await ledger.journal.drop("a/1", 2)
            heads = [0, 2, *[1] * 300]
            assert await ledger.journal.heads(["a", "a/1", *names[2:302]]) == heads
            answers: list[list[int]] = []
            async with anyio.create_task_group() as tasks:
                for name in ("a/1", "nobody", *names[2:]):

                    async def ask(name: str = name) -> None:
                        answers.append(await ledger.journal.heads([name]))

                    tasks.start_soon(ask)
            assert sorted(answers) == [[0], *[[1]] * 698, [2]]

    async def test_the_records_of_many_streams_are_read_in_pages(self, opened: Open) -> None:
        async with opened() as ledger:
            written = await noted(ledger.journal, *[(f"b/{n % 5}", b"%d" % n * (1 + n % 7)) for n in range(60)])
            await noted(ledger.journal, ("a", b"1"), ("b", b"1"), ("c", b"1"), ("b/gone", b"1"), ("b/gone", b"2"))
            await ledger.journal.drop_all({"b/gone": 2, "b/3": 4})
            wanted = sorted(
                (one for one in written if one.stream != "b/3" or one.number > 4),
                key=lambda one: (one.stream, one.number),
            )
            assert await ledger.journal.read_all("b/") == wanted
            for bounds in ({"limit": 1}, {"limit": 7}, {"max_bytes": 1}, {"max_bytes": 40}):
                found: list[Record] = []
                while page := await ledger.journal.read_all(
                    "b/", (found[-1].stream, found[-1].number) if found else ("", 0), **bounds
                ):
                    assert len(page) <= bounds.get("limit", 60)
                    assert len(page) == 1 or sum(len(one.body) for one in page) <= bounds.get("max_bytes", 10_000)
                    found += page
                assert found == wanted
            assert await ledger.journal.read_all("nobody") == []
            streams = [one.stream for one in await ledger.journal.read_all("")]
            assert [*dict.fromkeys(streams)] == ["a", "b", *[f"b/{number}" for number in range(5)], "c"]

    async def test_many_notes_are_dropped_as_well(self, opened: Open) -> None:
        async with opened() as ledger:
            for _ in range(3):
                await noted(ledger.journal, *[("a", b"1")] * 1000)
            assert await ledger.journal.drop("a", 2999) == 2999
            assert await ledger.journal.streams() == [RecordStream("a", 3000, 2999, 1)]
            assert await ledger.verify() == []

    async def test_done_comes_later_and_once_and_an_empty_append_is_answered_too(self, opened: Open) -> None:
        async with opened() as ledger:
            calls: list[object] = []
            assert ledger.journal.append([], calls.append) is None
            assert calls == []
            await noted(ledger.journal, ("a", b""))
            assert calls == [[]]

    async def test_notes_and_receipts_go_side_by_side(self, opened: Open) -> None:
        async with opened() as ledger:
            calls: list[object] = []
            for number in range(40):
                assert ledger.append(keyed([number]), lambda _: None) is None
                assert ledger.journal.append([NewRecord("a", b"%d" % number)], calls.append) is None
            await append(ledger, keyed([7]))  # a known key has its transaction made anew
            await noted(ledger.journal, ("a", b"last"))
            assert len(calls) == 40
            assert [record.body for record in await every_record(ledger.journal, "a")] == [
                *[b"%d" % number for number in range(40)],
                b"last",
            ]
            assert [row.position for row in await recorded(ledger, keyed([99]))] == [41]
            assert await ledger.verify() == []

    @pytest.mark.parametrize(
        "bad",
        [
            NewRecord("", b""),
            NewRecord("x" * 1025, b""),
            NewRecord("\ud800", b""),
            NewRecord("a", bytes(MAX_RECORD_BYTES + 1)),
        ],
        ids=["no name", "long name", "no text", "large body"],
    )
    async def test_a_note_that_can_never_be_written_is_refused_with_its_append(
        self, opened: Open, bad: NewRecord
    ) -> None:
        async with opened() as ledger:
            calls: list[object] = []
            refusal = ledger.journal.append([NewRecord("a", b""), bad], calls.append)
            assert refusal is not None
            assert (refusal.failure_class, refusal.retry_class) == (
                FailureClass.INVALID_REQUEST,
                RetryClass.DO_NOT_RETRY,
            )
            (first,) = await noted(ledger.journal, ("a", b"1"))
            assert (first.number, calls) == (1, [])

    async def test_an_append_larger_than_the_queue_is_refused(self, opened: Open) -> None:
        async with opened() as ledger:
            refusal = ledger.journal.append([NewRecord("a", b"")] * (MAX_QUEUED_RECORDS + 1), lambda _: None)
            assert refusal is not None
            assert refusal.code == "batch_too_large"

    async def test_closing_writes_what_was_taken_and_refuses_the_rest(self, opened: Open) -> None:
        async with opened() as ledger:
            answers: list[list[Record] | Refusal] = []
            for number in range(20):
                assert ledger.journal.append([NewRecord("a", b"%d" % number)], answers.append) is None
            await ledger.aclose()
            assert [record.number for answer in answers if isinstance(answer, list) for record in answer] == [
                *range(1, 21)
            ]
            refusal = ledger.journal.append([NewRecord("a", b"")], answers.append)
            assert refusal is not None
            assert (refusal.code, refusal.retry_class) == ("closed", RetryClass.SAFE_RETRY)
