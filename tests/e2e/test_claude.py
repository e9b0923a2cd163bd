"""The real Claude Code on the bus."""

from e2e.harnesses.base import Turn
from e2e.harnesses.claude import CLAUDE
from e2e.scripting import prompt, run, say
from e2e.stage import stage, told

SESSION_OPEN = ["session.starting", "session.started"]
FRAME = ["frame.opening", "frame.opened", "frame.ending", "frame.ended completed"]
SESSION_CLOSE = ["session.ending", "session.ended"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with stage(CLAUDE) as on:
        ran = await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100))))
        assert ran.code == 0
        assert told(await on.receipts()) == [*SESSION_OPEN, *FRAME, *SESSION_CLOSE]
