"""A hook and a pass that decide beside each other: a wait that began ends once, whoever is first."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_adapters.shared.telemetry import Activity, ToolsDone
from lifebus_contract import Receipt
from support.supervisor.supervised import SupervisedBus, supervised

SESSION = "s1"
FACTS = ("waiting", "waiting_for", "waiting_kind")


def claude(hook: str, **more: Any) -> dict[str, Any]:
    named = {"session_id": SESSION, "transcript_path": "/t.jsonl", "prompt_id": "t1"}
    return {"hook_event_name": hook, **named, **more}


def asks(tool: str) -> dict[str, Any]:
    return claude("PermissionRequest", tool_name=tool, tool_input={})


async def waiting(rig: SupervisedBus, *tools: str) -> int:
    """Begin a turn that waits; return the ledger's end."""
    await rig.hook("claude", {**claude("SessionStart", source="startup")})
    await rig.hook("claude", claude("UserPromptSubmit"))
    for tool in tools:
        await rig.hook("claude", asks(tool))
    return rig.bus.ledger.head


def told(receipts: Sequence[Receipt]) -> list[tuple[Any, ...]]:
    facts = [one.telemetry_summary for one in receipts if "waiting" in one.telemetry_summary]
    return [tuple(one.get(name) for name in FACTS) for one in facts]


async def at_once(*acts: Callable[[], Coroutine[Any, Any, object]]) -> None:
    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(act)


@pytest.mark.parametrize("hook_first", [True, False])
async def test_a_stop_and_the_tools_result_end_a_wait_once(tmp_path: Path, *, hook_first: bool) -> None:
    async with supervised(tmp_path) as rig:
        before = await waiting(rig, "Bash")
        now_ms = int(rig.clock.epoch() * 1000)
        rig.news("claude", SESSION, Activity(session=SESSION), ToolsDone(session=SESSION, at_ms=now_ms + 5))

        async def stops() -> None:
            await rig.hook("claude", claude("Stop", stop_hook_active=False))

        acts: list[Callable[[], Coroutine[Any, Any, object]]] = [stops, rig.supervisor.poll_early]
        await at_once(*(acts if hook_first else acts[::-1]))
        assert told(await rig.since(before)) == [("ended", "permission", "Bash")]
        assert told(await rig.tick(3)) == []


async def test_two_dialogs_at_once_are_one_behind_the_other(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        before = await waiting(rig)

        async def asked(tool: str) -> None:
            await rig.hook("claude", asks(tool))

        await at_once(lambda: asked("Bash"), lambda: asked("Edit"), lambda: asked("Write"))
        receipts = await rig.since(before)
        found = told(receipts)
        # By its beginning each is known from the others.
        begun = [one.telemetry_summary for one in receipts if one.telemetry_summary["waiting"] == "begun"]
        assert len({one["waiting_since_ms"] for one in begun}) == 3
        kinds = [one[2] for one in found[::2]]
        assert sorted(kinds) == ["Bash", "Edit", "Write"]
        # Each begins, and ends before the next one does; the last one is waited for.
        alone = [(word, "permission", kind) for kind in kinds for word in ("begun", "ended")]
        assert found == alone[:-1]
        await rig.hook("claude", claude("Stop", stop_hook_active=False))
        assert told(await rig.since(before)) == alone


async def test_a_word_that_never_arrived_is_said_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await waiting(rig, "Bash")
        monitor = rig.supervisor.monitors.get(("claude", SESSION))
        assert monitor is not None
        (wait,) = monitor.waits
        facts = {"waiting": "ended", "waiting_for": "permission", "waiting_since_ms": wait.since_ms, "frame_id": "t1"}
        monitor.hand_over_waits([facts], rig.clock.now())
        assert (monitor.waits, monitor.state.waits) == ((), (wait,))
        now_ms = int(rig.clock.epoch() * 1000)
        rig.news("claude", SESSION, Activity(session=SESSION), ToolsDone(session=SESSION, at_ms=now_ms + 5))
        assert told(await rig.tick(2)) == []
        assert told(await rig.tick(2)) == [("ended", "permission", "Bash")]


async def test_an_end_on_its_way_is_of_its_own_wait(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await waiting(rig, "Bash")
        monitor = rig.supervisor.monitors.get(("claude", SESSION))
        assert monitor is not None
        (wait,) = monitor.waits
        earlier = {"waiting": "ended", "waiting_for": "permission", "waiting_since_ms": wait.since_ms - 1}
        monitor.hand_over_waits([{**earlier, "frame_id": "t1"}], rig.clock.now())
        assert monitor.waits == (wait,)
