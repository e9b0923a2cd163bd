"""Entries of a transcript that end with their job, and the events of suggested requests."""

from contextlib import aclosing
from typing import Any

from lifebus_broker.ledger.factory import open_unkept
from lifebus_contract import LifebusError, StateConflict
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from support.integration.following import until
from support.queue_box import QueueBox, fresh_box, queue_box

TARGET: dict[str, Any] = {
    "messageId": "m",
    "type": "review",
    "placeholderTexts": ["Reviewing", "Still reviewing"],
    "completeFallback": "Reviewed",
    "errorFallback": "No review",
    "canceledFallback": "Review canceled",
}


def payload(**fields: Any) -> dict[str, Any]:
    return {"turnId": "t", "anchorItemId": "i", "supplementalTargets": [TARGET | fields]}


def entry(content: str, status: EntryStatus = EntryStatus.STREAMING) -> TranscriptEntry:
    return TranscriptEntry(
        message_id="m", turn_id="t", role=EntryRole.SYSTEM, type="review", content=content, status=status
    )


async def ended(box: QueueBox, job_id: str = "a") -> TranscriptEntry:
    """Return the entry once it is on record that it has ended."""
    await until(lambda: box.table.indexes.jobs[job_id].require().settled)
    return box.transcripts.entries["s", "m"]


async def test_an_entry_begins_with_its_placeholder_and_ends_as_its_job_does() -> None:
    async with fresh_box() as box:
        for name, error, status, text in (
            ("good", None, "complete", "Reviewed"),
            ("poor", "no model", "error", "No review (no model)"),
        ):
            await box.add(name, source_session_id="s", payload=payload(), max_attempts=1)
            await box.begun(name)
            begun = box.transcripts.entries["s", "m"]
            assert (begun.status, begun.content, begun.turn_id) == ("streaming", "Reviewing", "t")
            assert begun.details == '{"anchorItemId":"i"}'
            await box.end(name, error=error)
            found = await ended(box, name)
            assert (found.status, found.content) == (status, text)
            box.transcripts.entries.clear()
        await box.table.drain(drains=True, cancel=False, seconds=0)
        await box.add("c", source_session_id="s", payload=payload())
        await box.table.cancel("c", "no")
        assert (await ended(box, "c")).content == "Review canceled"


async def test_what_a_worker_wrote_stays_and_only_ends() -> None:
    async with fresh_box() as box:
        await box.add("a", source_session_id="s", payload=payload(), max_attempts=1)
        await box.begun("a")
        box.transcripts.entries["s", "m"] = entry("half a review")
        await box.end("a", error="no")
        found = await ended(box)
        assert (found.status, found.content) == ("error", "half a review")


async def test_a_complete_entry_is_no_error_afterwards() -> None:
    async with fresh_box() as box:
        await box.add("a", source_session_id="s", payload=payload(), max_attempts=1)
        await box.begun("a")
        box.transcripts.entries["s", "m"] = entry("a review", EntryStatus.COMPLETE)
        await box.end("a", error="no")
        assert (await ended(box)).status == "complete"


async def test_entries_end_also_where_the_broker_dies_before(monkeypatch: Any) -> None:
    monkeypatch.setattr("lifebus_supervisor.queue.targets._AGAIN_S", 0.001)
    async with aclosing(await open_unkept(clock=lambda: 1.0)) as ledger:
        async with queue_box(ledger.journal) as box:
            await box.add("a", source_session_id="s", payload=payload())
            await box.begun("a")
            kept = box.transcripts.entries
            box.transcripts.fault = LifebusError("not now", code="disk_full")
            await box.end("a", 1)
            assert kept["s", "m"].status == "streaming"
        async with queue_box(ledger.journal, started=False) as box:
            box.transcripts.entries = kept
            await box.start()
            assert (await ended(box)).status == "complete"
            assert box.events == []
        async with queue_box(ledger.journal, started=False) as box:
            box.transcripts.fault = AssertionError("nothing is left to do")  # type: ignore[assignment]
            await box.start()
            await box.quiet()


async def test_entries_of_a_deleted_session_need_no_end() -> None:
    async with fresh_box() as box:
        box.transcripts.fault = StateConflict("it was deleted", code="session_deleted")
        await box.add("a", source_session_id="s", payload=payload())
        await box.end("a", 1)
        await until(lambda: box.table.indexes.jobs["a"].require().settled)
        assert box.transcripts.entries == {}


SIGNAL = {"completionSignal": {"kind": "suggested_request", "requestKey": "k"}}


async def settled(box: QueueBox, job_id: str) -> list[tuple[str, ...]]:
    await until(lambda: box.table.indexes.jobs[job_id].require().settled)
    written, box.suggestions.written = box.suggestions.written, []
    assert {one[:3] for one in written} == {("s", "k", "p")}
    return [one[3:] for one in written]


async def test_a_suggested_request_stands_as_its_job_does() -> None:
    async with fresh_box() as box:
        for name, result, error, expected in (
            ("a", {"outputText": "do this"}, None, ("complete", "do this")),
            ("b", None, "no model", ("error", "no model")),
            ("c", {"outputText": " "}, None, ("error", "the job ended without a suggestion")),
        ):
            await box.add(name, source_session_id="s", payload=SIGNAL, max_attempts=1)
            await box.end(name, result, error=error)
            assert await settled(box, name) == [("streaming", ""), expected]


async def test_a_suggested_request_ends_also_where_the_broker_dies_before(monkeypatch: Any) -> None:
    monkeypatch.setattr("lifebus_supervisor.queue.targets._AGAIN_S", 0.001)
    async with aclosing(await open_unkept(clock=lambda: 1.0)) as ledger:
        async with queue_box(ledger.journal) as box:
            await box.add("a", source_session_id="s", payload=SIGNAL)
            await box.begun("a")
            box.suggestions.fault = LifebusError("not now", code="disk_full")
            await box.end("a", {"suggestion": "do this"})
        async with queue_box(ledger.journal) as box:
            assert await settled(box, "a") == [("complete", "do this")]
