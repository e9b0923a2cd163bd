"""What people and their harnesses ordinarily do is no loss and no end: other tools' hooks, sleep, two terminals."""

from pathlib import Path

from lifebus_adapters import ADAPTERS, CallerProcess
from lifebus_adapters.shared.telemetry import Activity, TurnStarted
from lifebus_contract import Receipt
from lifebus_supervisor.supervision.driving import drive
from lifebus_transports.messages.ticks import Tick
from support.adapters.calls import call, ids
from support.supervisor.supervised import HARNESS, SupervisedBus, facts_of, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": "t1", "prompt_id": "t1"}
STOP = {"hook_event_name": "Stop", "session_id": SESSION, "turn_id": "t1", "prompt_id": "t1"}
END = {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other"}
PRE_COMPACT = {"hook_event_name": "PreCompact", "session_id": SESSION, "turn_id": "t1", "trigger": "auto"}
ANOTHER = CallerProcess(pid=77, started="boot:7")
ACTIVITY = Activity(session=SESSION)


def causes(receipts: list[Receipt]) -> list[object]:
    return [one.telemetry_summary.get("cause") for one in receipts if one.event == "capability.degraded"]


async def test_a_turn_that_another_tools_stop_hook_lets_go_on_is_no_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"), ACTIVITY)
        await rig.tick()
        await rig.hook("codex", STOP)
        for _ in range(30):
            rig.news("codex", SESSION, ACTIVITY)
            assert causes(await rig.tick()) == []
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t2"), ACTIVITY)
        assert causes(await rig.tick(6)) == ["hooks_silent"]


async def test_a_permission_prompt_that_waits_for_hours_is_no_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", START)
        await rig.hook("claude", PROMPT)
        rig.news("claude", SESSION, TurnStarted(session=SESSION, frame_id="t1"), source_id="transcript")
        await rig.tick()
        rig.clock.seconds += 3 * 3_600
        assert facts_of(await rig.tick(20)) == []


async def test_a_status_line_does_not_hide_that_hooks_are_silent(tmp_path: Path) -> None:
    status = {"session_id": SESSION, "context_window": {"context_window_size": 1_000}}
    async with supervised(tmp_path) as rig:
        for payload in (START, PROMPT, STOP):
            await rig.hook("claude", payload)
        await rig.tick(3)
        rig.news("claude", SESSION, TurnStarted(session=SESSION, frame_id="t2"), source_id="transcript")
        recorded: list[Receipt] = []
        for _ in range(8):
            await rig.call(call("claude", status, "statusLine", call_id=f"status-{rig.clock.seconds}"))
            recorded += await rig.tick()
        assert causes(recorded) == ["hooks_silent"]


async def test_a_machine_that_slept_for_days_has_abandoned_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START, process=None)
        await rig.hook("codex", PROMPT, process=None)
        await rig.tick(5)
        rig.clock.jumped = 4 * 86_400.0
        assert facts_of(await rig.tick(10)) == []
        await rig.hook("codex", STOP, process=None)
        assert facts_of(await rig.tick(10)) == ["frame.ended"]


async def test_a_session_in_two_terminals_lives_until_both_are_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        await rig.tick(2)
        for payload in (START | {"source": "resume"}, STOP):
            await rig.hook("codex", payload, process=ANOTHER)
        assert facts_of(await rig.tick(2)) == ["frame.ended"]
        rig.dead.add(ANOTHER)
        assert facts_of(await rig.tick(5)) == []
        rig.dead.add(HARNESS)
        assert facts_of(await rig.tick(5)) == ["session.ended"]


async def test_a_process_that_ended_a_session_does_not_keep_it_alive_elsewhere(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", END)  # and the process goes on with another session
        for payload in (START | {"source": "resume"}, PROMPT):
            await rig.hook("codex", payload, process=ANOTHER)
        await rig.tick(2)
        rig.dead.add(ANOTHER)
        assert facts_of(await rig.tick(5)) == ["frame.ended", "session.ended"]


async def test_a_session_that_was_open_long_ago_is_closed_once_the_broker_is_back(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        await rig.tick()
        rig.clock.seconds += 5 * 86_400
        rig.restart()
        rig.dead.add(HARNESS)
        await rig.supervisor.recover()
        assert facts_of(await rig.tick(3)) == ["frame.ended", "session.ended"]


async def test_ticks_of_an_external_supervisor_make_no_session_an_apps(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed = {"codex"}
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"))
        recorded: list[Receipt] = []
        for _ in range(8):
            recorded += await rig.tick()
            await drive(rig.supervisor, rig.bus, Tick(client_id="driver", adapter_id="codex", session=SESSION))
        assert causes(recorded) == ["hooks_silent"]


async def test_a_signal_is_not_recorded_again_just_after_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (START, PROMPT, PRE_COMPACT):
            await rig.hook("codex", payload)
        rig.restart()  # nothing was taken up yet
        assert await rig.hook("codex", PRE_COMPACT) == []
        recorded = await rig.hook("codex", END)
        assert facts_of([*recorded, *await rig.tick()]) == ["session.ending", "frame.ended", "session.ended"]


async def test_an_app_with_a_manifest_alone_is_supervised_too(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (START, PROMPT):
            await rig.bus.emit("app", ADAPTERS["codex"].read(call("codex", payload), ids()).emissions)
        await rig.tick()
        rig.clock.seconds += rig.limits.abandon_s + 4_000
        recorded = await _until_quiet(rig)
        assert facts_of(recorded)[:1] == ["capability.degraded"]


async def _until_quiet(rig: SupervisedBus) -> list[Receipt]:
    return await rig.tick(3)


async def test_two_terminals_with_one_session_may_each_be_in_a_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        await rig.tick(2)
        for payload in (START | {"source": "resume"}, PROMPT | {"turn_id": "t2"}):
            await rig.hook("codex", payload, process=ANOTHER)
        assert facts_of(await rig.tick(4)) == []
        rig.dead.add(ANOTHER)
        await rig.hook("codex", STOP)
        assert facts_of(await rig.tick(4)) == ["frame.ended"]
        await rig.hook("codex", PROMPT | {"turn_id": "t3"})
        (ended,) = [one for one in await rig.tick(4) if one.event == "frame.ended"]
        assert ended.telemetry_summary["frame_id"] == "t2"
