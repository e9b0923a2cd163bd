"""The real OpenCode asks for a permission, and says when it has its answer."""

import asyncio
import json

from lifebus.live.model.scripting import prompt, run, say
from lifebus.live.programs.base import Turn
from lifebus.live.programs.opencode import OPENCODE
from support.e2e.harness_run import harness_run
from support.e2e.waits import waits_told
from support.patience import PATIENCE_S


async def test_a_permission_is_waited_for_from_its_request_to_its_reply() -> None:
    async with harness_run(OPENCODE) as on:
        # `opencode run --auto` asks as the terminal does, and answers itself.
        (on.box.project / "opencode.json").write_text(json.dumps({"permission": {"bash": "ask"}}))
        await on.run(Turn(prompt("Work.", run("touch made"), say("done"))))
        assert (on.box.project / "made").exists()
        async with asyncio.timeout(PATIENCE_S):
            told = await waits_told(on.bus, lambda told: len(told) == 2)
        assert told == [("begun", "permission", "bash", None), ("ended", "permission", None, "answered")]
