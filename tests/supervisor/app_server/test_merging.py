"""One fact gives one receipt, whether a hook, the rollout or an app-server tells it first."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt, ReceiptStatus
from support.adapters.app_server_recordings import notice, started, turn
from support.supervisor.observed import SERVER, Observer
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

START = {"hook_event_name": "SessionStart", "session_id": "t1", "source": "startup"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "t1", "turn_id": "u1"}
COMPACT = {"hook_event_name": "PostCompact", "session_id": "t1", "turn_id": "u1", "trigger": "auto"}
STOP = {"hook_event_name": "Stop", "session_id": "t1", "turn_id": "u1", "stop_hook_active": False}
END = {"hook_event_name": "SessionEnd", "session_id": "t1", "reason": "exit"}

ITEM = notice("item/completed", threadId="t1", turnId="u1", item={"type": "contextCompaction"})
DONE = turn("turn/completed", status="completed")

ONCE = ["session.started", "frame.opened", "context.compacted", "frame.ended", "session.ended"]


async def by_hook(rig: SupervisedBus, payload: dict[str, Any]) -> None:
    await rig.hook("codex", payload, process=SERVER)


def shared(receipts: Sequence[Receipt]) -> list[str]:
    """The facts that all three can tell."""
    return [name for name in facts_of(receipts) if name in ONCE]


async def test_a_session_with_hooks_is_told_by_them_and_the_app_server_adds_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        observer = Observer(rig)
        await observer.says(started())
        await by_hook(rig, START)
        await by_hook(rig, PROMPT)
        await observer.says(turn("turn/started"), ITEM)
        await by_hook(rig, COMPACT)
        await by_hook(rig, STOP)
        await observer.says(DONE)
        await by_hook(rig, END)
        await observer.ends(exit_code=0)
        await rig.tick(8)
        receipts = await rig.since(0)
        assert shared(receipts) == ONCE
        # What the hooks announced is settled by supervision.
        ends = {"frame.ended", "session.ended", "supervisor.tick"}
        assert {one.client_id for one in receipts if one.event not in ends} == {"lifebus.hook"}
        assert {one.client_id for one in receipts if one.event in ends} == {"lifebus.supervisor"}


STEPS: list[tuple[dict[str, Any], Any, Any]] = [
    (START, started(), None),
    (PROMPT, turn("turn/started"), TurnStarted(session="t1", frame_id="u1")),
    (COMPACT, ITEM, Compacted(session="t1", key="ordinal:7")),
    (STOP, DONE, TurnEnded(session="t1", frame_id="u1")),
]


@pytest.mark.parametrize("order", list(permutations(("hook", "wire", "file"))), ids="-".join)
@pytest.mark.parametrize("installed", [True, False])
async def test_each_fact_is_told_once_in_whatever_order_it_comes(
    tmp_path: Path, order: tuple[str, ...], installed: bool
) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed |= {"codex"} if installed else set()
        observer = Observer(rig)
        for hook, message, fact in STEPS:
            for teller in order:
                if teller == "hook":
                    await by_hook(rig, hook)
                elif teller == "wire":
                    await observer.says(message)
                elif fact is not None:
                    rig.news("codex", "t1", fact)
                    await rig.observe()
        await by_hook(rig, END)
        await observer.ends(exit_code=0)
        await rig.tick(8)
        assert shared(await rig.since(0)) == ONCE


async def test_a_hooks_first_words_reach_the_clients_though_the_app_server_was_faster(tmp_path: Path) -> None:
    received: list[str] = []

    async def answer(dispatch: DispatchEnvelope) -> CallbackResponse:
        received.append(dispatch.request.event.value)
        return CallbackResponse.ok(ReceiptStatus.OBSERVED)

    async with supervised(tmp_path) as rig:
        rig.bus.register("client", [LifecycleEvent.SESSION_STARTING, LifecycleEvent.FRAME_OPENING], answer)
        await Observer(rig).says(started(), turn("turn/started"))
        await by_hook(rig, START)
        await by_hook(rig, PROMPT)
        assert received == ["session.starting", "frame.opening"]
        facts = facts_of(await rig.since(0))
        assert facts == ["session.started", "frame.opened", "session.starting", "frame.opening"]


async def test_hooks_that_are_installed_and_silent_are_stood_in_for_once_that_is_known(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        observer = Observer(rig)
        await rig.tick()
        assert await observer.says(started(), turn("turn/started")) == []
        facts = facts_of(await rig.tick(4))
        assert facts == ["capability.degraded", "session.started", "frame.opened"]
        assert facts_of(await observer.says(ITEM, DONE)) == ["context.compacted", "frame.ended"]
        assert facts_of(await observer.ends(exit_code=0)) == ["session.ended"]
        assert facts_of(await rig.tick(4)) == []


async def test_nothing_waits_for_hooks_that_are_not_trusted(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        rig.distrusted["codex"] = "not trusted"
        observer = Observer(rig)
        assert facts_of(await observer.says(started(), turn("turn/started"))) == ["session.started", "frame.opened"]
        (loss,) = [one for one in await rig.observe() if one.event is LifecycleEvent.CAPABILITY_DEGRADED]
        evidence = "a turn began, no hook ever came: not trusted"
        assert loss.telemetry_summary == {"cause": "hooks_silent", "evidence": evidence}
        assert facts_of(await observer.says(ITEM, DONE)) == ["context.compacted", "frame.ended"]
        assert facts_of(await observer.ends(exit_code=0)) == ["session.ended"]
        rig.dead.add(SERVER)
        rig.installed.clear()
        assert await rig.tick(8) == []


USED = notice(
    "thread/tokenUsage/updated",
    threadId="t1",
    turnId="u1",
    tokenUsage={"last": {"totalTokens": 500, "inputTokens": 400, "outputTokens": 100}, "modelContextWindow": 1_000},
)


async def test_what_was_left_to_hooks_that_never_came_is_on_record_before_the_end_and_never_behind_it(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        observer = Observer(rig)
        await observer.says(started(), turn("turn/started"), USED, DONE)
        await observer.ends(exit_code=0)
        rig.dead.add(SERVER)
        await rig.tick(6)
        receipts = await rig.since(0)
        told = ["context.pressure_observed", "session.started", "frame.opened", "frame.ended", "session.ended"]
        assert facts_of(receipts) == told
        assert receipts[-1].telemetry_summary["session_end"] == "completed"
        rig.installed.clear()
        assert await rig.tick(6) == []
        assert [one for one in rig.supervisor.monitors if one.is_live] == []


async def test_what_was_deferred_comes_before_an_end_that_the_process_shows(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        await Observer(rig).says(started(), turn("turn/started"), USED)
        rig.dead.add(SERVER)  # and its observer with it
        await rig.tick(2)
        rig.installed.clear()
        await rig.tick(6)
        receipts = await rig.since(0)
        shown = [name for name in facts_of(receipts) if name in ONCE]
        assert shown == ["session.started", "frame.opened", "frame.ended", "session.ended"]
        assert receipts[-1].telemetry_summary["session_end"] == "abandoned"


async def test_what_an_app_server_says_of_a_session_that_has_ended_is_not_recorded_behind_the_end(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(started(), turn("turn/started"), DONE)
        await observer.says(notice("thread/closed", threadId="t1"))
        assert facts_of(await observer.says(USED, ITEM, DONE)) == []
        again = await observer.says(turn("turn/started", "t1", "u2"))
        assert facts_of(again) == ["session.starting", "session.started", "frame.opened"]


@pytest.mark.parametrize("first", ["wire", "file"])
async def test_without_trusted_hooks_app_server_and_rollout_give_one_receipt_for_each_fact(
    tmp_path: Path, first: str
) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        rig.distrusted["codex"] = "not trusted"
        observer = Observer(rig)
        for _, message, fact in STEPS:
            for source in ("wire", "file") if first == "wire" else ("file", "wire"):
                if source == "wire":
                    await observer.says(message)
                elif fact is not None:
                    rig.news("codex", "t1", fact)
                    await rig.tick()
        await observer.ends(exit_code=0)
        await rig.tick(8)
        assert shared(await rig.since(0)) == ONCE


async def test_a_compaction_in_the_file_waits_for_the_observer_that_is_behind(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await observer.says(started())
        rig.news("codex", "t1", Compacted(session="t1", key="ordinal:7"))
        assert facts_of(await rig.tick()) == []
        told = [*await observer.says(turn("turn/started"), ITEM, DONE), *await rig.tick(4)]
        assert facts_of(told) == ["frame.opened", "context.compacted", "frame.ended"]


async def test_a_compaction_that_the_observer_never_saw_is_recorded_after_its_time(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await Observer(rig).says(started())
        rig.news("codex", "t1", Compacted(session="t1", key="ordinal:7"))
        assert facts_of(await rig.tick(4)) == ["context.compacted"]


async def test_a_short_session_that_no_installed_hook_told_of_is_told_at_its_end(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.installed.add("codex")
        observer = Observer(rig)
        await observer.says(started(), turn("turn/started"), DONE)
        await observer.ends(exit_code=0)
        assert shared(await rig.tick(3)) == ["session.started", "frame.opened", "frame.ended", "session.ended"]


async def test_an_end_that_no_hook_tells_is_recorded_after_its_time(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await by_hook(rig, START)
        await by_hook(rig, PROMPT)
        await observer.says(started(), turn("turn/started"))
        error = {"codexErrorInfo": "badRequest"}
        assert await observer.says(turn("turn/completed", status="failed", error=error)) == []
        ended = [one for one in await rig.tick(3) if one.event is LifecycleEvent.FRAME_ENDED]
        assert [one.telemetry_summary["frame_end"] for one in ended] == ["failed"]
        assert ended[0].telemetry_summary["retry_class"] == "do_not_retry"
        await observer.ends(exit_code=0)
        assert facts_of(await rig.tick(3)) == ["session.ended"]


async def test_a_turn_that_compacts_on_request_shows_no_silence_of_hooks(tmp_path: Path) -> None:
    compact = ({"id": 1, "method": "thread/compact/start", "params": {"threadId": "t1"}},)
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await by_hook(rig, START)
        await observer.says(started(), compact, turn("turn/started"))
        await by_hook(rig, COMPACT)
        await observer.says(ITEM, DONE)
        assert facts_of(await rig.tick(8)) == []


async def test_a_thread_that_is_opened_again_while_its_end_waits_for_a_hook_ends_first(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await by_hook(rig, START)
        await observer.says(started())
        assert await observer.says(notice("thread/closed", threadId="t1")) == []
        assert facts_of(await observer.says(started())) == ["session.ended"]
        await by_hook(rig, {**START, "source": "resume"})
        assert facts_of(await rig.tick(4)) == []


async def test_questions_to_people_are_told_whoever_tells_the_rest(tmp_path: Path) -> None:
    asks = {"id": 0, "method": "item/tool/requestUserInput", "params": {"threadId": "t1", "itemId": "i1"}}
    async with supervised(tmp_path) as rig:
        observer = Observer(rig)
        await by_hook(rig, START)
        await by_hook(rig, PROMPT)
        facts = await observer.says(turn("turn/started"), asks, ({"id": 0, "result": {"answers": "secret"}},))
        assert [one.telemetry_summary["operator"] for one in facts] == ["asked", "answered"]
        assert {one.telemetry_summary["frame_id"] for one in facts} == {"u1"}
        assert "secret" not in repr(facts)
