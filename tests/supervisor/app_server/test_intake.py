"""What observers of app-servers tell: recorded once, in order, whoever tells it again and whatever is missing."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import CallerProcess
from lifebus_adapters.shared.telemetry import Compacted
from lifebus_broker.ports import Refusal
from lifebus_contract import (
    BrokerBusy,
    CallbackResponse,
    DispatchEnvelope,
    FailureClass,
    InvalidRequest,
    LifecycleEvent,
    ReceiptStatus,
)
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedLoss
from support.adapters.app_server_recordings import notice, started, thread, turn
from support.bus_box import payload
from support.supervisor.observed import SERVER, Observer
from support.supervisor.supervised import facts_of, supervised

BEGIN = [started(), turn("turn/started")]
OPENED = ["session.started", "frame.opened"]
COMPACTED = notice("item/completed", threadId="t1", turnId="u1", item={"type": "contextCompaction"})
RESUMED = [({"id": 1, "method": "thread/resume"},), {"id": 1, "result": {"thread": thread()}}]


def _used(tokens: int) -> dict[str, Any]:
    usage = {"last": {"totalTokens": tokens}, "modelContextWindow": 1_000}
    return notice("thread/tokenUsage/updated", threadId="t1", turnId="u1", tokenUsage=usage)


async def test_a_batch_that_comes_again_records_nothing_twice(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        asks = {"id": 0, "method": "execCommandApproval", "params": {"conversationId": "t1"}}
        error = notice("error", threadId="t1", turnId="u1", willRetry=True, error={"codexErrorInfo": "other"})
        said = await observer.says(*BEGIN, asks, error, COMPACTED, turn("turn/completed", status="completed"))
        (tried,) = [one.telemetry_summary for one in said if one.telemetry_summary.get("source") == "app_server:error"]
        assert (tried["error"], tried["will_retry"]) == ("other", True)
        assert (tried["failure_class"], tried["retry_class"]) == ("internal_error", "retry_after_reread")
        await observer.ends(exit_code=0)
        assert facts_of(await observer.again(observer.sent)) == []


async def test_a_batch_that_comes_again_after_a_restart_records_nothing_twice(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        before = Observer(rig)
        await before.says(*BEGIN, COMPACTED)
        await before.observe(ObservedLoss(messages=3, bytes=700))
        rig.restart()
        after = Observer(rig)
        assert await after.again(before.sent) == []
        assert facts_of(await after.says(started(), turn("turn/completed", status="completed"))) == ["frame.ended"]


async def test_a_running_origin_goes_on_after_a_restart_and_its_end_is_known(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        before = Observer(rig)
        await before.says(*BEGIN)
        rig.restart()
        await rig.supervisor.recover()
        ended = await Observer(rig).observe(ObservedExit(signal=9))
        assert facts_of(ended) == ["frame.ended", "session.ended"]
        assert ended[0].telemetry_summary["frame_end"] == "abandoned"
        assert ended[-1].telemetry_summary["signal"] == 9


async def test_two_observers_of_one_server_record_each_fact_once(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        one = Observer(rig)
        other = Observer(rig, "o2", intake=one.intake)
        script = [*BEGIN, COMPACTED, turn("turn/completed", status="completed")]
        receipts = [receipt for message in script for who in (one, other) for receipt in await who.says(message)]
        receipts += await one.ends(exit_code=0)
        receipts += await other.ends(exit_code=0)
        assert facts_of(receipts) == [*OPENED, "context.compacted", "frame.ended", "session.ended"]


async def test_a_thread_that_another_client_resumes_in_the_same_server_begins_no_second_time(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        one = Observer(rig)
        await one.says(*BEGIN)
        assert await Observer(rig, "o2", intake=one.intake).says(*RESUMED) == []


async def test_a_thread_that_another_server_resumes_begins_anew_and_what_was_open_is_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        one = Observer(rig)
        await one.says(*BEGIN)
        other = Observer(rig, "o2", intake=one.intake, process=CallerProcess(pid=8, started="boot:8"))
        receipts = await other.says(*RESUMED)
        assert facts_of(receipts) == ["frame.ended", "session.started"]
        assert receipts[0].telemetry_summary["frame_end"] == "abandoned"
        assert receipts[1].telemetry_summary["thread"] == "resumed"


async def test_a_lost_turn_end_is_made_up_for_by_the_next_turn(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(*BEGIN)
        receipts = await observer.says(turn("turn/started", "t1", "u2"))
        assert [(one.event.value, one.telemetry_summary["frame_id"]) for one in receipts] == [
            ("frame.ended", "u1"),
            ("frame.opened", "u2"),
        ]
        assert await observer.says(turn("turn/completed", "t1", "u9", status="completed")) == []


ENDS = [
    (ObservedExit(exit_code=0), "completed"),
    (ObservedExit(exit_code=3), "abandoned"),
    (ObservedExit(signal=9), "abandoned"),
]


@pytest.mark.parametrize(("ended", "how"), [*ENDS, (ObservedExit(), "abandoned")])
async def test_the_end_of_a_server_closes_what_it_left_open_with_the_evidence(
    tmp_path: Path, ended: ObservedExit, how: str
) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(*BEGIN, started("t2"))
        receipts = await observer.observe(ended)
        assert facts_of(receipts) == ["frame.ended", "session.ended", "session.ended"]
        assert {one.telemetry_summary["session_end"] for one in receipts[1:]} == {how}
        shown = {name: receipts[1].telemetry_summary.get(name) for name in ("exit_code", "signal")}
        assert shown == {"exit_code": ended.exit_code, "signal": ended.signal}
        assert await observer.observe(ended) == []


async def test_a_server_that_died_with_its_observer_is_closed_two_ticks_later(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await Observer(rig).says(*BEGIN)
        await rig.tick()
        rig.dead.add(SERVER)
        receipts = await rig.tick(3)
        assert facts_of(receipts) == ["frame.ended", "session.ended"]
        assert "process 777 is gone" in str(receipts[-1].telemetry_summary["evidence"])


async def test_a_server_that_died_while_no_broker_ran_is_closed_by_the_next_one(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await Observer(rig).says(*BEGIN)
        rig.restart()
        await rig.supervisor.recover()
        rig.dead.add(SERVER)
        assert facts_of(await rig.tick(3)) == ["frame.ended", "session.ended"]


async def test_a_long_silent_turn_loses_nothing_while_its_server_lives(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await Observer(rig).says(*BEGIN)
        assert facts_of(await rig.tick(400)) == []


async def test_a_loss_is_a_gap_in_every_live_thread_and_else_outside_any(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        (outside,) = await observer.observe(ObservedLoss(messages=2, bytes=10))
        await observer.says(started(), started("t2"), started("t3"), notice("thread/closed", threadId="t3"))
        inside = await observer.observe(ObservedLoss(messages=5, bytes=900))
        assert (outside.harness_session_id, outside.sequence) == (None, None)
        assert [one.harness_session_id for one in inside] == ["t1", "t2"]
        assert {one.event for one in (outside, *inside)} == {LifecycleEvent.RECEIPT_GAP_DETECTED}
        facts = inside[0].telemetry_summary
        assert (facts["missed_messages"], facts["missed_bytes"], facts["source"]) == (5, 900, "app_server")


async def test_a_number_of_messages_that_nobody_knows_is_null(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(started())
        (gap,) = await observer.observe(ObservedLoss(messages=None, bytes=900))
        assert gap.telemetry_summary["missed_messages"] is None


async def test_a_change_of_pressure_is_told_with_the_numbers_that_show_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        receipts = await Observer(rig).says(*BEGIN, *map(_used, (100, 950, 940, 860, 800, 100)))
        levels = [one.telemetry_summary.get("context_pressure") for one in receipts[2:]]
        assert levels == ["low", "critical", "high", "low"]
        assert facts_of(await rig.observe()) == []


async def test_what_is_no_fact_is_refused_and_nothing_of_the_batch_is_recorded(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        good: dict[str, Any] = {"type": "ThreadOpened", "session": "t1", "how": "started", "method": "thread/start"}
        broken: list[dict[str, Any]] = [{"type": "Nonsense"}, {"type": "TurnStarted"}, {**good, "how": "guessed"}, {}]
        for bad in broken:
            with pytest.raises(InvalidRequest):
                await observer.observe(ObservedFact(fact=good), ObservedFact(fact=bad))
        assert await rig.since(0) == []


async def test_a_broker_that_cannot_record_says_so_and_the_batch_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Refusal(failure_class=FailureClass.TRANSPORT_ERROR, detail="the disk is full", code="disk_full")
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        with monkeypatch.context() as patched:
            patched.setattr(rig.bus.ledger, "append", lambda *_: full)
            with pytest.raises(BrokerBusy):
                await observer.says(*BEGIN)
        assert facts_of(await observer.again(observer.sent)) == OPENED


async def test_clients_hear_of_facts_and_are_not_told_that_something_was_delivered(tmp_path: Path) -> None:
    received: list[LifecycleEvent] = []

    async def answer(dispatch: DispatchEnvelope) -> CallbackResponse:
        received.append(dispatch.request.event)
        return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload("client"))

    async with supervised(tmp_path) as rig:
        rig.bus.register("client", [LifecycleEvent.FRAME_OPENED], answer)
        receipts = [one for one in await Observer(rig).says(*BEGIN) if one.client_id == "client"]
        assert received == [LifecycleEvent.FRAME_OPENED]
        assert [one.status for one in receipts] == [ReceiptStatus.FAILED]
        assert [one.failure_class for one in receipts] == [FailureClass.PLACEMENT_UNAVAILABLE]


async def test_the_compactions_of_a_thread_are_counted_from_when_its_server_was_first_heard(tmp_path: Path) -> None:
    again = notice("item/completed", threadId="t1", turnId="u2", item={"type": "contextCompaction"})
    async with supervised(tmp_path) as rig:
        receipts = await Observer(rig).says(*BEGIN, COMPACTED, turn("turn/started", "t1", "u2"), again, again)
        assert facts_of(receipts).count("context.compacted") == 3
        rig.news("codex", "t1", *(Compacted(session="t1", key=f"ordinal:{number}") for number in range(3)))
        assert facts_of(await rig.tick(4)) == []


async def test_pressure_behind_a_compaction_that_hooks_report_too_waits_for_its_receipt(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(*BEGIN)
        await rig.hook("codex", {"hook_event_name": "PreToolUse", "session_id": "t1", "turn_id": "u1"})
        assert len(await observer.says(_used(840))) == 1
        assert facts_of(await observer.says(COMPACTED, _used(310))) == []
        after = {"hook_event_name": "PostCompact", "session_id": "t1", "turn_id": "u1", "trigger": "auto"}
        assert facts_of(await rig.hook("codex", after)) == ["context.compacted"]
        (low,) = [one for one in await rig.tick() if one.event == "context.pressure_observed"]
        assert low.telemetry_summary["context_used_pct"] == 31


async def test_no_pressure_is_recorded_behind_the_end_of_a_thread(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(*BEGIN)
        await observer.ends(exit_code=0)
        assert await observer.says(_used(840)) == []
