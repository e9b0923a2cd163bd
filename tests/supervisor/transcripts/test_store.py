"""A store of transcripts: upserts by message id, one event for each change, what a restart finds, what is refused."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.transcripts import MAX_ENTRY_BYTES, TranscriptEntry
from lifebus_supervisor.transcripts.records import transcript_stream
from lifebus_supervisor.transcripts.rules.merging import bounded, entry_size
from lifebus_supervisor.transcripts.state import MAX_ENTRIES
from support.integration.following import until
from support.transcripts.boxes import box_over, entry, transcript_box

S = "s1"


def as_sent(one: TranscriptEntry) -> Any:
    return msgspec.json.decode(msgspec.json.encode(one))


async def test_an_upsert_tells_of_the_merged_entry_and_not_of_the_request() -> None:
    async with transcript_box(S) as box:
        done = await box.store.upsert(S, entry(content="all of it", started_at=5, completed_at=9))
        late = await box.store.upsert(S, entry(content="all", status="streaming", started_at=3))
        assert late == entry(content="all of it", started_at=3, completed_at=9)
        assert [event["payload"]["entry"] for event in box.events] == [as_sent(done), as_sent(late)]
        assert box.events[-1]["threadId"] == box.events[-1]["payload"]["threadId"] == S
        assert box.events[-1]["payload"]["entry"]["status"] == "complete"


async def test_an_upsert_that_changes_nothing_is_no_event() -> None:
    async with transcript_box(S) as box:
        for _ in range(3):
            await box.store.upsert(S, entry())
        await box.store.upsert(S, entry(content="te", status="streaming"))
        assert box.numbers == [1]


async def test_entries_keep_the_order_in_which_they_first_came() -> None:
    async with transcript_box(S) as box:
        for name in ("m1", "m2", "m3", "m1"):
            await box.store.upsert(S, entry(name, status="streaming", content=f"of {len(box.events)}"))
        assert [(one.message_id, one.content) for one in await box.entries(S)] == [
            ("m1", "of 3"),
            ("m2", "of 1"),
            ("m3", "of 2"),
        ]
        page = await box.store.page(S, limit=2)
        assert ([one.sequence for one in page.entries], page.next, page.through) == ([1, 2], 2, 4)
        rest = await box.store.page(S, after=2)
        assert ([one.entry.message_id for one in rest.entries], rest.next) == (["m3"], None)


@pytest.mark.parametrize("keeps", [True, False])
async def test_an_unknown_session_and_a_deleted_one_are_refused_also_after_a_restart(keeps: bool) -> None:
    async with aclosing(await open_unkept()) as ledger:
        box = await box_over(ledger.journal, S, keeps=keeps)
        with pytest.raises(InvalidRequest) as unknown:
            await box.store.upsert("other", entry())
        assert unknown.value.code == "no_session"
        await box.store.upsert(S, entry())
        await box.store.delete(S)
        deleted_at = box.clock.now_ms
        for _ in range(2):
            for refused in (box.store.upsert(S, entry()), box.store.page(S)):
                with pytest.raises(StateConflict) as gone:
                    await refused
                assert gone.value.code == "session_deleted"
            # The time of the deletion, and not that of the question.
            box.clock.now_ms += 1_000
            assert (await box.store.info(S)).deleted_at == deleted_at
            box = await box_over(ledger.journal, S, keeps=keeps)
        assert box.store.marks.kind_of(S) == "deleted"
        assert sum(one.bytes for one in await ledger.journal.streams(transcript_stream(S))) == 0
        slice_ = await box.log.read("lifebus", f"transcript/{S}", 0, 10)
        assert (slice_.signals, slice_.deleted) == ((), True)


async def test_what_is_kept_is_there_after_a_restart_and_its_order_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        box = await box_over(ledger.journal, S)
        for name in ("m2", "m1", "m2"):
            await box.store.upsert(S, entry(name, status="streaming", content=str(len(box.events))))
        before = await box.entries(S)
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        again = await box_over(ledger.journal)
        assert await again.entries(S) == before
        page = await again.store.page(S)
        assert ([one.sequence for one in page.entries], page.through) == ([1, 2], 3)
        await again.store.upsert(S, entry("m3"))
        assert again.numbers == [4]


async def test_a_transcript_that_changes_a_lot_is_written_down_anew() -> None:
    async with transcript_box(S) as box:
        await box.store.upsert(S, entry("m0"))
        for number in range(60):
            await box.store.upsert(S, entry(status="streaming", content=f"{number} " + "x" * 30_000))
        (stream,) = await box.journal.streams(transcript_stream(S))
        assert stream.floor > 0
        assert stream.bytes < 600_000
        again = await box_over(box.journal)
        assert await again.entries(S) == await box.entries(S)


async def test_a_transcript_with_too_many_entries_loses_the_oldest_and_says_how_many() -> None:
    async with transcript_box(S) as box:
        for number in range(MAX_ENTRIES + 2):
            await box.store.upsert(S, entry(f"m{number}"))
        info = await box.store.info(S)
        assert (info.entries, info.dropped) == (MAX_ENTRIES, 2)
        assert (await box.entries(S))[0].message_id == "m2"
        again = await box_over(box.journal)
        assert (await again.store.info(S)) == info


async def test_a_store_that_keeps_nothing_has_its_events_live_alone() -> None:
    async with transcript_box(S, keeps=False) as box:
        await box.store.upsert(S, entry())
        assert [event["payload"]["messageId"] for event in box.events] == ["m1"]
        assert [one.message_id for one in await box.entries(S)] == ["m1"]
        assert (await box.log.read("lifebus", f"transcript/{S}", 0, 10)).snapshot_required
        assert await box.journal.streams("transcript/") == []


async def test_an_entry_that_is_too_large_is_refused() -> None:
    async with transcript_box(S) as box:
        fits = entry(content="x" * (MAX_ENTRY_BYTES - entry_size(entry(content=""))))
        await box.store.upsert(S, fits)
        with pytest.raises(InvalidRequest) as refused:
            await box.store.upsert(S, entry(content=fits.content + "x"))
        assert refused.value.code == "too_large"


@pytest.mark.parametrize("text", ["x", "\0", '"', "é", "😀", "a\ufffdb"])
def test_a_content_that_is_too_large_is_cut_at_a_character(text: str) -> None:
    whole = entry(content=text * 70_000)
    cut = bounded(whole)
    assert entry_size(cut) <= MAX_ENTRY_BYTES
    assert whole.content.startswith(cut.content)
    assert cut.content_bytes == len(whole.content.encode())
    assert entry_size(cut) > MAX_ENTRY_BYTES - len(msgspec.json.encode(text))
    assert bounded(cut) == cut


async def test_signals_that_are_not_kept_have_a_journal_of_their_own() -> None:
    async with aclosing(await open_unkept()) as ledger, aclosing(await open_unkept()) as signals:
        box = await box_over(ledger.journal, S, signals=signals.journal, keep_bytes=0)
        await box.store.upsert(S, entry())
        await box.store.upsert(S, entry("m2"))
        await until(lambda: box.numbers == [1, 2])
        assert await ledger.journal.streams("signal/") == []
        assert len(await (await box_over(ledger.journal)).entries(S)) == 2
