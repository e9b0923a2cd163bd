"""The real OpenClaw on the bus, through the plugin.  Its local runs say nothing of a session's start and end."""

import asyncio

from lifebus.live.model.scripting import HOLD, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.openclaw import OPENCLAW
from support.e2e.harness_run import degraded, events_of, harness_run, is_closed, places, text_at

OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]


async def test_a_run_with_a_tool_call_is_a_frame() -> None:
    async with harness_run(OPENCLAW) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        receipts = await on.receipts()
        assert events_of(receipts)[:4] == FRAME
        assert degraded(receipts) == []


async def test_the_words_of_a_client_reach_the_model_before_the_prompt() -> None:
    async with harness_run(OPENCLAW) as on:
        async with on.delivering(["frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        request = on.model.with_text(text_at("frame.opening"))[0]
        assert places(request, [text_at("frame.opening"), "Listen."]) == [
            ("user", text_at("frame.opening")),
            ("user", "Listen."),
        ]


async def test_a_killed_run_is_closed_as_abandoned() -> None:
    async with harness_run(OPENCLAW) as on:
        async with on.started(Turn(prompt("Wait.", HOLD))) as started:
            await asyncio.to_thread(on.model.wait_held)
            await on.first(lambda receipt: "harness_process" in receipt.telemetry_summary)
            started.end()  # the program's own process is a helper; the agent runs in a session of its own
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*OPEN, "frame.ended abandoned", "session.ended"]
