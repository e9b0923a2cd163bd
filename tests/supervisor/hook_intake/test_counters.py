"""What `status` says of calls that did not come in."""

import socket

import anyio

from support.patience import PATIENCE_S
from support.running import connected, running_bus, until_answered

WHOLE = b'{"v":1,"call_id":"c","adapter":"codex","hook":"Stop","cwd":"/","env":{},"size":2}\n{}'


async def test_status_tells_calls_that_were_cut_off_from_malformed_ones() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:

        async def counters() -> dict[str, int]:
            return (await bus.status()).counters

        for sent in (WHOLE[:40], WHOLE[:-1], b"no header\n"):
            with socket.socket(socket.AF_UNIX) as hook:
                hook.connect(str(daemon.settings.runtime_dir / "hook.sock"))
                hook.sendall(sent)
        with anyio.move_on_after(PATIENCE_S):
            await until_answered(counters, lambda now: now["hook_malformed"] and now["hook_cut_off"] > 1)
        found = await counters()
    assert (found["hook_cut_off"], found["hook_malformed"], found["hook_starved"], found["hook_calls"]) == (2, 1, 0, 0)
