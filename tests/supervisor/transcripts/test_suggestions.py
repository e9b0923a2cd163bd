"""Suggested requests: their rules, their events, and what is kept of them."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import LifebusError
from lifebus_contract.jobs import Suggestion, SuggestionStatus
from lifebus_supervisor.transcripts.rules.suggesting import DEFAULT_ERROR
from lifebus_supervisor.transcripts.state import MAX_SUGGESTIONS
from lifebus_supervisor.transcripts.suggestions import Suggestions
from support.adapters.app_server_recordings import turn
from support.transcripts.boxes import Box, box_over, transcript_box

S = SuggestionStatus
Given = tuple[SuggestionStatus, str | None, str | None]


class Scene:
    """Suggestions over a box, and the events that were published: (thread, envelope)."""

    def __init__(self, box: Box) -> None:
        self.suggestions = Suggestions(box.store, box.log)
        self.told: list[tuple[str, dict[str, Any]]] = []
        # Before the box, which knows transcripts alone.
        box.log._listeners[:] = [self._on_signals]

    def _on_signals(self, adapter: str, thread: str, signals: Any) -> None:
        if adapter == "lifebus":
            self.told += [(thread, msgspec.json.decode(one.signal)) for one in signals]


def stands(suggestion: Suggestion) -> Given:
    return suggestion.status, suggestion.suggestion, suggestion.error


@pytest.mark.parametrize(
    ("given", "after", "events"),
    [
        ([(S.STREAMING, None, None)], (S.STREAMING, None, None), 1),
        ([(S.STREAMING, "do", None), (S.STREAMING, None, None)], (S.STREAMING, "do", None), 1),
        ([(S.STREAMING, "do", None), (S.COMPLETE, "do this", None)], (S.COMPLETE, "do this", None), 2),
        ([(S.COMPLETE, "do", None), (S.STREAMING, "else", None)], (S.COMPLETE, "do", None), 1),
        ([(S.COMPLETE, "do", None), (S.CANCELED, None, None)], (S.CANCELED, "do", None), 2),
        ([(S.ERROR, None, None)], (S.ERROR, None, DEFAULT_ERROR), 1),
        ([(S.ERROR, None, "no model"), (S.ERROR, None, None)], (S.ERROR, None, "no model"), 1),
        ([(S.STREAMING, "half", None), (S.ERROR, None, "cut")], (S.ERROR, "half", "cut"), 2),
        ([(S.ERROR, None, "cut"), (S.COMPLETE, "do", None)], (S.COMPLETE, "do", None), 2),
    ],
)
async def test_each_upsert_is_merged_and_told_once(given: list[Given], after: Given, events: int) -> None:
    async with transcript_box("t1") as box:
        scene = Scene(box)
        for one in given:
            found = await scene.suggestions.upsert("t1", "k", *one)
        assert stands(found) == stands(await scene.suggestions.show("t1", "k")) == after
        assert {thread for thread, _ in scene.told} == {"queue/session:t1"}
        assert len(scene.told) == events
        last = scene.told[-1][1]
        said = {key: one for key, one in zip(("suggestion", "error"), after[1:], strict=True) if one is not None}
        base = {"sessionId": "t1", "requestKey": "k", "status": after[0].value}
        assert last == {"type": "suggested_request_updated", "threadId": "t1", "payload": base | said}


async def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    async with transcript_box("t1") as box:
        suggestions = Scene(box).suggestions
        await box.store.marks.mark_system("worker", 1)
        await box.store.delete("gone")
        for session, text, code in (
            ("t1", " ", "missing_suggestion"),
            ("nobody", "do", "no_session"),
            ("worker", "do", "no_session"),
            ("gone", "do", "session_deleted"),
        ):
            with pytest.raises(LifebusError) as refused:
                await suggestions.upsert(session, "k", S.COMPLETE, text)
            assert refused.value.code == code
        with pytest.raises(LifebusError) as unknown:
            await suggestions.show("t1", "k")
        assert unknown.value.code == "no_suggested_request"


async def test_it_is_told_in_the_project_that_the_newest_signal_names() -> None:
    async with transcript_box() as box:
        scene = Scene(box)
        for project in ("p1", "p2"):
            await say_in_project(box, turn("turn/started", "t1", "u1"), project)
            await scene.suggestions.upsert("t1", project, S.STREAMING)
        told = [thread for thread, one in scene.told if one["type"] == "suggested_request_updated"]
        assert told == ["queue/p1", "queue/p2"]


async def say_in_project(box: Box, signal: dict[str, Any], project: str) -> None:
    """Record a signal of a session whose project is known."""
    envelope = {
        "method": signal["method"],
        "context": {"threadId": "t1", "turnId": "u1"},
        "params": signal["params"],
        "session": {"id": "t1", "title": None, "projectId": project},
    }
    seen = Seen("t1", "app_server.turn.started", msgspec.json.encode(envelope))
    await box.log.record(f"o-{project}", 1, "codex", [seen])
    await box.filler.fill("codex", "t1")


class Seen(msgspec.Struct, frozen=True):
    """A signal as the log takes it."""

    thread: str
    event_type: str
    signal: bytes


async def test_they_outlive_the_broker_and_go_with_their_session(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        box = await box_over(ledger.journal, "t1")
        suggestions = Scene(box).suggestions
        for number in range(MAX_SUGGESTIONS + 2):
            await suggestions.upsert("t1", f"k{number}", S.COMPLETE, f"do {number}")
        await box.store.shrink("t1", 0)  # writes it down anew
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        box = await box_over(ledger.journal, "t1")
        suggestions = Scene(box).suggestions
        for number in range(2, MAX_SUGGESTIONS + 2):
            assert (await suggestions.show("t1", f"k{number}")).suggestion == f"do {number}"
        for number in (0, 1):
            with pytest.raises(LifebusError, match="no suggested request"):
                await suggestions.show("t1", f"k{number}")
        await box.store.delete("t1")
        assert [one.bytes for one in await ledger.journal.streams("transcript/")] == [0]
