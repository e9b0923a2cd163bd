"""The real Codex app-server asks a person, and says when that is over."""

import asyncio

from lifebus.live.model.scripting import prompt, run, say
from support.e2e.app_server import LIFEBUS, place
from support.e2e.waits import waits_told
from support.patience import PATIENCE_S
from support.running import connected, running_bus


async def test_an_approval_is_waited_for_from_its_request_to_its_answer() -> None:
    async with (
        place(with_broker=False) as on,
        running_bus() as daemon,
        on.client(*LIFEBUS, "app-server", "run", "--runtime-dir", str(daemon.settings.runtime_dir), "--") as client,
        connected(daemon) as bus,
    ):
        thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
        turn = await client.begin(thread, prompt("Work.", run("touch made", 2_000), say("done", 3_000)))
        request = await client.wait(lambda one: one.get("method", "").endswith("requestApproval"))

        async def answer() -> None:
            (one,) = (await bus.status()).waiting
            assert (one.harness_session_id, one.waiting[0].waiting_for) == (thread, "permission")
            await client.send({"id": request["id"], "result": {"decision": "accept"}})

        async with asyncio.timeout(PATIENCE_S):
            told = await waits_told(bus, lambda told: told[-1][0] == "ended", answer)
        assert told == [
            ("begun", "permission", "command_approval", None),
            ("ended", "permission", "command_approval", "answered"),
        ]
        assert (await client.ended(turn))["status"] == "completed"
        assert (await bus.status()).waiting == ()
        assert await client.close() == 0
