"""The real Codex CLI on the bus."""

from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.codex import CODEX
from support.e2e.harness_run import (
    harness_run,
    has_pressure,
    is_spooled,
    places,
    text_at,
)


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


async def test_what_happened_while_the_broker_was_away_is_marked_as_late() -> None:
    async with harness_run(CODEX) as on:
        await on.broker.kill()
        await on.run(Turn(prompt("Work.", run("echo hi"), say("done"))))
        async with on.broker_again():
            await on.first(lambda receipt: receipt.event == "session.ended")
            receipts = await on.receipts()
        assert all(is_spooled(receipt) for receipt in receipts if receipt.client_id == "lifebus.hook")


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
