"""A session of which nothing is recorded is supervised from its first hook on, without reading the ledger for it."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite.file import LedgerFile
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.writing.disk_pace import DiskPace
from lifebus_broker.ports import Page, Query
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

START = {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "turn_id": "t1", "prompt": "x"}
STOP = {"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1"}


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The sessions whose receipts were asked for."""
    asked: list[tuple[str, str]] = []
    read = SqliteLedger.read

    async def noting(self: SqliteLedger, query: Query) -> Page:
        if query.session is not None:
            asked.append(query.session)
        return await read(self, query)

    monkeypatch.setattr(SqliteLedger, "read", noting)
    # At the start the writer's thread may be at it, and then nothing can be told at once.
    monkeypatch.setattr(LedgerFile, "synced_log", None)
    return asked


async def lived(rig: SupervisedBus) -> list[str]:
    """Let a session live for a turn and some ticks; return what was recorded."""
    calls: list[dict[str, Any]] = [START, PROMPT, STOP]
    return facts_of([one for payload in calls for one in await rig.hook("codex", payload)] + await rig.tick(3))


async def test_nothing_is_read_of_a_new_session_and_all_of_one_that_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(DiskPace, "is_quick", True)
    async with supervised(tmp_path) as rig:
        await lived(rig)
        assert queries == []
        rig.restart()
        await rig.hook("codex", PROMPT | {"turn_id": "t2"})
        assert queries == [("codex", "s1")]


async def test_a_session_is_recorded_alike_whether_or_not_its_newness_could_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: list[tuple[str, str]]
) -> None:
    recorded: list[list[str]] = []
    for way in (True, False):
        monkeypatch.setattr(DiskPace, "is_quick", way)
        directory = tmp_path / str(way)
        directory.mkdir()
        async with supervised(directory) as rig:
            recorded.append(await lived(rig))
        assert bool(queries) is not way
    assert recorded[0] == recorded[1]
    assert "session.ended" not in recorded[0]
    assert len(recorded[0]) > 3
