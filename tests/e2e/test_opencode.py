"""The real OpenCode on the bus, through the plugin.  Its end names no session."""

from lifebus.live.model.scripting import prompt, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.opencode import OPENCODE
from support.e2e.harness_run import harness_run, places, text_at


async def test_the_words_of_a_client_reach_the_model_behind_the_prompt() -> None:
    async with harness_run(OPENCODE) as on:
        async with on.delivering(["frame.opening"]):
            await on.run(Turn(prompt("Listen.", say("heard"))))
        asked = [one for one in on.model.with_text(text_at("frame.opening")) if one.conversation.tools]
        assert [places(one, ["Listen.", text_at("frame.opening")]) for one in asked] == [
            [("user", "Listen."), ("user", text_at("frame.opening"))]
        ]
