"""Silence counts where something else shows work: then a capability is lost, with evidence, and it comes back."""

from pathlib import Path

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Activity, TurnEnded, TurnStarted, Usage
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_contract import (
    CapabilityRequest,
    LifecycleEvent,
    Receipt,
    RequirementLevel,
    SupportState,
    encode_json,
)
from lifebus_supervisor.supervision.rules.silence import PATIENT_TICKS
from lifebus_supervisor.tailing.events import FileProblem, FileUpdate
from support.adapters.calls import call, ids
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup", "transcript_path": "/t/s1"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": "t1"}
STOP = {"hook_event_name": "Stop", "session_id": SESSION, "turn_id": "t1"}
ACTIVITY = Activity(session=SESSION)


def losses(receipts: list[Receipt]) -> list[Receipt]:
    return [one for one in receipts if one.event == "capability.degraded"]


def outcome(rig: SupervisedBus, session: str) -> str:
    """What a client that needs pressure gets in a session now."""
    request = CapabilityRequest(capability="context_pressure", level=RequirementLevel.REQUIRED)
    overrides = rig.bus.capabilities.overrides("codex", session)
    return negotiate(rig.bus.registry.require("codex"), [request], overrides).outcome


async def one_turn(rig: SupervisedBus) -> None:
    for payload in (START, PROMPT, STOP):
        await rig.hook("codex", payload)
    await rig.tick(3)


def missing(problem: FileProblem = "missing") -> FileUpdate:
    return FileUpdate(
        adapter_id="codex", source_id="rollout", path="/t/s1", session=SESSION, problem=problem, evidence="no such file"
    )


async def test_hooks_that_are_cut_while_the_transcript_grows_are_recorded_as_silent(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t2"), ACTIVITY)
        recorded = await rig.tick(rig.limits.silence.hook_ticks + 1)
        (receipt,) = losses(recorded)
        lost = {one.capability: (one.previous_support, one.current_support) for one in receipt.capability_degradations}
        assert lost["event:frame.opening"] == (SupportState.NATIVE, SupportState.UNAVAILABLE)
        assert lost["placement:pre_frame_trailing"] == (SupportState.NATIVE, SupportState.UNAVAILABLE)
        assert "event:context.compacted" not in lost
        evidence = receipt.capability_degradations[0].evidence
        assert evidence.startswith("telemetry shows work for 3 ticks, last hook Stop")
        assert (receipt.status, receipt.failure_class) == ("degraded", "capability_degraded")
        assert receipt.telemetry_summary["cause"] == "hooks_silent"


async def test_a_file_that_never_was_is_not_missed_before_the_first_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.files.standing = [missing()]
        assert losses(await rig.tick(10)) == []
        await rig.hook("codex", PROMPT)
        assert losses(await rig.tick(10)) == []  # other hooks may hold up the first prompt, and with it the file
        await rig.hook("codex", STOP)
        assert len(losses(await rig.tick(2))) == 1


async def test_a_file_that_never_came_is_missed_in_a_long_first_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        rig.files.standing = [missing()]
        assert len(losses(await rig.tick(PATIENT_TICKS + 5))) == 1


async def test_every_field_of_the_contract_is_there(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.files.standing = [missing()]
        (receipt,) = losses(await rig.tick(2))
        (first, second) = receipt.capability_degradations
        assert encode_json(first).decode() == (
            '{"capability":"context_pressure","current_support":"unavailable","event":"capability.degraded",'
            '"evidence":"telemetry file missing for 2 consecutive polls","observed_at_epoch_s":1800001010,'
            '"previous_support":"synthesized","retry_class":"retry_after_reconfigure"}'
        )
        assert second.capability == "event:context.pressure_observed"


async def test_work_outside_any_turn_counts_when_it_goes_on(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        for _ in range(2):
            rig.news("codex", SESSION, ACTIVITY)
            assert losses(await rig.tick()) == []
        assert len(losses(await rig.tick(3))) == 1


async def test_the_last_lines_of_a_turn_are_no_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        await rig.hook("codex", STOP)
        for _ in range(2):  # they come a little after the hook
            rig.news("codex", SESSION, ACTIVITY)
            await rig.tick()
        assert losses(await rig.tick(20)) == []


async def test_a_long_turn_is_no_silence(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        for _ in range(50):
            rig.news("codex", SESSION, ACTIVITY)
            assert losses(await rig.tick()) == []


async def test_an_idle_session_loses_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        assert await rig.tick(200) == []


async def test_a_stop_that_never_comes_is_shown_by_the_end_in_the_file(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PROMPT)
        rig.news("codex", SESSION, TurnEnded(session=SESSION, frame_id="t1"))
        recorded = await rig.tick(4)
        assert facts_of(recorded) == ["frame.ended"]
        assert recorded[-1].telemetry_summary["frame_end"] == "completed"


async def test_a_hook_that_comes_again_gives_back_what_was_lost(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t2"))
        (loss,) = losses(await rig.tick(4))
        await rig.hook("codex", PROMPT | {"turn_id": "t3"})
        (back,) = losses(await rig.tick())
        assert {one.capability for one in back.capability_degradations} == {
            one.capability for one in loss.capability_degradations
        }
        assert {one.previous_support for one in back.capability_degradations} == {SupportState.UNAVAILABLE}
        assert back.capability_degradations[0].evidence == "a hook came again: UserPromptSubmit"
        assert (back.status, back.failure_class) == ("observed", None)
        assert losses(await rig.tick(10)) == []


async def test_negotiations_see_what_is_lost_until_it_is_back(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.files.standing = [missing()]
        await rig.tick(2)
        assert outcome(rig, SESSION) == "unsupported"
        assert outcome(rig, "another") == "satisfied"
        rig.files.standing = []
        rig.news("codex", SESSION, Usage(session=SESSION, used_tokens=1, used_source="x"))
        (back,) = losses(await rig.tick())
        assert back.capability_degradations[0].evidence == "the telemetry file is there again"
        assert outcome(rig, SESSION) == "satisfied"


async def test_one_missing_poll_is_not_enough(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        for _ in range(3):
            rig.files.put(missing())
            assert losses(await rig.tick(2)) == []


@pytest.mark.parametrize("problem", ["hung", "refused", "unreadable"])
async def test_a_file_that_cannot_be_had_is_as_good_as_missing(tmp_path: Path, problem: FileProblem) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.files.standing = [missing(problem=problem)]
        assert len(losses(await rig.tick(6))) == 1


async def test_three_unreadable_lines_in_a_row_degrade_the_source(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.news("codex", SESSION, skipped=2, unreadable_run=2)
        assert losses(await rig.tick()) == []
        rig.news("codex", SESSION, skipped=1, unreadable_run=3, evidence="unreadable record bad_json")
        (receipt,) = losses(await rig.tick())
        assert receipt.capability_degradations[0].evidence == "unreadable record bad_json"
        rig.news("codex", SESSION, ACTIVITY)
        assert len(losses(await rig.tick())) == 1


async def test_a_loss_is_recorded_once_and_survives_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await one_turn(rig)
        rig.files.standing = [missing()]
        await rig.tick(2)
        rig.restart()
        rig.bus.capabilities.state = CapabilityState()  # as in a new process
        await rig.supervisor.recover()
        rig.files.standing = [missing()]
        assert losses(await rig.tick(5)) == []
        assert outcome(rig, SESSION) == "unsupported"


@pytest.mark.parametrize("installed", [True, False])
async def test_a_session_without_any_hook_is_silent_where_hooks_are_installed(tmp_path: Path, installed: bool) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed = {"codex"} if installed else set()
        rig.news("codex", SESSION, TurnStarted(session=SESSION, frame_id="t1"))
        assert len(losses(await rig.tick(6))) == int(installed)


async def test_an_app_that_stops_sending_in_an_open_frame_is_recorded_as_silent(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (START, PROMPT):
            await rig.bus.emit("app", ADAPTERS["codex"].read(call("codex", payload), ids()).emissions)
        await rig.tick()
        rig.clock.seconds += rig.limits.silence.app_s
        (receipt,) = losses(await rig.tick(2))
        assert receipt.telemetry_summary["cause"] == "app_silent"
        await rig.bus.emit("app", ADAPTERS["codex"].read(call("codex", STOP), ids()).emissions)
        (back,) = losses(await rig.tick())
        assert back.capability_degradations[0].evidence == "the app was heard again"


async def test_an_app_between_two_frames_may_be_silent(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for payload in (START, PROMPT, STOP):
            await rig.bus.emit("app", ADAPTERS["codex"].read(call("codex", payload), ids()).emissions)
        await rig.tick()
        rig.clock.seconds += 10 * rig.limits.silence.app_s
        assert await rig.tick(3) == []


async def test_ticks_that_find_nothing_are_published_and_not_stored(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        assert await rig.tick(2) == []
        assert rig.transient == []
        await one_turn(rig)
        before = len(rig.transient)
        assert await rig.tick(2) == []
        assert len(rig.transient) == before + 2
        recorded = rig.transient[-1]
        assert (recorded.event, recorded.sequence) == (LifecycleEvent.SUPERVISOR_TICK, None)
        assert recorded.telemetry_summary == {"sessions": 1}
