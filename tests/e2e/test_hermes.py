"""The real Hermes on the bus.  It says nothing of a session's end where it is run for one answer."""

import signal

from lifebus.live.model.scripting import HOLD, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.hermes import HERMES
from support.e2e.harness_run import degraded, events_of, harness_run, is_closed, places, text_at

START = ["session.starting", "session.started"]
OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]


async def test_a_turn_with_a_tool_call_is_told_and_the_session_closed_when_the_process_is_gone() -> None:
    async with harness_run(HERMES) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        await on.first(is_closed)
        receipts = await on.receipts()
        assert events_of(receipts) == [*START, *FRAME, "session.ended"]
        assert degraded(receipts) == []


async def test_the_words_of_a_client_reach_the_model_behind_the_prompt() -> None:
    async with harness_run(HERMES) as on:
        async with on.delivering(["frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        (request,) = on.model.with_text(text_at("frame.opening"))
        assert places(request, ["Listen.", text_at("frame.opening")]) == [
            ("user", "Listen."),
            ("user", text_at("frame.opening")),
        ]


async def test_the_tokens_of_a_request_are_told_without_a_percentage_because_the_window_is_unknown() -> None:
    async with harness_run(HERMES) as on:
        await on.run(Turn(prompt("Fill.", say("filled", 130_000))))
        await on.first(is_closed)
        assert await on.pressures() == [(None, 130_000, None, None)]


async def test_a_killed_session_and_its_frame_are_closed_as_abandoned() -> None:
    async with harness_run(HERMES) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGKILL)
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended abandoned", "session.ended"]
