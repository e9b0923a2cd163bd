"""The real Claude Code on the bus."""

from lifebus.live.model.scripting import agent, prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.claude import CLAUDE
from support.e2e.harness_run import (
    harness_run,
    has_pressure,
    is_spooled,
    places,
    text_at,
)


async def test_the_words_of_a_client_reach_the_model_in_the_systems_message_after_the_prompt() -> None:
    async with harness_run(CLAUDE) as on:
        async with on.delivering(["session.starting", "frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        at_start, at_frame = text_at("session.starting"), text_at("frame.opening")
        (request,) = on.model.requests
        assert places(request, [at_start, at_frame, "Listen."]) == [
            ("user", "Listen."),
            ("system", at_start),
            ("system", at_frame),
        ]


async def test_what_happened_while_the_broker_was_away_is_marked_as_late() -> None:
    async with harness_run(CLAUDE) as on:
        await on.broker.kill()
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            receipts = await on.receipts()
        assert all(is_spooled(receipt) for receipt in receipts if receipt.client_id == "lifebus.hook")


async def test_pressure_is_what_the_transcript_tells_of_the_models_window() -> None:
    async with harness_run(CLAUDE) as on:
        await on.run(Turn(prompt("Begin.", say("begun", 90_000))))
        await on.first(has_pressure("low"))
        await on.run(Turn(prompt("Go on.", say("gone on", 820_000)), await on.session()))
        await on.first(has_pressure("high"))
        window = 1_000_000
        assert await on.pressures() == [("low", 90_012, window, 9), ("high", 820_012, window, 82)]


async def test_a_background_agent_is_a_frame_of_its_own_and_its_report_another() -> None:
    async with harness_run(CLAUDE) as on:
        await on.run(Turn(prompt("Delegate.", agent("look around"), say("delegated"))))
        opened = [one for one in await on.receipts() if one.event == "frame.opened"]
        assert len({str(one.telemetry_summary["frame_id"]) for one in opened}) == 3
