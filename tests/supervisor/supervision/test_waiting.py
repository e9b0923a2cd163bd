"""Who waits for a person: begun by the harness's word, ended by its word or by what cannot come before an answer."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import Activity, ToolsDone, TurnEnded
from lifebus_contract import Receipt
from support.supervisor.supervised import HARNESS, SupervisedBus, facts_of, supervised

SESSION = "s1"
FACTS = ("waiting", "waiting_for", "waiting_kind", "waiting_ended_by")


def claude(hook: str, turn: str | None = "t1", **more: Any) -> dict[str, Any]:
    named = {} if turn is None else {"prompt_id": turn}
    return {"hook_event_name": hook, "session_id": SESSION, "transcript_path": "/t.jsonl", **named, **more}


def asks(tool: str = "Bash", **more: Any) -> dict[str, Any]:
    return claude("PermissionRequest", tool_name=tool, tool_input={"command": "rm PRIVATE"}, **more)


def notice(kind: str, **more: Any) -> dict[str, Any]:
    return claude("Notification", message="PRIVATE", notification_type=kind, **more)


def waits(receipts: list[Receipt]) -> list[tuple[Any, ...]]:
    told = [one.telemetry_summary for one in receipts if "waiting_for" in one.telemetry_summary]
    return [tuple(facts.get(name) for name in FACTS) for facts in told]


def open_waits(rig: SupervisedBus, adapter_id: str = "claude") -> list[tuple[str, str | None]]:
    monitor = rig.supervisor.monitors.get((adapter_id, SESSION))
    return [] if monitor is None else [(one.waiting_for, one.kind) for one in monitor.state.waits]


async def running(rig: SupervisedBus) -> None:
    await rig.hook("claude", claude("SessionStart", None, source="startup"))
    await rig.hook("claude", claude("UserPromptSubmit"))


def now_ms(rig: SupervisedBus) -> int:
    return int(rig.clock.epoch() * 1000)


async def tools_done(rig: SupervisedBus, at_ms: int) -> list[Receipt]:
    rig.news("claude", SESSION, Activity(session=SESSION), ToolsDone(session=SESSION, at_ms=at_ms))
    return await rig.observe()


BEGUN = ("begun", "permission", "Bash", None)


async def test_a_permission_is_waited_for_until_the_tools_result(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        (begun,) = await rig.hook("claude", asks())
        assert waits([begun]) == [BEGUN]
        assert begun.telemetry_summary["waiting_since_ms"] == now_ms(rig)
        assert open_waits(rig) == [("permission", "Bash")]
        ended = await tools_done(rig, now_ms(rig) + 2_500)
        assert waits(ended) == [("ended", "permission", "Bash", "tool_result")]
        assert ended[-1].telemetry_summary["waited_ms"] == 2_500
        assert open_waits(rig) == []
        assert waits(await rig.tick(3)) == []


async def test_nothing_of_what_is_asked_stands_in_a_receipt(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        await rig.hook("claude", notice("idle_prompt"))
        page = await rig.since(0)
        assert not any("PRIVATE" in str(one) for one in page)


async def test_the_result_of_an_earlier_tool_ends_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        assert waits(await tools_done(rig, now_ms(rig) - 1)) == []
        assert open_waits(rig) == [("permission", "Bash")]


async def test_a_reminder_of_what_is_known_begins_nothing_and_one_alone_does(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        assert waits(await rig.hook("claude", notice("permission_prompt"))) == [("begun", "permission", None, None)]
        assert waits(await rig.hook("claude", notice("permission_prompt"))) == []
        await tools_done(rig, now_ms(rig) + 1)
        await rig.hook("claude", asks())
        assert await rig.hook("claude", notice("permission_prompt")) == []
        assert open_waits(rig) == [("permission", "Bash")]


async def test_a_further_request_ends_the_one_before(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        assert waits(await rig.hook("claude", asks("Edit"))) == [
            ("ended", "permission", "Bash", "next_request"),
            ("begun", "permission", "Edit", None),
        ]


@pytest.mark.parametrize(
    ("ends", "how", "first"),
    [
        (claude("Stop", stop_hook_active=False), "turn_ended", "frame.ending"),
        (claude("StopFailure", error="server_error"), "turn_ended", "frame.ended"),
        (claude("SessionEnd", reason="other"), "session_ended", "session.ending"),
    ],
)
async def test_an_end_stands_before_what_ends_it(tmp_path: Path, ends: dict[str, Any], how: str, first: str) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        recorded = await rig.hook("claude", ends)
        assert waits(recorded) == [("ended", "permission", "Bash", how)]
        assert [one.event.value for one in recorded][:2] == ["supervisor.tick", first]
        # Nothing ends it again, whatever the files say.
        await tools_done(rig, now_ms(rig) + 10)
        rig.news("claude", SESSION, TurnEnded(session=SESSION, frame_id="t1"))
        assert waits(await rig.tick(4)) == []


async def test_an_interruption_that_only_the_file_shows_ends_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        rig.news("claude", SESSION, TurnEnded(session=SESSION, frame_id="t1", frame_end="interrupted"))
        recorded = await rig.tick(3)
        assert waits(recorded) == [("ended", "permission", "Bash", "turn_ended")]
        assert facts_of(recorded) == ["frame.ended"]


async def test_a_killed_harness_waits_for_nobody(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        rig.dead.add(HARNESS)
        recorded = await rig.tick(4)
        assert waits(recorded) == [("ended", "permission", "Bash", "turn_ended")]
        assert facts_of(recorded) == ["frame.ended", "session.ended"]


async def test_idle_lasts_until_the_next_prompt(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", claude("Stop", stop_hook_active=False))
        await rig.tick(2)
        assert waits(await rig.hook("claude", notice("idle_prompt"))) == [("begun", "idle", None, None)]
        assert waits(await rig.tick(5)) == []
        recorded = await rig.hook("claude", claude("UserPromptSubmit", "t2"))
        assert waits(recorded) == [("ended", "idle", None, "prompt")]
        assert facts_of(recorded) == ["frame.opening", "frame.opened"]


async def test_a_sub_agents_prompt_ends_no_wait_of_the_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        started = await rig.hook("claude", claude("SubagentStart", agent_id="a1", agent_type="explorer"))
        assert waits(started) == []
        assert open_waits(rig) == [("permission", "Bash")]


async def test_what_a_sub_agent_waits_for_is_no_tool_of_the_sessions_file(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", claude("SubagentStart", agent_id="a1", agent_type="explorer"))
        (begun,) = await rig.hook("claude", asks(agent_id="a1"))
        assert begun.telemetry_summary["parent_frame_id"]
        assert waits(await tools_done(rig, now_ms(rig) + 5)) == []
        stopped = claude("SubagentStop", agent_id="a1", agent_type="explorer", stop_hook_active=False)
        assert waits(await rig.hook("claude", stopped)) == [("ended", "permission", "Bash", "turn_ended")]


async def test_a_broker_that_starts_again_knows_who_is_waited_for(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        await rig.hook("claude", asks())
        asked_ms = now_ms(rig)
        rig.restart()
        await rig.supervisor.recover()
        assert open_waits(rig) == [("permission", "Bash")]
        # The whole file is read again: what lies before the request says nothing of it.
        rig.news("claude", SESSION, ToolsDone(session=SESSION, at_ms=asked_ms - 60_000), history=True)
        assert waits(await rig.tick()) == []
        rig.news("claude", SESSION, ToolsDone(session=SESSION, at_ms=asked_ms + 7), history=True)
        assert waits(await rig.tick()) == [("ended", "permission", "Bash", "tool_result")]


async def test_an_elicitation_begins_and_ends_by_hooks(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        assert waits(await rig.hook("claude", claude("Elicitation", message="PRIVATE"))) == [
            ("begun", "input", "elicitation", None)
        ]
        assert waits(await rig.hook("claude", claude("ElicitationResult", action="accept"))) == [
            ("ended", "input", "elicitation", "answered")
        ]
        assert await rig.hook("claude", notice("elicitation_response")) == []


async def test_a_late_call_begins_when_it_was_made_and_nothing_behind_the_end(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        made = int(rig.clock.epoch()) - 30
        (begun,) = await rig.hook("claude", asks(), spooled_at_epoch_s=made)
        assert begun.telemetry_summary["waiting_since_ms"] == made * 1000
        await rig.hook("claude", claude("SessionEnd", reason="other"))
        rig.clock.seconds += 10
        await rig.tick(2)
        before = rig.bus.ledger.head
        await rig.hook("claude", asks("Edit"), spooled_at_epoch_s=made + 1)
        assert await rig.since(before) == []


def opencode(kind: str, number: int, **properties: Any) -> dict[str, Any]:
    event = {"id": f"evt_{number}", "type": kind, "properties": {"sessionID": SESSION, **properties}}
    return {"hook": "event", "input": {"event": event}, "output": None}


async def test_requests_with_ids_are_answered_one_by_one(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("opencode", opencode("session.created", 1, info={"version": "1"}))
        await rig.hook("opencode", opencode("permission.asked", 2, id="per_1", permission="bash"))
        await rig.hook("opencode", opencode("question.asked", 3, id="que_1"))
        assert open_waits(rig, "opencode") == [("permission", "bash"), ("input", "question")]
        replied = await rig.hook("opencode", opencode("permission.replied", 4, requestID="per_1", reply="once"))
        assert waits(replied) == [("ended", "permission", None, "answered")]
        assert open_waits(rig, "opencode") == [("input", "question")]
        assert await rig.hook("opencode", opencode("permission.replied", 5, requestID="per_1", reply="once")) == []
        assert waits(await rig.hook("opencode", opencode("question.rejected", 6, requestID="que_1")))


@pytest.mark.parametrize("kind", ["auth_success", "agent_completed", "agent_needs_input", "plugin_notification"])
async def test_other_notifications_say_nothing_of_who_is_waited_for(tmp_path: Path, kind: str) -> None:
    async with supervised(tmp_path) as rig:
        await running(rig)
        assert await rig.hook("claude", notice(kind)) == []
