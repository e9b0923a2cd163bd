"""A hook of a session that nobody has seen begin is recorded as what it is, and nothing is made up around it."""

from pathlib import Path

import pytest

from support.supervisor.supervised import HARNESS, facts_of, supervised

SESSION = "s1"


def called(hook: str, turn: str = "t1") -> dict[str, str]:
    return {"hook_event_name": hook, "session_id": SESSION, "turn_id": turn, "prompt_id": turn}


@pytest.mark.parametrize(
    ("adapter_id", "hook"),
    [("claude", "Notification"), ("claude", "PreCompact"), ("codex", "Stop"), ("gemini", "Notification")],
)
async def test_no_start_no_tick_and_no_end_follow_a_lone_hook(tmp_path: Path, adapter_id: str, hook: str) -> None:
    async with supervised(tmp_path) as rig:
        own = [*await rig.hook(adapter_id, called(hook)), *await rig.hook(adapter_id, called(hook, "t2"))]
        rig.dead.add(HARNESS)
        await rig.tick(8)
        rig.clock.seconds += rig.limits.abandon_s + 4_000
        await rig.tick(4)
        assert await rig.since(0) == own
        assert [one for one in rig.supervisor.monitors if one.is_live] == []


async def test_a_session_joined_in_the_middle_is_supervised_from_its_next_prompt_on(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", called("PreCompact"))
        assert await rig.tick(3) == []
        await rig.hook("claude", called("UserPromptSubmit"))
        await rig.tick()
        rig.dead.add(HARNESS)
        assert facts_of(await rig.tick(4)) == ["frame.ended", "session.ended"]
