"""The real OpenCode on the bus, through the plugin.  Its end names no session."""

import signal

from lifebus.live.model.scripting import HOLD, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.opencode import OPENCODE
from support.e2e.harness_run import degraded, events_of, harness_run, is_closed, places, text_at

START = ["session.starting", "session.started"]
OPEN = ["frame.opening", "frame.opened"]
FRAME = [*OPEN, "frame.ending", "frame.ended completed"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with harness_run(OPENCODE) as on:
        await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        session = await on.session()
        receipts = await on.receipts()
        assert events_of([one for one in receipts if one.harness_session_id == session])[:6] == [*START, *FRAME]
        assert degraded(receipts) == []


async def test_a_compaction_is_told_once() -> None:
    async with harness_run(OPENCODE) as on:
        await on.run(Turn(prompt("Begin.", say("begun", 9_000))))
        await on.run(Turn(prompt("Fill.", say("filled", 19_500)), await on.session()))
        events = events_of(await on.receipts())
        assert [event for event in events if event.startswith("context.")] == ["context.compacted"]


async def test_the_words_of_a_client_reach_the_model_behind_the_prompt() -> None:
    async with harness_run(OPENCODE) as on:
        async with on.delivering(["frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        asked = [one for one in on.model.with_text(text_at("frame.opening")) if one.conversation.tools]
        assert [places(one, ["Listen.", text_at("frame.opening")]) for one in asked] == [
            [("user", "Listen."), ("user", text_at("frame.opening"))]
        ]


async def test_a_killed_session_and_its_frame_are_closed_as_abandoned() -> None:
    async with harness_run(OPENCODE) as on:
        await on.stopped(Turn(prompt("Wait.", HOLD)), signal.SIGKILL)
        await on.first(is_closed)
        assert events_of(await on.receipts()) == [*START, *OPEN, "frame.ended abandoned", "session.ended"]
