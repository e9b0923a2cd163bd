"""The real OpenClaw on the bus, through the plugin.  Its local runs say nothing of a session's start and end."""

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.openclaw import OPENCLAW
from support.e2e.harness_run import harness_run, places, text_at


async def test_the_words_of_a_client_reach_the_model_before_the_prompt() -> None:
    async with harness_run(OPENCLAW) as on:
        async with on.delivering(["frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        request = on.model.with_text(text_at("frame.opening"))[0]
        assert places(request, [text_at("frame.opening"), "Listen."]) == [
            ("user", text_at("frame.opening")),
            ("user", "Listen."),
        ]
