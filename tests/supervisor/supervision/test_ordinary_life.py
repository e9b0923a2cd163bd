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
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START)
        await stage.hook("codex", PROMPT)
        stage.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"), ACTIVITY)
        await stage.tick()
        await stage.hook("codex", STOP)
        for _ in range(30):
            stage.news("codex", SESSION, ACTIVITY)
            assert causes(await stage.tick()) == []
        stage.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t2"), ACTIVITY)
        assert causes(await stage.tick(6)) == ["hooks_silent"]


async def test_a_permission_prompt_that_waits_for_hours_is_no_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("claude", START)
        await stage.hook("claude", PROMPT)
        stage.news("claude", SESSION, TurnStarted(session=SESSION, frame_id="t1"), source_id="transcript")
        await stage.tick()
        stage.clock.seconds += 3 * 3_600
        assert facts_of(await stage.tick(20)) == []


async def test_a_status_line_does_not_hide_that_hooks_are_silent(tmp_path: Path) -> None:
    status = {"session_id": SESSION, "context_window": {"context_window_size": 1_000}}
    async with supervised(tmp_path) as stage:
        for payload in (START, PROMPT, STOP):
            await stage.hook("claude", payload)
        await stage.tick(3)
        stage.news("claude", SESSION, TurnStarted(session=SESSION, frame_id="t2"), source_id="transcript")
        recorded: list[Receipt] = []
        for _ in range(8):
            await stage.call(call("claude", status, "statusLine", call_id=f"status-{stage.clock.seconds}"))
            recorded += await stage.tick()
        assert causes(recorded) == ["hooks_silent"]


async def test_a_machine_that_slept_for_days_has_abandoned_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START, process=None)
        await stage.hook("codex", PROMPT, process=None)
        await stage.tick(5)
        stage.clock.jumped = 4 * 86_400.0
        assert facts_of(await stage.tick(10)) == []
        await stage.hook("codex", STOP, process=None)
        assert facts_of(await stage.tick(10)) == []


async def test_a_session_in_two_terminals_lives_until_both_are_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START)
        await stage.hook("codex", PROMPT)
        await stage.tick(2)
        for payload in (START | {"source": "resume"}, STOP):
            await stage.hook("codex", payload, process=ANOTHER)
        await stage.tick(2)
        stage.dead.add(ANOTHER)
        assert facts_of(await stage.tick(5)) == []
        stage.dead.add(HARNESS)
        assert facts_of(await stage.tick(5)) == ["session.ended"]


async def test_a_process_that_ended_a_session_does_not_keep_it_alive_elsewhere(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START)
        await stage.hook("codex", END)  # and the process goes on with another session
        for payload in (START | {"source": "resume"}, PROMPT):
            await stage.hook("codex", payload, process=ANOTHER)
        await stage.tick(2)
        stage.dead.add(ANOTHER)
        assert facts_of(await stage.tick(5)) == ["frame.ended", "session.ended"]


async def test_a_session_that_was_open_long_ago_is_closed_once_the_broker_is_back(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START)
        await stage.hook("codex", PROMPT)
        await stage.tick()
        stage.clock.seconds += 5 * 86_400
        stage.restart()
        stage.dead.add(HARNESS)
        await stage.supervisor.recover()
        assert facts_of(await stage.tick(3)) == ["frame.ended", "session.ended"]


async def test_ticks_of_an_external_supervisor_make_no_session_an_apps(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        stage.installed = {"codex"}
        stage.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"))
        recorded: list[Receipt] = []
        for _ in range(8):
            recorded += await stage.tick()
            await drive(stage.supervisor, stage.bus, Tick(client_id="driver", adapter_id="codex", session=SESSION))
        assert causes(recorded) == ["hooks_silent"]


async def test_a_signal_is_not_recorded_again_just_after_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        for payload in (START, PROMPT, PRE_COMPACT):
            await stage.hook("codex", payload)
        stage.restart()  # nothing was taken up yet
        assert await stage.hook("codex", PRE_COMPACT) == []
        recorded = await stage.hook("codex", END)
        assert facts_of(recorded) == ["frame.ended", "session.ending", "session.ended"]


async def test_an_app_with_a_manifest_alone_is_supervised_too(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        for payload in (START, PROMPT):
            await stage.bus.emit("app", ADAPTERS["codex"].read(call("codex", payload), ids()).emissions)
        await stage.tick()
        stage.clock.seconds += stage.limits.abandon_s + 4_000
        recorded = await _until_quiet(stage)
        assert facts_of(recorded)[:1] == ["capability.degraded"]


async def _until_quiet(stage: SupervisedBus) -> list[Receipt]:
    return await stage.tick(3)


async def test_two_terminals_with_one_session_may_each_be_in_a_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as stage:
        await stage.hook("codex", START)
        await stage.hook("codex", PROMPT)
        await stage.tick(2)
        for payload in (START | {"source": "resume"}, PROMPT | {"turn_id": "t2"}):
            await stage.hook("codex", payload, process=ANOTHER)
        assert facts_of(await stage.tick(4)) == []
        stage.dead.add(ANOTHER)
        await stage.hook("codex", STOP)
        assert facts_of(await stage.tick(4)) == []
        await stage.hook("codex", PROMPT | {"turn_id": "t3"})
        (ended,) = [one for one in await stage.tick(4) if one.event == "frame.ended"]
        assert ended.telemetry_summary["frame_id"] == "t2"
