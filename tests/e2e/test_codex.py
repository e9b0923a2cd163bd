"""The real Codex CLI on the bus."""

import signal

from lifebus.live.model.scripting import HOLD, agent, fail, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.codex import CODEX
from support.e2e.harness_run import (
    degraded,
    events_of,
    harness_run,
    has_pressure,
    is_closed,
    is_spooled,
    places,
    text_at,
)

START = ["session.starting startup", "session.started startup"]
RESUME = ["session.starting resume", "session.started resume"]
OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]
END = ["session.ending", "session.ended"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        receipts = await on.receipts()
        assert events_of(receipts) == [*START, *FRAME, *END]
        assert degraded(receipts) == []


async def test_a_resumed_session_goes_on_with_its_own_sequence() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Begin.", say("begun"))))
        await on.run(Turn(prompt("Go on.", say("gone on")), await on.session()))
        assert events_of(await on.receipts()) == [*START, *FRAME, *END, *RESUME, *FRAME, *END]


async def test_a_compaction_in_the_middle_of_a_turn_is_told_once() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Fill.", run("echo hi", 16_000), say("done", 3_000))))
        events = events_of(await on.receipts())
        assert events == [*START, *OPEN, "context.compacted auto", *FRAME[2:], *END]


async def test_the_words_of_a_client_reach_the_model_as_the_developers_before_and_after_the_prompt() -> None:
    async with harness_run(CODEX) as on:
        async with on.delivering(["session.starting", "frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        at_start, at_frame = text_at("session.starting"), text_at("frame.opening")
        (request,) = on.model.requests
        assert places(request, [at_start, at_frame, "Listen."]) == [
            ("developer", at_start),
            ("user", "Listen."),
            ("developer", at_frame),
        ]


async def test_an_interrupted_turn_ends_as_interrupted() -> None:
    async with harness_run(CODEX) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGINT)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended interrupted", *END]


async def test_a_broker_that_is_away_loses_nothing_and_stops_nobody() -> None:
    async with harness_run(CODEX) as on:
        await on.broker.kill()
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            receipts = await on.receipts()
        assert events_of(receipts) == [*START, *FRAME, *END]
        assert all(is_spooled(receipt) for receipt in receipts if receipt.client_id == "lifebus.hook")


async def test_a_broker_that_hangs_stops_nobody() -> None:
    async with harness_run(CODEX) as on:
        on.broker.signal(signal.SIGSTOP)
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        on.broker.signal(signal.SIGCONT)
        await on.broker.kill()
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            assert events_of(await on.receipts()) == [*START, *FRAME, *END]


async def test_a_model_error_ends_frame_and_session_and_the_program_says_so() -> None:
    async with harness_run(CODEX) as on:
        async with on.started(Turn(prompt("Fail.", fail(500)))) as started:
            ran = await started.ended()
        assert ran.code == 1
        (ended,) = [event for event in events_of(await on.receipts()) if event.startswith("frame.ended")]
        assert ended in {"frame.ended failed", "frame.ended abandoned"}  # as the rollout is read before the end or not


async def test_pressure_rises_as_the_rollout_tells() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Begin.", say("begun", 9_000))))
        await on.first(has_pressure("low"))
        await on.run(Turn(prompt("Go on.", say("gone on", 12_000)), await on.session()))
        await on.first(has_pressure("moderate"))
        window = 20_000 * 95 // 100
        assert await on.pressures() == [
            ("low", 9_012, window, 100 * 9_012 // window),
            ("moderate", 12_012, window, 100 * 12_012 // window),
        ]


async def test_a_killed_session_and_its_frame_are_closed_as_abandoned() -> None:
    async with harness_run(CODEX) as on:
        ran = await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGKILL)
        assert ran.code == -signal.SIGKILL
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended abandoned", "session.ended"]


async def test_a_terminated_session_says_nothing_and_is_closed_as_abandoned() -> None:
    async with harness_run(CODEX) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGTERM)
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended abandoned", "session.ended"]


async def test_a_sub_agent_is_a_frame_inside_the_turn() -> None:
    async with harness_run(CODEX) as on:
        await on.run(Turn(prompt("Delegate.", agent("look around"), say("delegated"))))
        opened = [one for one in await on.receipts() if one.event == "frame.opened"]
        turn, *inner = [str(one.telemetry_summary["frame_id"]) for one in opened]
        assert len(set(inner) - {turn}) == 1
