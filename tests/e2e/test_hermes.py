"""The real Hermes on the bus.  It says nothing of a session's end where it is run for one answer."""

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.hermes import HERMES
from support.e2e.harness_run import harness_run, places, text_at


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
        await on.first(lambda receipt: receipt.event == "session.ended")
        assert await on.pressures() == [(None, 130_000, None, None)]
