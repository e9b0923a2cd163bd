"""The real Gemini CLI on the bus."""

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.gemini import GEMINI
from support.e2e.harness_run import harness_run, has_pressure, places, text_at


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
