"""The real Codex CLI on the bus."""

from e2e.harnesses.base import Turn
from e2e.harnesses.codex import CODEX
from e2e.scripting import prompt, run, say
from e2e.stage import stage, told

TRUSTED = ("--dangerously-bypass-hook-trust",)

SESSION_OPEN = ["session.starting", "session.started"]
FRAME = ["frame.opening", "frame.opened", "frame.ending", "frame.ended completed"]
SESSION_CLOSE = ["session.ending", "session.ended"]


async def test_a_session_with_a_tool_call_is_told_from_its_start_to_its_end() -> None:
    async with stage(CODEX) as on:
        ran = await on.run(Turn(prompt("Look.", run("echo hi", 9_000), say("done", 9_100)), arguments=TRUSTED))
        assert ran.code == 0
        assert told(await on.receipts()) == [*SESSION_OPEN, *FRAME, *SESSION_CLOSE]
