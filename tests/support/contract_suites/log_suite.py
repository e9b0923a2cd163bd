"""What every source of the log promises (docs/ledger.md D4); run by tests/broker/ledger/test_log_sources.py."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from lifebus_broker.ledger.log import LogSource, decode_line, encode_line
from lifebus_broker.ports import Ledger
from lifebus_broker.state.stream_digests import NO_LINK, link_after
from support.contract_suites.journal_suite import noted
from support.receipts import DIGEST, OTHER_DIGEST, entry, keyed, recorded

Open = Callable[[], AbstractAsyncContextManager[tuple[Ledger, LogSource]]]
"""Opens a new, empty ledger and a source of its log."""


class LogContract:
    """Subclasses provide the fixture `opened`."""

    async def test_a_new_log_is_empty(self, opened: Open) -> None:
        async with opened() as (_, log):
            assert (log.floor, log.head, log.base()) == (0, 0, None)
            assert list(log.lines(0, 10)) == []
            assert list(log.records("")) == []

    async def test_its_lines_are_the_stored_receipts_in_order(self, opened: Open) -> None:
        async with opened() as (ledger, log):
            rows = await recorded(ledger, keyed(range(1100)))
            lines = list(log.lines(0, 1100))
            assert [(line.position, line.receipt) for line in lines] == [(row.position, row.receipt) for row in rows]
            assert list(log.lines(500, 503)) == lines[500:503]
            assert list(log.lines(1099, 9999)) == lines[1099:]
            assert log.head == 1100
            assert [decode_line(encode_line(line)) for line in lines] == lines

    async def test_links_commit_to_every_receipt_of_their_stream(self, opened: Open) -> None:
        async with opened() as (ledger, log):
            await recorded(ledger, [entry(n, harness_session_id=("s1", "s2", None)[n % 3]) for n in range(12)])
            links: dict[str | None, bytes] = {}
            for line in log.lines(0, 12):
                session = json.loads(line.receipt)["harness_session_id"]
                links[session] = link_after(links.get(session, NO_LINK), line.receipt)
                assert line.link == links[session].hex()

    async def test_a_line_tells_the_digest_of_its_own_key(self, opened: Open) -> None:
        async with opened() as (ledger, log):
            await recorded(ledger, [entry(1), entry(2, key="a"), entry(3, key="b", digest=OTHER_DIGEST)])
            await recorded(ledger, [entry(4, key="c", telemetry_summary={"emitter": "carol"})])
            digests = [None, DIGEST.hex(), OTHER_DIGEST.hex(), DIGEST.hex()]
            assert [line.digest for line in log.lines(0, 4)] == digests

    async def test_pruning_leaves_the_base_that_came_with_it(self, opened: Open) -> None:
        async with opened() as (ledger, log):
            await recorded(ledger, keyed(range(10)))
            assert await ledger.prune(4, b"after 4") == 4
            assert (log.floor, log.head, log.base()) == (4, 10, b"after 4")
            assert [line.position for line in log.lines(4, 10)] == [5, 6, 7, 8, 9, 10]
            assert await ledger.prune(2, b"after 2") == 4
            assert log.base() == b"after 4"
            await ledger.prune(10, b"after 10")
            assert (log.floor, log.head, log.base()) == (10, 10, b"after 10")
            assert list(log.lines(10, 10)) == []

    async def test_its_notes_are_those_that_are_kept(self, opened: Open) -> None:
        async with opened() as (ledger, log):
            written = await noted(ledger.journal, ("b", b"1"), ("pins", b"2"), ("b", b"3"), ("pinsel", b"4"))
            await ledger.journal.drop("b", 1)
            assert list(log.records("pins")) == [written[1], written[3]]
            assert list(log.records("")) == [written[2], written[1], written[3]]

    @pytest.mark.parametrize("count", [1023, 1024, 2500])
    async def test_many_notes_come_all(self, opened: Open, count: int) -> None:
        async with opened() as (ledger, log):
            for first in range(0, count, 1000):
                await noted(ledger.journal, *[("a", b"%d" % n) for n in range(first, min(first + 1000, count))])
            assert [record.number for record in log.records("a")] == [*range(1, count + 1)]
