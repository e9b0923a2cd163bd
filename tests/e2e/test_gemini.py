"""The real Gemini CLI on the bus."""

import signal

from lifebus.live.model.scripting import HOLD, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.gemini import GEMINI
from support.e2e.harness_run import degraded, events_of, harness_run, has_pressure, is_closed, places, text_at

START = ["session.starting startup", "session.started startup"]
RESUME = ["session.starting resume", "session.started resume"]
OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]
END = ["session.ending", "session.ended"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with harness_run(GEMINI) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        receipts = await on.receipts()
        assert events_of(receipts) == [*START, *FRAME, *END]
        assert degraded(receipts) == []


async def test_a_resumed_session_goes_on_with_its_own_sequence() -> None:
    async with harness_run(GEMINI) as on:
        await on.run(Turn(prompt("Begin.", say("begun"))))
        await on.run(Turn(prompt("Go on.", say("gone on")), await on.session()))
        assert events_of(await on.receipts()) == [*START, *FRAME, *END, *RESUME, *FRAME, *END]


async def test_the_words_of_a_client_reach_the_model_as_the_users_before_and_after_the_prompt() -> None:
    async with harness_run(GEMINI) as on:
        async with on.delivering(["session.starting", "frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        at_start, at_frame = text_at("session.starting"), text_at("frame.opening")
        (request,) = on.model.requests
        assert places(request, [at_start, "Listen.", at_frame]) == [
            ("user", at_start),
            ("user", "Listen."),
            ("user", at_frame),
        ]


async def test_pressure_rises_as_the_chat_file_tells() -> None:
    async with harness_run(GEMINI) as on:
        await on.run(Turn(prompt("Fill.", say("filled", 700_000))))
        await on.first(has_pressure("moderate"))
        assert await on.pressures() == [("moderate", 700_000, 1_048_576, 66)]


async def test_a_killed_session_and_its_frame_are_closed_as_abandoned() -> None:
    async with harness_run(GEMINI) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGKILL)
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended abandoned", "session.ended"]
