"""Where a session works and what it is called, by its files: recorded where the ledger differs, and once."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import Usage, Whereabouts
from lifebus_broker.privacy import Privacy
from lifebus_contract import Receipt
from support.supervisor.supervised import SupervisedBus, supervised

SESSION = "s1"
KEYS = ("cwd", "git_branch", "title")


def claude(hook: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": hook, "session_id": SESSION, "transcript_path": "/t.jsonl", "cwd": "/w/shop", **more}


async def running(rig: SupervisedBus) -> None:
    await rig.hook("claude", claude("SessionStart", source="startup"))
    await rig.hook("claude", claude("UserPromptSubmit", prompt_id="t1"))
    await rig.tick()


def says(rig: SupervisedBus, *, adapter: str = "claude", history: bool = False, **place: Any) -> None:
    rig.news(adapter, SESSION, Whereabouts(session=SESSION, **place), history=history)


def told(receipts: list[Receipt]) -> list[dict[str, Any]]:
    facts = [{key: one.telemetry_summary[key] for key in KEYS if key in one.telemetry_summary} for one in receipts]
    return [one for one in facts if one]


async def test_what_a_file_says_is_recorded_once_by_a_tick(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        says(rig, git_branch="main", title="Repair")
        (tick,) = await rig.observe()
        assert (tick.event.value, told([tick])) == ("supervisor.tick", [{"git_branch": "main", "title": "Repair"}])
        says(rig, git_branch="main", title="Repair")
        assert told(await rig.tick(3)) == []
        says(rig, git_branch="fix")
        assert told(await rig.tick(3)) == [{"git_branch": "fix"}]


async def test_a_broker_that_starts_again_records_only_what_changed_meanwhile(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        says(rig, git_branch="main", title="Repair")
        await rig.tick()
        await rig.restart().recover()
        says(rig, history=True, git_branch="main", title="Repair")
        assert told(await rig.tick(2)) == []
        says(rig, history=True, git_branch="fix")
        assert told(await rig.tick(2)) == [{"git_branch": "fix"}]


async def test_the_directory_of_a_file_fills_a_gap_only(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        says(rig, cwd="/w/elsewhere")
        assert told(await rig.tick(2)) == []


async def test_how_a_session_began_does_not_go_before_what_was_said_since(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"})
        says(rig, adapter="codex", git_branch="main", at_start=True)
        assert told(await rig.tick(2)) == [{"git_branch": "main"}]
        # As an app-server says it when it opens the thread again.
        (emission, *_) = (
            rig.supervisor.tick_emission(rig.bus.registry.require("codex"), SESSION, git_branch="fix"),
            None,
        )
        await rig.bus.emit("lifebus.app_server", [emission])
        assert told(await rig.tick(2)) == []
        await rig.restart().recover()
        says(rig, adapter="codex", git_branch="main", at_start=True, history=True)
        assert told(await rig.tick(2)) == []


@pytest.mark.parametrize(
    ("privacy", "recorded"),
    [
        (Privacy(), [{"git_branch": "main", "title": "x" * 119 + "…"}]),
        (Privacy(title="none"), [{"git_branch": "main"}]),
        (Privacy(cwd="none"), [{"title": "x" * 119 + "…"}]),
        (Privacy(cwd="none", title="none"), []),
    ],
)
async def test_what_may_not_be_recorded_costs_no_tick_and_is_not_tried_again(
    tmp_path: Path, privacy: Privacy, recorded: list[Any]
) -> None:
    async with supervised(tmp_path) as rig:
        rig.bus.router.privacy = privacy
        await running(rig)
        says(rig, git_branch="main", title="x" * 200)
        assert told(await rig.observe()) == recorded
        assert await rig.observe() == []
        assert await rig.observe() == []


async def test_a_session_that_its_file_alone_shows_is_called_after_its_folder(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, Whereabouts(session=SESSION, cwd="/w/shop", git_branch="main", at_start=True))
        assert await rig.tick() == []
        used = Usage(session=SESSION, used_tokens=5_000, used_source="x", window_tokens=9_000, window_source="x")
        rig.news("codex", SESSION, used)
        receipts = await rig.tick()
        # The first receipt names the folder.
        assert [told([one]) for one in receipts] == [[{"cwd": "shop", "git_branch": "main"}], []]
        monitor = rig.supervisor.monitors.get(("codex", SESSION))
        assert monitor is not None
        assert monitor.state.folder == "shop"


async def test_old_files_begin_no_record(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        says(rig, cwd="/w/shop", git_branch="main", history=True)
        assert await rig.tick(3) == []


async def test_an_ended_session_is_not_brought_back_by_its_title(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", claude("SessionEnd", reason="other"))
        await rig.tick(4)
        says(rig, title="Repair")
        assert await rig.tick(3) == []
